"""The gate's report as Markdown, for a job summary."""

from __future__ import annotations

from . import gate_report
from .gate import Report
from .markdown import escape, table
from .verdicts import Verdict


def document(report: Report) -> str:
    parts = [f"## rightfast: {escape(gate_report.conclusion(report))}", ""]
    parts += [escape(line) for line in gate_report.heading(report)]
    parts += ["", _table(report), ""]
    for judgement in report.judgements:
        if judgement.verdict not in gate_report.QUIET:
            name, reason = escape(judgement.case), escape(judgement.reason)
            parts.append(f"- **{judgement.verdict}** {name}: {reason}")
        for finding, why in judgement.excused.items():
            parts.append(f"- {finding.verdict} accepted: {escape(why)}")
        if judgement.verdict is Verdict.WRONG_ON_BOTH:
            parts.append("  (base is wrong as well: this change did not cause it)")
    parts += [f"- answers of {escape(line)}" for line in gate_report.differences(report)]
    parts += ["", *(f"- {escape(note)}" for note in report.notes)]
    return "\n".join(parts).rstrip() + "\n"


def failure(why: str) -> str:
    """Where the gate could not run."""
    return f"## rightfast: the gate could not run\n\n{escape(why, 4000)}\n"


def _table(report: Report) -> str:
    return table(gate_report.HEADERS, gate_report.NUMBERS, gate_report.rows(report))
