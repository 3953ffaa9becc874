"""The gate's report as Markdown, for a job summary or a comment.

Case names, reasons and paths come from the change under test, which may be a stranger's: nothing of
them may become a table cell, a heading, HTML, a link, an image or a mention.
"""

from __future__ import annotations

import re

from . import gate_report
from .gate import Report
from .verdicts import Verdict

LONGEST = 600  # characters of one reason
SPECIAL = re.compile(r"[\\`*_{}\[\]()<>#+!|~&:$\"'=^]")


def escape(text: str, longest: int = LONGEST) -> str:
    """Text that shows as it is, on one line, in any place of a Markdown document."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(plain) > longest:
        plain = plain[: longest - 3] + "..."
    # A character reference is never syntax. A mention is found in the rendered text, so the name
    # is cut off from its sign; a bare address is found by its `www.`.
    quoted = SPECIAL.sub(lambda match: f"&#{ord(match[0])};", plain)
    quoted = quoted.replace("@", "@&#8203;")
    return re.sub(r"(?i)\bwww\.", "www&#46;", quoted)


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
    parts += ["", *(f"- {escape(note)}" for note in report.notes)]
    return "\n".join(parts).rstrip() + "\n"


def failure(why: str) -> str:
    """Where the gate could not run."""
    return f"## rightfast: the gate could not run\n\n{escape(why, 4000)}\n"


def _table(report: Report) -> str:
    rows = [[escape(cell) for cell in row] for row in gate_report.rows(report)]
    right = [name in gate_report.NUMBERS for name in gate_report.HEADERS]
    lines = [list(gate_report.HEADERS), ["---:" if r else "---" for r in right], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
