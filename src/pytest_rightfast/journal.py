"""Finished cases outlive a run that is killed: `FILE.partial` beside `--perf-json FILE`.

One line of JSON a row, written when the case has ended, never while one is timed. The whole run
writes FILE and drops the journal; `--perf-resume` takes finished cases from either.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

from .errors import ResultsError
from .merge import identity
from .results import SCHEMA, load, parse_row
from .rows import Row

# An error may be the interrupt itself, so those cases run again.
FINISHED = ("ok", "wrong", "unsupported")


def path_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.partial")


class Journal:
    """Append-only; `keep` never fails a measurement that FILE may still hold at the end."""

    def __init__(self, file: Path) -> None:
        self.path = path_of(file)
        self.note = ""
        self._started = False

    def keep(self, rows: Iterable[Row]) -> None:
        """Append rows; the first call starts a new journal."""
        try:
            lines = [json.dumps(asdict(row), allow_nan=False) for row in rows]
            if not self._started:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.write_text(json.dumps({"schema": SCHEMA, "kind": "partial"}) + "\n")
                self._started = True
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
        except (OSError, ValueError, TypeError) as error:
            self.note = f"an interrupt would lose cases: {self.path} cannot be written: {error}"

    def drop(self) -> None:
        if self._started:
            self.path.unlink(missing_ok=True)


def read(path: Path) -> list[Row]:
    """The rows of a journal; a last line that was cut off is left out. Raises ResultsError."""
    try:
        first, *lines = path.read_text(encoding="utf-8").split("\n")
        head = json.loads(first)
        right = head == {"schema": SCHEMA, "kind": "partial"}
    except (OSError, ValueError) as error:
        first, right = f"{error}", False
    if not right:
        raise ResultsError(
            f"{path} is no journal of this version",
            expected=json.dumps({"schema": SCHEMA, "kind": "partial"}),
            got=first[:80],
            remedy="delete it, and measure from the beginning",
        )
    whole = lines[:-1]  # what follows the last newline was cut off, or is empty
    return [
        parse_row(f"{path}: line {n + 2}", _parsed(path, n, line)) for n, line in enumerate(whole)
    ]


def _parsed(path: Path, number: int, line: str) -> object:
    try:
        return json.loads(line)
    except ValueError as error:
        raise ResultsError(
            f"{path}: line {number + 2} is no JSON: {error}",
            expected="one row a line",
            got=line[:80],
            remedy="delete it, and measure from the beginning",
        ) from error


class Resume:
    """Cases that an interrupted run finished, of this code on this machine. A `fixture.Source`.

    Args:
        file: what `--perf-json` names. Its journal, which only a killed run leaves, comes first: it
            holds what that run had taken over as well.
        repeats, timing, profile: what this run was asked to do; rows of another are not finished.
    """

    def __init__(self, file: Path, *, repeats: int, timing: bool, profile: bool) -> None:
        partial = path_of(file)
        found = read(partial) if partial.exists() else load(file) if file.exists() else []
        self._rows = {_key(row): row for row in found if row.status in FINISHED}
        self._processes = repeats if repeats > 1 else 0
        self._timing, self._profile = timing, profile
        self.source = partial if partial.exists() else file
        self.kept = list(self._rows.values())
        self.taken = 0

    def row_like(self, row: Row) -> Row | None:
        found = self._rows.get(_key(row))
        if found is None or not self._whole(found):
            return None
        self.taken += 1
        return replace(found, order=row.order)

    def _whole(self, row: Row) -> bool:
        if row.status != "ok":
            return True
        timed = bool(row.samples) == self._timing and len(row.processes) == self._processes
        return timed and (bool(row.profile) or not self._profile)

    def close(self) -> None:
        """Nothing is open."""


def _key(row: Row) -> tuple[object, ...]:
    return (*identity(row), row.environment.get("changes"), str(row.environment.get("affinity")))
