"""Finished cases outlive a run that is killed: `FILE.partial` beside `--perf-json FILE`.

One line of JSON a row, written when the case has ended, never while one is timed. The whole run
writes FILE and drops the journal; `--perf-resume` takes finished cases from both (`resume.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from .errors import ResultsError
from .results import SCHEMA, parse_row
from .rows import Row


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
