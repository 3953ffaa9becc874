"""Errors of the suite."""

from __future__ import annotations


class PerfError(Exception):
    """What a person can act on: says what was expected, what was found, and the remedy."""
