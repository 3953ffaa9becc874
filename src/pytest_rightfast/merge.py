"""Rows of several files as those of one run: split over backends, devices, commits or shards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from .errors import ResultsError
from .results import load
from .rows import Row
from .tables import WHERE, in_order


def merged(files: Sequence[Path]) -> list[Row]:
    """All rows, in the order of pytest's collection.

    Raises:
        ResultsError: a file cannot be read, or two hold the same measurement.
    """
    return in_order(_once((file, row) for file in files for row in load(file)))


def _once(found: Iterable[tuple[Path, Row]]) -> list[Row]:
    """Refuse what was measured twice: which one is right is not ours to choose."""
    seen: dict[tuple[object, ...], Path] = {}
    rows = []
    for file, row in found:
        if (what := identity(row)) in seen:
            raise ResultsError(
                f"{row.id} is there twice",
                expected="each case once for one device, thread count, heap, commit and machine",
                got=f"{seen[what]} and {file}",
                remedy="leave one of them out; --perf-repeats N measures in several processes",
            )
        seen[what] = file
        rows.append(row)
    return rows


def identity(row: Row) -> tuple[object, ...]:
    """What a row measured, and where: two runs of it are the same measurement."""
    where = tuple(str(row.environment.get(name)) for name in WHERE)
    return (row.id, row.backend, row.device, row.threads, row.heap, *where)


def selected(rows: Iterable[Row], words: Sequence[str]) -> list[Row]:
    """Rows whose id holds one of the words; all, if there are none. Raises ResultsError."""
    listed = list(rows)
    if not words:
        return listed
    found = [row for row in listed if any(word in row.id for word in words)]
    if not found:
        raise ResultsError(
            f"no case fits -k {' '.join(words)}",
            expected="words that are part of a test's id",
            got=", ".join(row.id for row in listed[:3]) or "no rows at all",
            remedy="drop -k to see all",
        )
    return found
