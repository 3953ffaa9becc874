"""Pair after pair of fresh processes, until every case is settled or the time is up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from . import pairs, ulps
from .config import Config
from .statistics import MIN_PAIRS, Decision, Noise, Outcome, Plan, both, decide, noise_floor
from .trial import Case, Progress
from .verdicts import Facts, Side, Status

# A case is compared no further once it is this sure.
SETTLED = (Outcome.SLOWER, Outcome.FASTER, Outcome.SAME)
# A pair may take this much longer than the one before it.
RESERVE = 1.25
Fresh = Callable[[list[str]], AbstractContextManager[pairs.Pair]]


@dataclass
class Watch:
    """The gate's time: it is planned so that the last pair ends within the budget."""

    budget: float
    begun: float = field(default_factory=lambda: time.monotonic())

    def spent(self) -> float:
        return time.monotonic() - self.begun

    def left(self) -> float:
        return self.budget - self.spent()

    def patience(self) -> float:
        """How long one answer may take: what is left, but a slow case is not given up at once."""
        return min(pairs.ANSWER_SECONDS, max(60.0, self.left()))


class Rounds:
    """Times the comparable cases; the first pair's processes are at hand already.

    `pin`: the cases take one thread, so the processes of a pair may share one core.
    """

    def __init__(
        self, cases: list[Case], config: Config, watch: Watch, say: Progress, pin: bool = False
    ) -> None:
        self.config, self.watch, self.say, self.pin = config, watch, say, pin
        self.cases = [case for case in cases if _timed(case)]
        self.untimed = [case for case in cases if not _timed(case)]
        self.plan = Plan(cases=max(1, len(self.cases)), min_effect=config.min_effect)
        self.done = 0
        self.seconds = 0.0  # of the last pair

    def first(self, pair: pairs.Pair, starting: float) -> None:
        """Time in the pair that verified; `starting`: seconds that its processes took to start."""
        begun = time.monotonic()
        if self.cases:
            self._time(pair)
        self.seconds = starting + time.monotonic() - begun

    def more(self, fresh: Fresh) -> None:
        for number in range(1, self.plan.looks[-1]):
            waiting = [case for case in self.cases if case.waiting]
            if not waiting or self.watch.left() < RESERVE * self.seconds:
                return
            begun = time.monotonic()
            with fresh(arms_of(waiting)) as pair:
                self._time(pair)
            self.seconds = time.monotonic() - begun
            self._look(number + 1)

    def _time(self, pair: pairs.Pair) -> None:
        waiting = [case for case in self.cases if case.waiting]
        self.say(f"pair {self.done + 1}: {len(waiting)} cases, {self.watch.spent():.0f} s")
        if self.pin:
            pair.pin(self.done)
        for case in waiting:
            right = {arm: found.right for arm, found in case.verified.items()}
            pairs.sample_case(pair, self.done, case.name, case.samples, case.arm, right)
        self.done += 1

    def _look(self, pairs_seen: int) -> None:
        if pairs_seen not in self.plan.looks:
            return
        for case in self.cases:
            if case.waiting:
                found = self._decide(case, self.plan.looks.index(pairs_seen), final=False)
                case.decision = found if found.outcome in SETTLED else None

    def _decide(self, case: Case, look: int, *, final: bool) -> Decision:
        effect = self.config.case(case.name).min_effect or self.plan.min_effect
        typical, case.noise = self._read(case.samples.typical, look, effect, final)
        mean, _ = self._read(case.samples.mean, look, effect, final)
        return both(typical, mean, effect)

    def _read(
        self, ratios: pairs.Ratios, look: int, effect: float, final: bool
    ) -> tuple[Decision, Noise | None]:
        noise = noise_floor(ratios.again) if len(ratios.again) >= MIN_PAIRS else None
        found = decide(ratios.head, self.plan, look, min_effect=effect, noise=noise, final=final)
        return found, noise

    @property
    def untimed_all(self) -> str:
        """Why the times of no case at all can be judged, or empty."""
        if not self.cases or any(len(c.samples.typical.head) >= MIN_PAIRS for c in self.cases):
            return ""
        if any(case.samples.lost for case in self.cases):
            return ""  # those cases say why themselves
        missing = MIN_PAIRS - self.done
        needed = self.watch.spent() + missing * RESERVE * self.seconds
        return (
            f"no time was judged: the budget of {self.watch.budget:g} s left room for {self.done} "
            f"of {MIN_PAIRS} pairs; raise --budget (in pytest --perf-budget) to about "
            f"{math.ceil(needed)} s, or choose fewer cases (-k)"
        )

    def conclude(self) -> None:
        """The facts of every case; one that no look has settled is decided by what there is."""
        for case in self.cases:
            if case.decision is None:
                seen, looks = len(case.samples.typical.head), self.plan.looks
                look = next((i for i, n in enumerate(looks) if seen <= n), len(looks) - 1)
                # The time was up, not the patience with these ratios: what is left may be spent.
                case.decision = self._decide(case, look, final=True)
            case.facts = _facts(case)
        for case in self.untimed:
            case.facts = replace(_facts(case), untimed="answers and counters; it is not timed")


def _timed(case: Case) -> bool:
    return case.verified[case.arm].timed and case.verified["head"].timed


def arms_of(cases: list[Case]) -> list[str]:
    """The arms that these cases are timed on."""
    bases = [base for base in pairs.AGAIN if any(case.arm == base for case in cases)]
    return ["head", *bases, *(pairs.AGAIN[base] for base in bases)]


def _facts(case: Case) -> Facts:
    sides = {"head": case.head, "base": case.base}
    for arm, side in _lost(case.samples).items():
        sides["head" if arm == "head" else "base"] = side
    before, after = case.verified[case.arm].errors, case.verified["head"].errors
    ratio = ulps.worst_ratio(before, after)
    facts = Facts(case.name, sides["base"], sides["head"], case.decision, ratio)
    return replace(facts, counters=case.counters)


def _lost(samples: pairs.Samples) -> Mapping[str, Side]:
    found = {a: Side(Status.WRONG, f"in a timed round: {why}") for a, why in samples.wrong.items()}
    found |= {arm: Side(Status.IMPLAUSIBLE, why) for arm, why in samples.implausible.items()}
    if samples.lost and not found:
        found[samples.lost_on] = Side(Status.NOT_MEASURED, samples.lost)
    return found
