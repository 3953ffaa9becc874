"""`perf/accepted.toml`: slowdowns and costs that were agreed to, and cases in quarantine.

    [[accept]]
    case = "perf/test_wave.py::test_haar[*]"     # fnmatch on the node id; "[" is literal
    verdict = "costlier"                         # slower, costlier, less accurate or gone
    limit = "+1"                                 # "1.15x" or "12%"; "+1" for counters; gone: none
    counter = "allocations"                      # costlier alone; left out, every counter
    reason = "bounds checks, #123"
    expires = 2026-12-31

    [[quarantine]]
    case = "perf/test_io.py::*"
    reason = "the disk is shared, #140"
    expires = 2026-10-01

An entry holds through its day of expiry and not after. Every entry is printed in every report.
"""

from __future__ import annotations

import datetime
import fnmatch
import math
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_rightfast.errors import PerfError
from pytest_rightfast.verdicts import Finding, Judgement, Verdict

# A wrong answer is nothing to agree to: quarantine takes a case out of the gate, with a date.
ACCEPTABLE = (Verdict.SLOWER, Verdict.COSTLIER, Verdict.LESS_ACCURATE, Verdict.GONE)


class AcceptedError(PerfError):
    """The file can't be read as meant; a waiver that is half understood would hide something."""


@dataclass(frozen=True)
class Limit:
    """Ceiling of a waiver: `times` for a ratio head/base, or `added` for a counter's increase."""

    text: str
    times: float = 0.0
    added: float = 0.0

    def covers(self, finding: Finding) -> bool:
        if self.added:
            return finding.added <= self.added
        return finding.size <= self.times


@dataclass(frozen=True)
class Entry:
    """`verdict` and `limit` are None in a quarantine. `number` counts from 1 in its table."""

    table: str
    number: int
    case: str
    reason: str
    expires: datetime.date
    verdict: Verdict | None = None
    limit: Limit | None = None
    counter: str = ""

    def matches(self, case: str) -> bool:
        # Parametrised ids carry brackets, which fnmatch would read as a set of characters.
        return fnmatch.fnmatchcase(case, self.case.replace("[", "[[]"))

    def expired(self, today: datetime.date) -> bool:
        return today > self.expires

    def __str__(self) -> str:
        kind = f"{self.verdict} in {self.counter}" if self.counter else self.verdict
        what = f"{kind} up to {self.limit.text}" if self.limit else kind
        return f"{what or 'quarantine'}: {self.case}: {self.reason} (until {self.expires})"


@dataclass(frozen=True)
class Accepted:
    path: str
    entries: tuple[Entry, ...] = ()

    def expired(self, today: datetime.date) -> tuple[Entry, ...]:
        return tuple(e for e in self.entries if e.expired(today))

    def unused(self, cases: Iterable[str]) -> tuple[Entry, ...]:
        """Entries that match no case: a renamed case has lost its waiver, and no one noticed."""
        listed = list(cases)
        return tuple(e for e in self.entries if not any(e.matches(c) for c in listed))

    def apply(self, judgement: Judgement, today: datetime.date) -> Judgement:
        """The judgement with what the valid entries excuse; the verdict itself never changes."""
        excused = dict(judgement.excused)
        for entry in self.entries:
            if not entry.matches(judgement.case) or entry.expired(today):
                continue
            for finding in judgement.findings:
                if _excuses(entry, finding):
                    excused.setdefault(finding, str(entry))
        return replace(judgement, excused=excused)


def _excuses(entry: Entry, finding: Finding) -> bool:
    if entry.table == "quarantine":
        return True
    if (
        entry.verdict is not finding.verdict
        or (entry.counter or finding.counter) != finding.counter
    ):
        return False
    return entry.limit is None or entry.limit.covers(finding)


def load(path: Path) -> Accepted:
    """Read and check the file; one that is not there accepts nothing. Raises AcceptedError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Accepted(str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise AcceptedError(f"{path}: can't be read as UTF-8 text: {error}") from error
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise AcceptedError(f"{path}: not valid TOML: {error}") from error
    return parse(data, str(path))


def parse(data: dict[str, Any], path: str) -> Accepted:
    """Check the tables of the file, given as the dict that tomllib returns."""
    entries = []
    for table, rows in data.items():
        if table not in ("accept", "quarantine"):
            raise _wrong(path, table, "tables [[accept]] and [[quarantine]]", f"{table!r}")
        if not isinstance(rows, list):
            raise _wrong(path, table, f"[[{table}]] with two brackets", f"[{table}]")
        for number, row in enumerate(rows, 1):
            entries.append(_entry(table, number, row, path))
    return Accepted(path, tuple(entries))


def _entry(table: str, number: int, row: Any, path: str) -> Entry:
    where = f"[[{table}]] entry {number}"
    if not isinstance(row, dict):
        raise _wrong(path, where, "a table of keys", repr(row))
    allowed = {"case", "reason", "expires"} | (
        {"verdict", "limit", "counter"} if table == "accept" else set()
    )
    for key in row:
        if key not in allowed:
            raise _wrong(path, where, f"keys {', '.join(sorted(allowed))}", f"{key!r}")
    for key in ("case", "reason"):
        if not isinstance(row.get(key), str) or not row[key].strip():
            raise _wrong(path, where, f"{key} = a text that is not empty", repr(row.get(key)))
    expires = _date(row.get("expires"), path, where)
    verdict, limit, counter = None, None, row.get("counter", "")
    if table == "accept":
        verdict = _verdict(row.get("verdict"), path, where)
        limit = _limit(row.get("limit"), verdict, path, where)
        if not isinstance(counter, str) or (counter and verdict is not Verdict.COSTLIER):
            raise _wrong(path, where, "counter = a name, with verdict 'costlier'", repr(counter))
    return Entry(table, number, row["case"], row["reason"], expires, verdict, limit, counter)


def _date(value: Any, path: str, where: str) -> datetime.date:
    wanted = "expires = a date such as 2026-12-31 (without it, it would hold for ever)"
    if isinstance(value, datetime.datetime):
        raise _wrong(path, where, wanted, f"a date with a time, {value}")
    if isinstance(value, datetime.date):
        return value
    if isinstance(value, str):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            pass
    raise _wrong(path, where, wanted, repr(value))


def _verdict(value: Any, path: str, where: str) -> Verdict:
    if value not in ACCEPTABLE:
        wanted = f"verdict = one of {', '.join(ACCEPTABLE)} (else use [[quarantine]])"
        raise _wrong(path, where, wanted, repr(value))
    return Verdict(value)


def _limit(value: Any, verdict: Verdict, path: str, where: str) -> Limit | None:
    if verdict is Verdict.GONE:
        if value is not None:
            raise _wrong(path, where, "no limit with verdict 'gone'", repr(value))
        return None
    forms = 'limit = "1.15x" or "12%"' + (' or "+1"' if verdict is Verdict.COSTLIER else "")
    match = (
        re.fullmatch(r"(\+?)(\d+(?:\.\d+)?)\s*(x|%|)", value) if isinstance(value, str) else None
    )
    if match is None:
        raise _wrong(path, where, forms, repr(value))
    plus, digits, unit = match[1], float(match[2]), match[3]
    if plus and not unit and verdict is Verdict.COSTLIER and digits > 0:
        return Limit(value, times=math.nan, added=digits)
    times = digits if unit == "x" else 1 + digits / 100
    if (plus and unit) or not unit or times <= 1:
        raise _wrong(path, where, f"{forms}, above 1x", repr(value))
    return Limit(value, times=times)


def _wrong(path: str, where: str, expected: str, got: str) -> AcceptedError:
    return AcceptedError(f"{path}: {where}: expected {expected}; got {got}. Fix or remove it.")
