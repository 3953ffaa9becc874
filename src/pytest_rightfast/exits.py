"""All verdicts -> one exit code.

Exit codes lie outside pytest's 0 to 5, which keep their meaning: an interrupt (2), an internal
error (3) or a usage error (4) comes before any verdict. Of several, the first in this order wins:

    11  answers   wrong, wrong on both, implausible, less accurate
    13  missing   gone, not measured, not comparable, or no case was compared at all
    10  slower
    12  costlier
    14  other     undecided, faster, new, fixed, same: only where `--fail-on` names them
    15  the gate could not run: revision, build, lock, configuration (any PerfError)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from pytest_rightfast.verdicts import Judgement, Verdict


class ExitCode(IntEnum):
    PASSED = 0
    SLOWER = 10
    ANSWERS = 11
    COSTLIER = 12
    MISSING = 13
    OTHER = 14
    GATE = 15


PRECEDENCE = (
    ExitCode.ANSWERS,
    ExitCode.MISSING,
    ExitCode.SLOWER,
    ExitCode.COSTLIER,
    ExitCode.OTHER,
)
CODES = {
    Verdict.WRONG: ExitCode.ANSWERS,
    Verdict.WRONG_ON_BOTH: ExitCode.ANSWERS,
    Verdict.IMPLAUSIBLE: ExitCode.ANSWERS,
    Verdict.LESS_ACCURATE: ExitCode.ANSWERS,
    Verdict.GONE: ExitCode.MISSING,
    Verdict.NOT_MEASURED: ExitCode.MISSING,
    Verdict.NOT_COMPARABLE: ExitCode.MISSING,
    Verdict.SLOWER: ExitCode.SLOWER,
    Verdict.COSTLIER: ExitCode.COSTLIER,
    Verdict.UNDECIDED: ExitCode.OTHER,
    Verdict.FASTER: ExitCode.OTHER,
    Verdict.SAME: ExitCode.OTHER,
    Verdict.NEW: ExitCode.OTHER,
    Verdict.FIXED: ExitCode.OTHER,
}
# A case that head had to change (an input, a renamed API) is not comparable by intent, and what the
# pairs could not settle is no fault of the change: both are printed, and fail only on request.
DEFAULT_FAIL_ON = frozenset(
    {
        Verdict.WRONG,
        Verdict.WRONG_ON_BOTH,
        Verdict.IMPLAUSIBLE,
        Verdict.LESS_ACCURATE,
        Verdict.GONE,
        Verdict.NOT_MEASURED,
        Verdict.SLOWER,
        Verdict.COSTLIER,
    }
)


@dataclass(frozen=True)
class Result:
    """`code` is what the process exits with; `would` what it would be without advisory mode."""

    code: ExitCode
    would: ExitCode
    reasons: tuple[str, ...]


def outcome(result: Result) -> str:
    """`passed`, or by what it failed or would fail, and the exit code."""
    code, would = result.code, result.would
    if code == would:
        return "passed" if code == 0 else f"failed ({code.name.lower()}, exit {int(code)})"
    return f"advisory: would fail ({would.name.lower()}, exit {int(would)})"


def conclude(
    judgements: Iterable[Judgement],
    *,
    fail_on: frozenset[Verdict] = DEFAULT_FAIL_ON,
    advisory: bool = False,
    untimed: str = "",
) -> Result:
    """One exit code for the gate; zero compared cases fails, whatever `fail_on` says.

    Advisory mode turns every failure of a verdict into 0, but not a gate that compared nothing: it
    would advise nothing for ever.

    Args:
        untimed: why no case at all was timed often enough to be judged, or empty.
    """
    listed = list(judgements)
    codes: set[ExitCode] = set()
    reasons: list[str] = []
    for judgement in listed:
        for finding in judgement.failing(fail_on):
            codes.add(CODES[finding.verdict])
            reasons.append(f"{judgement.case}: {finding.verdict}: {finding.reason}")
    nothing = untimed
    if not any(judgement.compared for judgement in listed):
        nothing = f"no case was compared ({len(listed)} seen)"
    if nothing:
        codes.add(ExitCode.MISSING)
        reasons.append(nothing)
    would = next((code for code in PRECEDENCE if code in codes), ExitCode.PASSED)
    if advisory:
        code = ExitCode.MISSING if nothing else ExitCode.PASSED
        return Result(code, would, tuple(reasons))
    return Result(would, would, tuple(reasons))


def parse_fail_on(text: str) -> frozenset[Verdict]:
    """`slower,wrong on both` -> verdicts; hyphens and underscores may stand for the spaces."""
    chosen = set()
    for part in filter(None, (p.strip() for p in text.split(","))):
        name = part.replace("-", " ").replace("_", " ").lower()
        if name not in set(Verdict):
            known = ", ".join(Verdict)
            raise ValueError(f"fail-on: expected verdicts of {known}; got {part!r}")
        chosen.add(Verdict(name))
    return frozenset(chosen)
