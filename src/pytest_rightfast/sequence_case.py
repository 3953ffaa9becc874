"""`perf.sequence(...)`: a sequence as a perf case, with the usual stages and a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .case import Call
from .compare import Tolerance
from .errors import CaseError
from .results import Row
from .schedules import Schedule, as_schedules
from .sequence import EXACT, Plan, expect, judge, verify
from .worlds import Numbered, Outcome

if TYPE_CHECKING:
    from .fixture import Perf


def run(
    perf: Perf,
    make: Callable[[], Any],
    fresh: Callable[[], Any],
    steps: Any,
    *,
    stateful: bool = False,
    state: Callable[[Any], Any] | Sequence[str] | None = None,
    exact: bool = True,
    rtol: float | None = None,
    atol: float = 0.0,
    hold: bool = True,
    check: Callable[[Any], object] | None = None,
    seed: int = 0,
    timed: bool = False,
) -> Row:
    """Run steps on one long-lived object and compare each with a fresh object.

    Args:
        make: builds the object under test; called once for each pass over a schedule.
        fresh: builds what is right: the same without graphs, caches and buffers. A new one is
            built for every step, or, if the object is stateful, one that does all steps.
        steps: steps (`call(x)`, `call.method(x)`, `call.backward()`, `put(...)`, `swap(x)`,
            `act(function)`), or schedules from `toggled`, `sizes`, `swaps`, `drawn`.
        stateful: False if a step means the same whatever was called before it: the fresh object
            then runs that step alone, after the `lasting()` steps before it and the calls that it
            is `needing(n)`. True if every call changes what later ones mean.
        state: names of attributes, or a function of the object, compared after every step; by
            default a module's `state_dict()`, as far as the fresh object has it.
        exact: bit for bit but for NaN and -0; False allows tolerances by dtype.
        rtol, atol: tolerances; giving one means `exact=False`.
        hold: also check that no step changes the result of an earlier one.
        check: `check(object)` after every step returns None or True, or False or a message: for
            what has no wrong answer (a cache that grows, graphs recorded, memory held).
        seed: of everything that `make`, `fresh` and the steps draw.
        timed: also time the whole schedule as one unit, once it is verified. It must mean the
            same when it is run again on the same object, and must not draw random numbers.

    Raises:
        WrongAnswer: with the minimal failing schedule.
        CaseError: a step is impossible on a fresh object, or the schedule cannot be timed.
    """
    __tracebackhide__ = True
    loose = not exact or rtol is not None or atol != 0.0
    tolerance = Tolerance(rtol, atol) if loose else EXACT
    plan = Plan(make, fresh, stateful, state, tolerance, hold, check, seed)
    unit = _Unit(plan, as_schedules(steps), timed)
    options = perf.session.options
    if not timed:
        perf.session.options = replace(options, timing=False)
    try:
        row = perf(unit, inputs=lambda generator: Call(()), check=unit.check)
    finally:
        perf.session.options = options
    if not timed:  # nothing was counted: the unit does no work then
        row.counters, row.inexact = {}, []
    return row


@dataclass(frozen=True)
class _Report:
    text: str


class _Unit:
    """One pass over a schedule, as the function of a perf case. Its first call verifies."""

    __name__ = "sequence"

    def __init__(self, plan: Plan, schedules: list[Schedule], timed: bool) -> None:
        self._plan, self._schedules, self._timed = plan, schedules, timed
        self._verified = False
        self._pass: list[Callable[[], Any]] = []
        self._wanted: list[Outcome] = []

    def __call__(self) -> Any:
        if not self._verified:
            if self._timed:
                self._schedules = _doubled(self._plan, self._schedules)
            report = verify(self._plan, self._schedules)
            if report is not None:
                return _Report(report)
            self._verified = True
            self._prepare()
        return [step() for step in self._pass]

    def check(self, output: Any) -> str | None:
        """The verdict on what one pass returned."""
        if isinstance(output, _Report):
            return output.text
        for number, (got, wanted) in enumerate(zip(output, self._wanted)):
            found = Outcome(self._world.plain(got), None, wanted.arguments, wanted.state)
            if wrong := judge(self._plan, found, wanted):
                return f"step {number} of a repeated pass: {wrong}"
        return None

    def _prepare(self) -> None:
        """Bind arguments beforehand, so that a pass is the object's work and little else."""
        if not self._timed:
            return
        steps = self._schedules[0].steps
        once: Numbered = list(enumerate(steps[: len(steps) // 2]))
        self._wanted = expect(self._plan, once)
        self._world = self._plan.world(self._plan.make, once)
        self._pass = [self._world.bind(number, step)[0] for number, step in once]


def _doubled(plan: Plan, schedules: list[Schedule]) -> list[Schedule]:
    """The schedule twice in a row, as timing will run it; it must mean the same both times."""
    if len(schedules) != 1:
        raise CaseError(
            "several schedules cannot be timed as one unit",
            expected="one schedule",
            got=f"{len(schedules)}",
            remedy="verify them in a test of their own",
        )
    steps = schedules[0].steps
    if any(step.raises for step in steps):
        raise CaseError(
            "a timed sequence cannot raise",
            expected="steps that return",
            remedy="drop raises= or time=",
        )
    outcomes = expect(plan, list(enumerate(steps * 2)))
    for number, (first, second) in enumerate(zip(outcomes, outcomes[len(steps) :])):
        if wrong := judge(plan, second, first):
            raise CaseError(
                "the schedule cannot be timed as one unit: its second pass means something else",
                expected="the same results from every pass over the steps",
                got=f"step {number}: {wrong}",
                remedy="start it with a step that resets the object, or leave timed= out",
            )
    return [Schedule(schedules[0].name, steps * 2)]
