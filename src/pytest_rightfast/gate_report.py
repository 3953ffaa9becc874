"""The gate's report as terminal text and as JSON. Verdicts come first, then numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from .accepted import ACCEPTABLE
from .exits import outcome
from .gate import Report
from .tables import seconds, short
from .trial import Case
from .verdicts import Judgement, Verdict

SCHEMA = 1
HEADERS = ("case", "verdict", "base", "head", "ratio", "interval", "visible", "floor", "answers")
NUMBERS = HEADERS[2:8]
QUIET = (Verdict.SAME, Verdict.FASTER)


def lines(report: Report) -> Iterator[str]:
    """The terminal's report."""
    yield from heading(report)
    yield ""
    yield _table(report)
    for judgement in report.judgements:
        if judgement.verdict not in QUIET or judgement.excused:
            yield f"  {judgement.verdict.upper()} {short(judgement.case)}: {judgement.reason}"
        for finding, why in judgement.excused.items():
            yield f"    {finding.verdict} accepted: {why}"
    yield from (f"  answers of {line}" for line in differences(report))
    yield ""
    yield from report.notes
    yield from _remedy(report)
    yield conclusion(report)


def _remedy(report: Report) -> Iterator[str]:
    """Whoever means the change must not have to search for how to say so."""
    open_ = [f for j in report.judgements for f in j.findings if f not in j.excused]
    if report.result.would and any(finding.verdict in ACCEPTABLE for finding in open_):
        yield "if meant, agree to it in perf/accepted.toml: case, verdict, limit, reason, expires"


def heading(report: Report) -> list[str]:
    dirty = " with uncommitted changes" if report.head.dirty else ""
    pairs = f"{report.pairs} pair{'s' * (report.pairs != 1)}"
    return [
        f"base {report.base.commit[:12]}, head {report.head.commit[:12]}{dirty}; "
        f"{pairs} of fresh processes, {report.seconds:.0f} s; "
        f"slower means: lower bound of the ratio above {1 + report.plan.min_effect:.2f}x"
    ]


def differences(report: Report) -> list[str]:
    """How the answers differ, where the table has room for the largest distance alone."""
    return [
        f"{short(case.name)}: {case.outputs}"
        for case in report.cases
        if _answers(case.outputs) != case.outputs
    ]


def conclusion(report: Report) -> str:
    counts: dict[str, int] = {}
    for judgement in report.judgements:
        counts[judgement.verdict] = counts.get(judgement.verdict, 0) + 1
    said = ", ".join(f"{n} {verdict}" for verdict, n in counts.items()) or "no cases"
    return f"{outcome(report.result)}: {said}"


def rows(report: Report) -> list[list[str]]:
    return [_line(case, judgement) for case, judgement in zip(report.cases, report.judgements)]


def _table(report: Report) -> str:
    from tabulate import tabulate

    align = ["right" if name in NUMBERS else "left" for name in HEADERS]
    return tabulate(rows(report), HEADERS, "simple", colalign=align, disable_numparse=True)


def _line(case: Case, judgement: Judgement) -> list[str]:
    decision = case.decision
    samples = case.samples
    known = decision is not None and not math.isnan(decision.ratio)
    return [
        short(case.name),
        str(judgement.verdict),
        seconds(_middle(samples.base)),
        seconds(_middle(samples.head)),
        f"{decision.ratio:.3f}x" if decision and known else "",
        f"{decision.low:.3f}-{decision.high:.3f}" if decision and known else "",
        f"+{decision.smallest_visible:.1%}" if decision and known else "",
        f"{case.noise.floor:.1%}" if case.noise else "",
        _answers(case.outputs),
    ]


def _answers(outputs: str) -> str:
    found = re.search(r"largest \d+ ulp", outputs)
    return found[0] if found else outputs if len(outputs) < 30 else "differ"


def _middle(values: list[float]) -> float | None:
    return sorted(values)[len(values) // 2] if values else None


def as_json(report: Report) -> dict[str, Any]:
    """Everything, with the log-ratios of every pair. Times in seconds, ratios head over base."""
    return {
        "schema": SCHEMA,
        "kind": "gate",
        "base": {"commit": report.base.commit, "tree": report.base.tree},
        "head": {
            "commit": report.head.commit,
            "tree": report.head.tree,
            "dirty": report.head.dirty,
        },
        "plan": {
            "cases": report.plan.cases,
            "looks": list(report.plan.looks),
            "min_effect": report.plan.min_effect,
            "alpha": report.plan.alpha,
        },
        "pairs": report.pairs,
        "seconds": report.seconds,
        "exit_code": int(report.result.code),
        "would_exit": int(report.result.would),
        "reasons": list(report.result.reasons),
        "notes": report.notes,
        "cases": [_case(c, j) for c, j in zip(report.cases, report.judgements)],
    }


def _case(case: Case, judgement: Judgement) -> dict[str, Any]:
    decision = case.decision
    return {
        "case": case.name,
        "verdict": str(judgement.verdict),
        "findings": [
            {"verdict": str(f.verdict), "reason": f.reason, "accepted": judgement.excused.get(f)}
            for f in judgement.findings
        ],
        "base_status": str(case.base.status),
        "head_status": str(case.head.status),
        "base_file": "base's own" if case.arm == "own" else "head's",
        "ratio": _number(decision.ratio) if decision else None,
        "low": _number(decision.low) if decision else None,
        "high": _number(decision.high) if decision else None,
        "smallest_visible": _number(decision.smallest_visible) if decision else None,
        "noise_floor": _number(case.noise.floor) if case.noise else None,
        "base_seconds": case.samples.base,
        "head_seconds": case.samples.head,
        "log_ratios": case.samples.typical.head,
        "aa_log_ratios": case.samples.typical.again,
        "mean_log_ratios": case.samples.mean.head,
        "mean_aa_log_ratios": case.samples.mean.again,
        "outputs": case.outputs,
        "traces": case.trace,
        "errors": {arm: found.errors for arm, found in case.verified.items()},
        "counters": {
            name: list(pair) for name, pair in case.counters.items() if len(set(pair)) > 1
        },
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
