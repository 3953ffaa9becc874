"""A pytest plugin for performance cases that are verified before they are timed."""

from .case import RESERVED, Backend, Call, PerfCase, peer, subject
from .errors import CaseError, PerfError, ResultsError, StateError, Unsupported, WrongAnswer

__all__ = [
    "RESERVED",
    "Backend",
    "Call",
    "CaseError",
    "PerfCase",
    "PerfError",
    "ResultsError",
    "StateError",
    "Unsupported",
    "WrongAnswer",
    "peer",
    "subject",
]
