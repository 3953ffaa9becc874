"""A pull request's comment, from the JSON that its run left.

The run executed the pull request's own code, so its Markdown is not taken; the JSON is validated
(`gate_stored`), and every text of it is escaped. The check on the head is the verdict; this is a
courtesy, and says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from .errors import PerfError
from .gate_stored import NAMES, Case, Finding, Stored
from .markdown import escape, table
from .tables import seconds, short
from .verdicts import Verdict

HEADERS = ("case", "verdict", "base", "head", "ratio", "interval", "visible", "floor")
NUMBERS = HEADERS[2:]
QUIET = (Verdict.SAME, Verdict.FASTER)
MOST_ROWS, MOST_FINDINGS, MOST_OF_CASE, MOST_NOTES = 60, 40, 8, 10
LONGEST = 60000  # GitHub takes 65,536 characters


def marker(key: str) -> str:
    """The first line, by which the comment is found again; Markdown doesn't show it."""
    if not re.fullmatch(r"[\w.-]{1,80}", key, re.ASCII):
        remedy = "use letters, digits, dots, dashes and underscores"
        raise PerfError("the comment's key", expected="a name", got=key, remedy=remedy)
    return f"<!-- rightfast: {key} -->"


def render(stored: Stored, key: str, run: str, concluded: str) -> str:
    """The whole comment.

    Args:
        key: tells this gate's comment from another one's.
        run, concluded: the run's address and its conclusion, from GitHub itself.
    """
    if stored.error is not None:
        return failure(f"the gate could not run: {stored.error}", key, run, concluded)
    parts = [marker(key), f"## rightfast: {_outcome(stored)}", "", _heading(stored), ""]
    listed = sorted(stored.cases, key=lambda case: case.verdict in QUIET)
    parts.append(table(HEADERS, NUMBERS, (_row(case) for case in listed[:MOST_ROWS])))
    parts += _rest(len(listed), MOST_ROWS, "cases")
    parts.append("")
    findings = [line for case in listed for line in _findings(case)]
    parts += findings[:MOST_FINDINGS] + _rest(len(findings), MOST_FINDINGS, "findings")
    notes = [f"- {escape(note)}" for note in stored.notes]
    parts += notes[:MOST_NOTES] + _rest(len(notes), MOST_NOTES, "notes")
    return _whole(parts, _closing(run, concluded))


def failure(why: str, key: str, run: str, concluded: str) -> str:
    """Where there is no report, or none that can be read."""
    parts = [marker(key), "## rightfast: no verdict", "", escape(why, 2000)]
    return _whole(parts, _closing(run, concluded))


def _whole(parts: list[str], closing: str) -> str:
    text = "\n".join(parts).rstrip()
    if len(text) > LONGEST:  # at a line's end: half a table row would swallow what follows
        text = text[: text.rindex("\n", 0, LONGEST)] + "\n\n(cut)"
    return f"{text}\n\n{closing}\n"


def _closing(run: str, concluded: str) -> str:
    address = run if re.fullmatch(r"https?://[\w.:/-]+", run, re.ASCII) else ""
    named = f"[the run]({address})" if address else "the run"
    return (
        f"The verdict is the check on the head: {named} concluded as {escape(concluded)}. "
        "The numbers above are what the run of the proposed code reported."
    )


def _outcome(stored: Stored) -> str:
    counts = Counter(str(case.verdict) for case in stored.cases)
    said = ", ".join(f"{n} {verdict}" for verdict, n in counts.items()) or "no cases"
    code, would = stored.exit_code, stored.would_exit
    if code != would:
        return f"advisory: would fail ({NAMES[would]}, exit {would}): {said}"
    return f"passed: {said}" if code == 0 else f"failed ({NAMES[code]}, exit {code}): {said}"


def _heading(stored: Stored) -> str:
    dirty = " with uncommitted changes" if stored.dirty else ""
    return (
        f"base {stored.base[:12]}, head {stored.head[:12]}{dirty}; {stored.pairs} pairs of fresh "
        f"processes, {stored.seconds:.0f} s; slower means that the lower bound of the ratio lies "
        f"above {1 + stored.min_effect:.2f}x"
    )


def _row(case: Case) -> list[str]:
    ratio, low, high = case.ratio, case.low, case.high
    bounded = low is not None and high is not None
    return [
        short(case.name),
        str(case.verdict),
        seconds(case.base),
        seconds(case.head),
        f"{ratio:.3f}x" if ratio is not None else "",
        f"{low:.3f}-{high:.3f}" if bounded else "",
        f"+{case.visible:.1%}" if case.visible is not None else "",
        f"{case.floor:.1%}" if case.floor is not None else "",
    ]


def _findings(case: Case) -> Iterator[str]:
    """One line, or none; a case of many findings names itself once."""
    shown = [f for f in case.findings if f.verdict not in QUIET or f.accepted is not None]
    if shown:
        yield f"- {escape(case.name)}: {'; '.join(map(_finding, shown[:MOST_OF_CASE]))}"


def _finding(finding: Finding) -> str:
    excused = f" (accepted: {escape(finding.accepted)})" if finding.accepted is not None else ""
    return f"**{finding.verdict}** {escape(finding.reason)}{excused}"


def _rest(there: int, shown: int, what: str) -> list[str]:
    return [f"\n({there - shown} more {what} in the run's artifact)"] if there > shown else []
