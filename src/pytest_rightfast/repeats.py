"""`--perf-repeats N`: each case in N fresh processes that take turns, so that what differs between
processes (addresses, the order of allocations, hash seeds) is part of the spread.

All processes live through the whole run and measure one at a time: case after case, and of each
case process after process, in turned order for every other case, so that a slow drift favours none.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from . import messages, pairs, sides
from .gate_sides import QUIET
from .results import parse_row
from .rows import Row
from .workers import WorkerError

# The worst of the processes decides.
WORST = ("wrong", "error", "unsupported", "ok")


class Repeats:
    """The processes of one run, started at its first case. A `fixture.Source`."""

    def __init__(
        self, config: pytest.Config, count: int, profile: bool, trace: Path | None
    ) -> None:
        self._config, self._count = config, count
        self._profile, self._trace = profile, trace
        self._stack = ExitStack()
        self._pair: pairs.Pair | None = None
        self._turn = 0

    def row_like(self, row: Row) -> Row:
        """What all processes say of a case, as one row."""
        if self._pair is None:
            patience = lambda: pairs.ANSWER_SECONDS  # noqa: E731
            self._pair = self._stack.enter_context(pairs.fresh(self._arms(), patience))
        numbers = list(range(self._count))
        if self._turn % 2:
            numbers.reverse()
        self._turn += 1
        found = {number: self._ask(number, row) for number in numbers}
        joined = join([found[number] for number in range(self._count)])
        return replace(joined, order=row.order)

    def _ask(self, number: int, row: Row) -> Row:
        """One process; the first also profiles, which slows it down after it has measured."""
        assert self._pair is not None
        first = number == 0
        trace = str(self._trace.absolute()) if first and self._trace else ""
        request = messages.Measure(row.id, self._profile and first, trace)
        try:
            reply = self._pair.ask(_name(number), request, messages.Measured)
        except WorkerError as error:
            return replace(row, status="error", reason=" ".join(str(error).split()))
        return parse_row(f"process {number + 1}, {row.id}", reply.row)

    def _arms(self) -> list[pairs.Arm]:
        """Processes that import what this one would, and collect the same."""
        folder = self._config.invocation_params.dir
        path = os.pathsep.join(os.path.abspath(folder / one) for one in sys.path)
        environment = {**os.environ, "PYTHONPATH": path}
        layout = sides.Layout(str(self._config.rootpath), [], [], [], [])
        arguments = [*map(str, self._config.invocation_params.args), *QUIET]
        hello = messages.Hello(messages.VERSION, layout.as_json(), arguments)
        return [pairs.Arm(_name(n), folder, environment, hello) for n in range(self._count)]

    def close(self) -> None:
        self._stack.close()


def _name(number: int) -> str:
    return f"process {number + 1}"


def join(rows: Sequence[Row]) -> Row:
    """One row of the same case measured in several processes.

    Wrong in any process is wrong. Counters are exact if the processes agree; errors are the worst;
    `inputs` is empty if they drew different ones.
    """
    worst = min(rows, key=lambda row: WORST.index(row.status))
    if worst.status != "ok":
        alike = all((row.status, row.reason) == (worst.status, worst.reason) for row in rows)
        where = "" if alike else f"in process {rows.index(worst) + 1} of {len(rows)}: "
        reason = f"{where}{worst.reason}"
        return replace(worst, reason=reason, samples=[], processes=[], host=[], profile={})
    first = rows[0]
    counters = {
        k: n for k, n in first.counters.items() if all(r.counters.get(k) == n for r in rows)
    }
    seen = {name for row in rows for name in (*row.counters, *row.inexact)}
    timed = any(row.samples for row in rows)
    return replace(
        first,
        samples=[sample for row in rows for sample in row.samples],
        processes=[len(row.samples) for row in rows] if timed else [],
        host=[sample for row in rows for sample in row.host],
        discarded=sum(row.discarded for row in rows),
        first_call=_middle([row.first_call for row in rows]),
        compile_seconds=_middle([row.compile_seconds for row in rows]),
        steady=all(row.steady for row in rows),
        error=_largest([row.error for row in rows]),
        worst_error=_largest([row.worst_error for row in rows]),
        errors={k: max(row.errors.get(k, 0.0) for row in rows) for k in first.errors},
        counters=counters,
        inexact=sorted(seen - counters.keys()),
        inputs=first.inputs if len({row.inputs for row in rows}) == 1 else "",
        copy_seconds=min((r.copy_seconds for r in rows if r.copy_seconds), default=None),
        state={name: value for row in rows for name, value in row.state.items()},
        overhead=sum(row.overhead for row in rows),
        profile={**first.profile},
    )


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _largest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
