"""Hand measured samples to pytest-benchmark through its public route: a timer, then `pedantic`.

pytest-benchmark sees durations that are exactly our samples, so its tables, files, histograms and
comparisons work on them unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from .results import Row


class ReplayTimer:
    """Answers pairs of readings whose differences are the samples: 0, s1, 0, s2, ...

    Its name is the label that saved runs carry.
    """

    __name__ = "rightfast"

    def __init__(self) -> None:
        self._readings: Iterator[float] = iter(())

    def load(self, samples: list[float]) -> None:
        self._readings = iter([reading for sample in samples for reading in (0.0, sample)])

    def __call__(self) -> float:
        return next(self._readings)


def install_timer(item: pytest.Item) -> None:
    """At collection: the marker that makes pytest-benchmark use a replaying timer."""
    options: dict[str, Any] = {}
    if marker := item.get_closest_marker("benchmark"):
        options = dict(marker.kwargs)
    options["timer"] = ReplayTimer()
    item.add_marker(pytest.mark.benchmark(**options), append=False)


def replay(row: Row, benchmark: Any, timer: ReplayTimer) -> None:
    """Enter a measured row into pytest-benchmark's storage."""
    benchmark.group = benchmark.group or row.case
    if benchmark.params is not None:
        benchmark.params = {name: _plain(value) for name, value in benchmark.params.items()}
    benchmark.extra_info.update(
        backend=row.backend,
        role=row.role,
        counters=row.counters,
        error=row.error,
        errors=row.errors,
        inputs=row.inputs,
        worst_error=row.worst_error,
        loops=row.loops,
        moved_bytes=row.moved_bytes,
        copy_seconds=row.copy_seconds,
        threads=row.threads,
        device=row.device,
        state=row.state,
        environment=row.environment,
    )
    timer.load(row.samples)
    benchmark.pedantic(_nothing, rounds=len(row.samples), iterations=1)


def leave_out(benchmark: Any) -> None:
    """A case without a time: nothing is stored, and no warning says that the fixture was unused."""
    benchmark.skipped = True


def is_regression(error: Exception) -> bool:
    """Whether pytest-benchmark says by it that `--benchmark-compare-fail` was exceeded."""
    from pytest_benchmark.session import PerformanceRegression

    return isinstance(error, PerformanceRegression)


def _nothing() -> None:
    """What `pedantic` runs between two readings of the replaying timer."""


def _plain(value: Any) -> Any:
    """A label that is the same in every run: addresses are left out."""
    if isinstance(value, str | int | float | bool | None):
        return value
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
