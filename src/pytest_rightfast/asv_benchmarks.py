"""The benchmarks of one test function, and how each reads its number from a measured row."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .asv_rows import Measured, Rows, is_wrong

# Raised when numbers come to mean something else; asv then drops the old ones. A fixed text and
# not asv's own hash of the source, so that a comment does not cut a case's history.
VERSION = "1"
# asv compares every sample with every other in Python.
MOST_SAMPLES = 1000


class Parameters(str):
    """The parameter part of a node id, shown by asv without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class _Clock:
    """A timer for `timeit` that replays samples: each call is between 0 and the next sample."""

    def __init__(self) -> None:
        self.samples: list[float] = [math.nan]
        self.calls = 0

    def __call__(self) -> float:
        index, end = divmod(self.calls, 2)
        self.calls += 1
        return self.samples[index % len(self.samples)] if end else 0.0


class Maker:
    """Makes the benchmarks of one test function: functions with the attributes that asv reads."""

    def __init__(
        self,
        rows: Rows,
        base: str,
        cases: list[dict[str, str]],
        perf: Path,
        rounds: int,
        timeout: float,
    ) -> None:
        self.rows, self.base, self.cases, self.rounds = rows, base, cases, rounds
        file, *names = base.split("::")
        module = (rows.side.root / file).relative_to(perf).with_suffix("").parts
        # asv reads `-` in a name as the start of a parameter's number.
        *self.scope, test = [re.sub(r"\W", "_", part) for part in (*module, *names)]
        self.test = test.removeprefix("test_")
        # The wait for another measurement on this machine, the case, its second try.
        self.timeout = 3 * timeout + 60

    def all(self, counters: Sequence[str]) -> list[Any]:
        made = [
            self._time(),
            self._track("wrong", "wrong", self._wrong),
            self._track("error", "relative error", self._from_row(_error)),
            self._track("percent_of_copy", "%", self._from_row(_percent_of_copy)),
        ]
        for name in counters:
            unit = "bytes" if name.endswith("bytes") else "count"
            made.append(self._track(re.sub(r"\W", "_", name), unit, self._from_row(_counter(name))))
        return made

    def _time(self) -> Any:
        clock, memory = _Clock(), dict[str, list[Measured]]()

        def setup(*parameters: str) -> None:
            case = self._id(parameters)
            if case in memory:
                return  # asv calls it before every sample
            found = memory[case] = self.rows.next(case)
            row = found[-1].row
            if is_wrong(found) or row is None or not row.samples:
                _explain(case, found)
                raise NotImplementedError("no time")  # asv's way to say n/a
            clock.samples = _thinned(row.samples)
            benchmark.repeat = len(clock.samples)  # type: ignore[attr-defined]

        def benchmark(*parameters: str) -> None:
            """The time was taken by `setup`; asv's `timeit` reads it from the clock."""

        self._dress(benchmark, "time")
        for name, value in {
            "setup": setup,
            "timer": clock,
            "repeat": 1,
            "number": 1,
            "warmup_time": 0,
            "rounds": self.rounds,
        }.items():
            setattr(benchmark, name, value)
        setup.pretty_source = ""  # type: ignore[attr-defined]
        return benchmark

    def _track(self, kind: str, unit: str, read: Callable[[str], Any]) -> Any:
        def benchmark(*parameters: str) -> Any:
            return read(self._id(parameters))

        self._dress(benchmark, f"track_{kind}")
        benchmark.unit = unit  # type: ignore[attr-defined]
        return benchmark

    def _dress(self, benchmark: Any, kind: str) -> None:
        benchmark.benchmark_name = ".".join((*self.scope, f"{kind}_{self.test}"))
        benchmark.version, benchmark.timeout = VERSION, self.timeout
        benchmark.pretty_source = self.cases[0]["source"]
        names = [Parameters(case["parameters"]) for case in self.cases if case["parameters"]]
        if names:
            benchmark.params, benchmark.param_names = [names], ["case"]

    def _id(self, parameters: Sequence[str]) -> str:
        return f"{self.base}[{parameters[0]}]" if parameters else self.base

    def _wrong(self, case: str) -> float:
        """1 wrong or broken, 0 right, NaN where the case isn't there or does not apply."""
        found = self.rows.all(case)
        if is_wrong(found):
            _explain(case, found)
            return 1
        return 0 if found[-1].status == "ok" else math.nan

    def _from_row(self, read: Callable[[Any], Any]) -> Callable[[str], Any]:
        def value(case: str) -> Any:
            found = self.rows.all(case)
            row = found[-1].row
            if is_wrong(found) or row is None:
                return math.nan
            got = read(row)
            return math.nan if got is None else got

        return value


def _explain(case: str, found: list[Measured]) -> None:
    """Shown by `asv run --show-stderr`."""
    said = [f"{one.status}: {one.reason}" for one in found if one.status != "ok" or one.reason]
    print(f"{case}: {'; '.join(said) or 'no samples'}", file=sys.stderr)


def _thinned(samples: list[float]) -> list[float]:
    step = max(1, math.ceil(len(samples) / MOST_SAMPLES))
    return samples[::step]


def _error(row: Any) -> float | None:
    """To the nearest power of two: another order of summation is no loss of accuracy."""
    if row.error is None or not math.isfinite(row.error):
        return None
    power = 2.0 ** round(math.log2(max(row.error, 2.0**-53)))
    return float(f"{power:.2g}")


def _percent_of_copy(row: Any) -> dict[str, Any] | None:
    """The time in percent of what `copy_` of the same bytes takes: samples, as asv's times are."""
    if not row.copy_seconds or not row.samples:
        return None
    percents = [round(100 * sample / row.copy_seconds, 1) for sample in _thinned(row.samples)]
    return {"samples": percents, "number": 1}


def _counter(name: str) -> Callable[[Any], Any]:
    return lambda row: row.counters.get(name)
