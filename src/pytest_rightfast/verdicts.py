"""Two sides' facts -> one verdict a case. Pure: no I/O, no clock. Exit codes: exits.py."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pytest_rightfast.statistics import Decision, Outcome


class Verdict(StrEnum):
    FASTER = "faster"
    SAME = "same"
    SLOWER = "slower"
    UNDECIDED = "undecided"
    IMPLAUSIBLE = "implausible"
    WRONG = "wrong"
    WRONG_ON_BOTH = "wrong on both"
    FIXED = "fixed"
    LESS_ACCURATE = "less accurate"
    COSTLIER = "costlier"
    NEW = "new"
    GONE = "gone"
    NOT_COMPARABLE = "not comparable"
    NOT_MEASURED = "not measured"


# Shown, but no cost by itself: one more helper function is a matter of style, and what it costs in
# time is for the pairs to say.
UNGATED = ("python_calls",)

# Of several findings about one case, the first names it.
SEVERITY = (
    Verdict.WRONG,
    Verdict.WRONG_ON_BOTH,
    Verdict.IMPLAUSIBLE,
    Verdict.LESS_ACCURATE,
    Verdict.SLOWER,
    Verdict.COSTLIER,
    Verdict.FIXED,
    Verdict.FASTER,
    Verdict.SAME,
    Verdict.UNDECIDED,
)


class Status(StrEnum):
    """How one side fared with one case."""

    OK = "ok"
    WRONG = "wrong"
    IMPLAUSIBLE = "implausible"
    RAISED = "raised"  # the case's own code, an import of the perf file included
    SKIPPED = "skipped"
    ABSENT = "absent"  # collection worked, and has no such id
    NOT_MEASURED = "not measured"  # worker dead, foreign module, out of time


@dataclass(frozen=True)
class Side:
    status: Status
    reason: str = ""


@dataclass(frozen=True)
class Finding:
    """One thing said about a case.

    `size` is what a waiver's limit is held against: a ratio head/base, 1 where there is none.
    `added`: a counter's absolute increase; `counter`: its name.
    """

    verdict: Verdict
    reason: str
    size: float = 1.0
    added: float = 0.0
    counter: str = ""


@dataclass(frozen=True)
class Facts:
    """All that is known of one case.

    `error_ratio`: head's error to float64 over base's, the worst of the input families (see
    `ulps.error_ratio`). `counters`: name -> (base, head), from `exact_counters`. `differ`: why the
    two sides' times can't be compared though both ran (another input fingerprint), else empty.
    `untimed`: why there is no time to compare, though answers and counters are.
    """

    case: str
    base: Side
    head: Side
    decision: Decision | None = None
    error_ratio: float | None = None
    accuracy_limit: float = 1.5
    counters: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    differ: str = ""
    untimed: str = ""


@dataclass(frozen=True)
class Judgement:
    """`excused`: findings that must not fail the gate -> why (a waiver, a quarantine)."""

    case: str
    findings: tuple[Finding, ...]
    compared: bool
    excused: Mapping[Finding, str] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        return self.findings[0].verdict

    @property
    def reason(self) -> str:
        return "; ".join(finding.reason for finding in self.findings if finding.reason)

    def failing(self, fail_on: frozenset[Verdict]) -> tuple[Finding, ...]:
        """The findings that fail the gate: named by `fail_on`, and excused by nothing."""
        return tuple(f for f in self.findings if f.verdict in fail_on and f not in self.excused)


def judge(facts: Facts) -> Judgement:
    """The verdict of one case; where both sides ran, every finding about it, gravest first."""
    structural = _structural(facts)
    if structural is not None:
        return Judgement(facts.case, (structural,), compared=False)
    findings = [*_accuracy(facts), *_costs(facts), _time(facts)]
    findings.sort(key=lambda f: SEVERITY.index(f.verdict))
    if any(f.verdict is Verdict.FASTER for f in findings):
        # Faster for one more allocation: the maintainer's call, through accepted.toml.
        findings = [
            replace(f, reason=f"a trade for speed: {f.reason}")
            if f.verdict is Verdict.COSTLIER
            else f
            for f in findings
        ]
    return Judgement(facts.case, tuple(findings), compared=True)


def _structural(facts: Facts) -> Finding | None:
    """What can be said without comparing, or None where both sides ran and answered right.

    Head's own faults come first: a wrong case is wrong whether or not base knows it.
    """
    base, head = facts.base, facts.head
    if head.status is Status.WRONG:
        both = base.status is Status.WRONG
        return Finding(Verdict.WRONG_ON_BOTH if both else Verdict.WRONG, head.reason)
    if head.status is Status.IMPLAUSIBLE:
        return Finding(Verdict.IMPLAUSIBLE, head.reason)
    if head.status in (Status.RAISED, Status.NOT_MEASURED):
        return Finding(Verdict.NOT_MEASURED, f"head {head.status}: {head.reason}")
    if head.status is Status.ABSENT:
        return Finding(Verdict.GONE, head.reason or "head has no such case")
    if head.status is Status.SKIPPED:
        if base.status is Status.OK:
            return Finding(Verdict.NOT_MEASURED, f"skipped on head only: {head.reason}")
        return Finding(Verdict.NOT_COMPARABLE, f"skipped on head: {head.reason}")
    return _base_trouble(base) or _different(facts.differ)


def _base_trouble(base: Side) -> Finding | None:
    """Head is right; what base's own state makes of the case."""
    if base.status is Status.ABSENT:
        return Finding(Verdict.NEW, base.reason or "base has no such case")
    if base.status is Status.WRONG:
        return Finding(Verdict.FIXED, f"wrong on base: {base.reason}")
    if base.status is Status.NOT_MEASURED:
        return Finding(Verdict.NOT_MEASURED, f"base not measured: {base.reason}")
    if base.status in (Status.RAISED, Status.SKIPPED, Status.IMPLAUSIBLE):
        # Never `new`: an ImportError says nothing of whether base has the case.
        return Finding(Verdict.NOT_COMPARABLE, f"base {base.status}: {base.reason}")
    return None


def _different(why: str) -> Finding | None:
    return Finding(Verdict.NOT_COMPARABLE, why) if why else None


def _accuracy(facts: Facts) -> list[Finding]:
    ratio = facts.error_ratio
    if ratio is None or ratio <= facts.accuracy_limit:
        return []
    reason = f"error to float64 is {ratio:.3g}x base's, above {facts.accuracy_limit:.3g}x"
    return [Finding(Verdict.LESS_ACCURATE, reason, ratio)]


def _costs(facts: Facts) -> list[Finding]:
    found = []
    for name, (base, head) in facts.counters.items():
        if head > base and name not in UNGATED:
            size = head / base if base else math.inf
            reason = f"{name} {base:,.0f} -> {head:,.0f}"  # counts: whole numbers
            found.append(Finding(Verdict.COSTLIER, reason, size, head - base, name))
    return found


def _time(facts: Facts) -> Finding:
    decision = facts.decision
    if facts.untimed:
        return Finding(Verdict.SAME, facts.untimed)
    if decision is None:
        return Finding(Verdict.UNDECIDED, "no pairs were timed")
    return Finding(_VERDICTS[decision.outcome], decision.reason, decision.ratio)


_VERDICTS = {outcome: Verdict(outcome.value) for outcome in Outcome}


def exact_counters(
    base: Iterable[Mapping[str, float]],
    head: Iterable[Mapping[str, float]],
    base_versions: Mapping[str, str],
    head_versions: Mapping[str, str],
) -> dict[str, tuple[float, float]]:
    """Counters that may gate: equal in every pass of a side (two or more), same versions on both.

    Other torch, Triton or Python count differently without any change of the code: then none gates.
    """
    sides = [_agreeing(list(base)), _agreeing(list(head))]
    if dict(base_versions) != dict(head_versions):
        return {}
    return {name: (sides[0][name], sides[1][name]) for name in sides[0] if name in sides[1]}


def _agreeing(passes: list[Mapping[str, float]]) -> dict[str, float]:
    if len(passes) < 2:
        return {}
    first = passes[0]
    return {name: n for name, n in first.items() if all(p.get(name) == n for p in passes[1:])}
