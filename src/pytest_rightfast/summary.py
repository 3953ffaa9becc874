"""What the terminal says: a word per case while it runs, the tables and notes at the end."""

from __future__ import annotations

import statistics
from typing import Any

from .fixture import PerfSession
from .results import Row
from .tables import seconds, tables

# A stored run differs in time, heat and neighbours: a ratio to it is a reason to look, no verdict.
SUSPECT = 1.25


def outcome_word(row: Row) -> str:
    """`12.3 us`, `ok` if nothing was timed, or what is wrong."""
    if row.status == "ok":
        return seconds(row.median) or "verified"
    return f"{row.status.upper()} ({row.role})"


def write_summary(reporter: Any, session: PerfSession) -> None:
    """The tables, then the notes, worst last."""
    reporter.section("rightfast")
    for number, text in enumerate(tables(session.rows, session.stored)):
        reporter.write_line(text, bold=number % 2 == 0)
        if number % 2:
            reporter.write_line("")
    for note in _notes(session):
        reporter.write_line(note)


def _notes(session: PerfSession) -> list[str]:
    rows = session.rows
    if not rows:
        return [session.note]
    counts = {
        s: sum(row.status == s for row in rows) for s in dict.fromkeys(r.status for r in rows)
    }
    notes = [
        f"{len(rows)} of {session.total} cases: "
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
    if session.options.json is not None:
        notes.append(f"rows written to {session.options.json}")
    if session.note:
        notes.append(session.note)
    return notes + _suspects(session)


def _suspects(session: PerfSession) -> list[str]:
    if session.stored is None:
        return []
    stored = session.stored
    pairs = [(row, stored[row.id]) for row in session.rows if row.median and row.id in stored]
    new = [row.id for row in session.rows if row.median and row.id not in stored]
    gone = sorted(stored.keys() - {row.id for row in session.rows})
    slower = [(row, old) for row, old in pairs if (row.median or 0) > SUSPECT * old]
    notes = [
        f"compared with {session.stored_name}: {len(pairs)} cases, {len(new)} new, {len(gone)} gone"
    ]
    notes += [f"  gone: {test}" for test in gone]
    notes += [
        f"  suspect: {row.id} {(row.median or 0) / old:.2f}x slower (one run against one run: "
        "run again before you believe it)"
        for row, old in slower
    ]
    return notes
