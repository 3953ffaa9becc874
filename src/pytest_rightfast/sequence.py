"""Is an object right after everything that was done to it before? Step by step, exactly.

Each step is run on one long-lived object and compared with the same step on a fresh object that
knows only what the step's meaning needs. Twice: once with every result dropped at once, so that
identities and addresses are recycled, once with all results held, which later steps must not touch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import trees
from .bits import first_difference
from .compare import Mismatch, Tolerance, compare
from .errors import CaseError
from .poison import poisoned
from .schedules import Schedule, shrink
from .steps import Step, paste
from .worlds import Numbered, Outcome, World, snapshot, storages, values

EXACT = Tolerance(0.0, 0.0)


@dataclass(frozen=True)
class Plan:
    """What all schedules of one sequence have in common; see `Perf.sequence`."""

    make: Callable[[], Any]
    fresh: Callable[[], Any]
    stateful: bool = False
    state: Callable[[Any], Any] | Sequence[str] | None = None
    tolerance: Tolerance = EXACT
    hold: bool = True
    check: Callable[[Any], object] | None = None
    seed: int = 0

    def state_of(self, made: Any) -> Any:
        """The declared state; by default a module's state_dict."""
        import torch

        if callable(self.state):
            return self.state(made)
        if self.state is not None:
            return {name: getattr(made, name) for name in self.state}
        return dict(made.state_dict()) if isinstance(made, torch.nn.Module) else {}

    def world(self, make: Callable[[], Any], schedule: Numbered) -> World:
        return World(make, schedule, self.state_of, self.seed)


@dataclass(frozen=True)
class Wrong:
    """The first step of a schedule that is wrong."""

    number: int
    what: Mismatch


def verify(plan: Plan, schedules: Sequence[Schedule]) -> str | None:
    """Run all schedules; None, or a report of the first wrong one, shrunk to what it needs."""
    for schedule in schedules:
        numbered = list(enumerate(schedule.steps))
        wrong = first_wrong(plan, numbered)
        if wrong is not None:
            return _report(plan, schedule, wrong)
    return None


def first_wrong(plan: Plan, numbered: Numbered) -> Wrong | None:
    """The first difference between the long-lived object and fresh ones.

    Raises:
        CaseError: a step is not possible on a fresh object either.
    """
    wanted = expect(plan, numbered)
    for hold in (False, True) if plan.hold else (False,):
        world, held = plan.world(plan.make, numbered), _Held(hold)
        for (number, step), right in zip(numbered, wanted):
            with poisoned():
                got = world.run(number, step)
            wrong = judge(plan, got, right) or held.changed(world) or _broken(plan, world)
            if wrong is not None:
                return Wrong(number, wrong)
            held.add(number, got, world)
            got.live = None
    return None


def expect(plan: Plan, numbered: Numbered) -> list[Outcome]:
    """What each step does on a fresh object that was brought up to date.

    Where all earlier steps count, the one fresh object that has done them does the next, too.
    """
    outcomes: list[Outcome] = []
    world = plan.world(plan.fresh, numbered)
    for place, (number, step) in enumerate(numbered):
        if place and not plan.stateful:
            world = plan.world(plan.fresh, numbered)
            for index in replayed(numbered, place):
                _possible(world.run(*numbered[index]), numbered[index])
            world.restore(outcomes[-1].arguments["shared"])
        outcome = world.run(number, step)
        _possible(outcome, (number, step))
        outcome.live = None
        outcomes.append(outcome)
    return outcomes


def replayed(numbered: Numbered, place: int) -> list[int]:
    """The earlier steps that give the step at `place` its meaning."""
    calls = [index for index in range(place) if numbered[index][1].is_call]
    needed = calls[len(calls) - min(numbered[place][1].needs, len(calls)) :]
    return [index for index in range(place) if numbered[index][1].lasts or index in needed]


def judge(plan: Plan, got: Outcome, wanted: Outcome) -> Mismatch | None:
    """Compare what one step did with what it does on a fresh object."""
    if got.raised is not None or wanted.raised is not None:
        if type(got.raised) is type(wanted.raised):
            return None
        right = f"raises {wanted.raised!r}" if wanted.raised else "returns"
        mine = f"raised {got.raised!r}" if got.raised else "returned"
        return Mismatch("output", f"{mine}; a fresh object {right}")
    state = got.state
    if plan.state is None:  # what a module has beyond the fresh one's state is its own affair
        state = {key: state[key] for key in wanted.state if key in state} if state else {}
    right_state = wanted.state if got.state else {}
    return (
        _differs(plan, got.output, wanted.output, "output")
        or _differs(plan, got.arguments, wanted.arguments, "arguments")
        or _differs(plan, state, right_state, "state")
    )


def _differs(plan: Plan, got: Any, wanted: Any, where: str) -> Mismatch | None:
    dtypes = trees.map_leaves(lambda leaf: {leaf.dtype} if hasattr(leaf, "dtype") else None, wanted)
    wrong, _ = compare(got, wanted, dtypes, plan.tolerance, where)
    if wrong is not None:
        return wrong
    for (path, mine), (_, right) in zip(trees.leaves(got), trees.leaves(wanted)):
        if getattr(mine, "device", None) != getattr(right, "device", None):
            name = trees.show(path).replace("output", where, 1)
            return Mismatch(name, f"expected on {right.device}, got on {mine.device}")
    return None


class _Held:
    """Results and arguments of earlier steps, and copies that later steps cannot touch."""

    def __init__(self, hold: bool) -> None:
        self._hold = hold
        self._kept: list[tuple[int, Any, Any]] = []

    def add(self, number: int, got: Outcome, world: World) -> None:
        if self._hold and got.raised is None:
            returned, given = got.live
            own = {"output": returned, "arguments": world.unshared(given)}
            copies = {"output": got.output, "arguments": snapshot(values(own["arguments"]))}
            self._kept.append((number, own, copies))

    def changed(self, world: World) -> Mismatch | None:
        """What is declared to change (shared arguments, state) is judged by its values instead."""
        owned = world.owned() if self._kept else set()
        for number, live, copies in self._kept:
            now = {"output": world.plain(live["output"]), "arguments": values(live["arguments"])}
            for part in ("output", "arguments"):
                pairs = zip(trees.leaves(now[part]), trees.leaves(copies[part]))
                for (path, leaf), (_, before) in pairs:
                    if storages(leaf) & owned or first_difference(leaf, before) is None:
                        continue
                    name = trees.show(path).replace("output", part, 1)
                    what = "a later step changed it: its memory was reused"
                    return Mismatch(f"{name} of step {number}", what)
        return None


def _possible(outcome: Outcome, numbered: tuple[int, Step]) -> None:
    number, step = numbered
    if type(outcome.raised) is (step.raises or type(None)):
        return
    raise CaseError(
        f"step {number} of the sequence does not do on a fresh object what it says",
        expected=f"{step!r} to " + (f"raise {step.raises.__name__}" if step.raises else "return"),
        got=f"raised {outcome.raised!r}" if outcome.raised else "it returned",
        remedy=".raising(Error) if it should; needing(n), lasting() or stateful=True if it needs "
        "earlier steps",
    ) from outcome.raised


def _broken(plan: Plan, world: World) -> Mismatch | None:
    verdict = plan.check(world.object) if plan.check else None
    if verdict is None or verdict is True:
        return None
    return Mismatch("check", "returned False" if verdict is False else str(verdict))


def _report(plan: Plan, schedule: Schedule, wrong: Wrong) -> str:
    steps = list(enumerate(schedule.steps))

    def fails(numbered: Numbered) -> bool:
        try:
            return first_wrong(plan, numbered) is not None
        except CaseError:  # without the steps left out, this is no schedule
            return False

    least = shrink(steps[: wrong.number + 1], fails)
    last = first_wrong(plan, least) or wrong
    text = paste(least, last.number, str(last.what))
    title = f" of schedule {schedule.name!r}" if schedule.name else ""
    return (
        f"step {wrong.number}{title}: {wrong.what}\n"
        f"minimal failing schedule, {len(least)} of {len(steps)} steps:\n{text}"
    )
