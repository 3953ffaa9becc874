"""What the terminal says: a word per case while it runs, the tables and notes at the end."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import Any

from .exits import outcome
from .rows import INTERRUPTED, Row
from .session import PerfSession
from .tables import seconds, short, tables
from .traces import file_of
from .verdicts import Verdict

# Verdicts that need no line of their own.
QUIET = (Verdict.SAME, Verdict.NEW)


def outcome_word(row: Row) -> str:
    """`12.3 us`, `ok` if nothing was timed, or what is wrong."""
    if row.status == "ok":
        return seconds(row.median) or "verified"
    return f"{row.word.upper()} ({row.role})"


def write_summary(reporter: Any, session: PerfSession) -> None:
    """The tables, then the notes, worst last."""
    reporter.section("rightfast")
    stored = session.stored.medians if session.stored is not None else None
    for number, text in enumerate(tables(session.rows, stored)):
        reporter.write_line(text, bold=number % 2 == 0)
        if number % 2:
            reporter.write_line("")
    for note in _notes(session):
        reporter.write_line(note)


def _notes(session: PerfSession) -> list[str]:
    rows = session.rows
    if not rows:
        return [*session.resumed, *filter(None, [session.note]), *_comparison(session)]
    counts = {s: sum(row.word == s for row in rows) for s in dict.fromkeys(r.word for r in rows)}
    notes = [
        f"{len(rows)} of {len(session.asked)} cases: "
        + ", ".join(f"{n} {status}" for status, n in counts.items())
    ]
    most = max(rows, key=lambda row: row.overhead)
    notes.append(
        "the suite's own overhead: "
        f"median {statistics.median(row.overhead for row in rows):.2f} s a case, "
        f"at most {most.overhead:.2f} s ({most.id}); start-up {session.started or 0:.1f} s"
    )
    states = {key: value for row in rows for key, value in row.state.items()}
    if states:
        notes.append(f"global torch state not at its default: {states}")
    notes += session.resumed
    notes += _traces(session)
    if session.written is not None:
        notes.append(f"rows written to {session.written}")
    notes += _unfinished(session)
    if session.note:
        notes.append(session.note)
    return notes + _comparison(session)


def _unfinished(session: PerfSession) -> list[str]:
    """After an interrupt: how the rest comes to be measured."""
    if not session.interrupted:
        return []
    done = sum(row.word != INTERRUPTED for row in session.rows)
    file = session.options.json
    how = "--perf-json FILE keeps what is finished, and --perf-resume measures the rest"
    if file is not None:
        how = f"finish with the same command, --perf-json {file} and --perf-resume"
    return [f"interrupted after {done} of {len(session.asked)} cases: {how}"]


def _traces(session: PerfSession) -> list[str]:
    """Where they are, and of how many cases there is none."""
    folder = session.options.trace
    if folder is None:
        return []
    right = [row.id for row in session.rows if row.status == "ok"]
    missing = sum(not file_of(folder, name).exists() for name in right)
    lack = f"{missing} of {len(right)} cases have none: not writable, or taken from an earlier run"
    return [
        f"traces in {folder}, to be opened in ui.perfetto.dev" + (f"; {lack}" if missing else "")
    ]


def _comparison(session: PerfSession) -> list[str]:
    """What the stored run says: a line for each case that is not as it was, then the conclusion."""
    found = session.comparison
    if found is None:
        return []
    told = [one for one in found.judgements if one.verdict not in QUIET or one.excused]
    lines = [f"  {one.verdict.upper()} {short(one.case)}: {one.reason}" for one in told]
    lines += [
        f"    {finding.verdict} accepted: {why}"
        for one in told
        for finding, why in one.excused.items()
    ]
    counts = Counter(str(one.verdict) for one in found.judgements)
    said = ", ".join(f"{n} {verdict}" for verdict, n in counts.items()) or "no cases"
    return [
        *lines,
        *found.notes,
        f"compared with {found.stored.name}: {outcome(found.result)}: {said}",
    ]
