"""`--perf-resume`: what an earlier run finished is not measured again, and nothing of it is lost.

A row is taken if it is of this code on this machine and was made as this run would make it. Rows
of this code that this run does not measure stay in the file. Rows of other code are replaced by
new ones of the same cases; a run that would drop others is refused before it measures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .errors import ResultsError
from .journal import path_of, read
from .merge import identity
from .options import Options
from .results import load
from .rows import Row

# An error may be the interrupt itself, so those cases run again.
FINISHED = ("ok", "wrong", "unsupported")
# What says that a row is of this code on this machine, in words.
PLACE = {
    "host": "host",
    "cpu": "CPU",
    "gpu": "GPU",
    "driver": "driver",
    "python": "Python",
    "torch": "torch",
    "commit": "commit",
    "changes": "uncommitted changes",
    "affinity": "CPUs in use",
}
PLURAL = ("uncommitted changes", "CPUs in use")
OF_DEVICE = ("gpu", "driver")  # None in rows of a CPU


class Resume:
    """Cases that an interrupted run finished, of this code on this machine. A `fixture.Source`.

    Args:
        file: what `--perf-json` names; its journal, which only a killed run leaves, is read too,
            and is newer.
        options: what this run was asked to do; rows of another are not finished.
    """

    def __init__(self, file: Path, options: Options) -> None:
        partial = path_of(file)
        older = load(file) if file.exists() else []
        newer = read(partial) if partial.exists() else []
        found = {_key(row): row for row in [*older, *newer]}
        self.source = partial if partial.exists() else file
        self._options = options
        self._found = list(found.values())
        self._finished = {key: row for key, row in found.items() if row.status in FINISHED}
        self._taken: set[tuple[object, ...]] = set()
        self._here: Mapping[str, Any] | None = None

    @property
    def admitted(self) -> bool:
        """Whether the run came past `admit`; else the file must stay as it is."""
        return self._here is not None

    def admit(self, here: Mapping[str, Any], asked: Collection[str]) -> list[Row]:
        """The rows of this code, before anything is measured.

        Args:
            here: the `machine.environment` of this run.
            asked: ids of the tests that it selects.

        Raises:
            ResultsError: rows of other code, which it does not measure anew, would be lost.
        """
        others = [row for row in self._found if self._foreign(row, here)]
        lost = [row for row in others if not self._runs(row, asked)]
        if lost:
            raise ResultsError(
                f"--perf-resume would lose {_rows(len(lost))} of {self.source}",
                expected="rows of this code, or of cases that this run selects",
                got="; ".join(_told(self._foreign(row, here) for row in lost)),
                remedy="name another --perf-json, or drop --perf-resume to write that file anew",
            )
        self._here = here
        return [row for row in self._found if not self._foreign(row, here)]

    def _runs(self, row: Row, asked: Collection[str]) -> bool:
        options = self._options
        same = (row.device, row.heap) == (options.device, options.heap)
        return same and row.threads_asked in options.threads and row.id in asked

    def _foreign(self, row: Row, here: Mapping[str, Any]) -> str:
        """In what the row's code or machine differ from this run's, or empty."""
        other_device = row.device != self._options.device
        differ = [
            word
            for name, word in PLACE.items()
            if str(row.environment.get(name)) != str(here.get(name))
            and not (other_device and name in OF_DEVICE)
        ]
        one = len(differ) == 1 and differ[0] not in PLURAL
        return f"{', '.join(differ)} differ{'s' * one}" if differ else ""

    def row_like(self, row: Row) -> Row | None:
        found = self._finished.get(_key(row))
        if found is None or self._made_otherwise(found, row):
            return None
        self._taken.add(_place(row))
        return replace(found, order=row.order)

    def _made_otherwise(self, found: Row, row: Row) -> str:
        """Which options the earlier run differed in, or empty; no time has no options."""
        if found.status != "ok":
            return ""
        options = self._options
        if bool(found.samples) != options.timing:
            return "--benchmark-disable differs"
        if len(found.processes) != (options.repeats if options.repeats > 1 else 0):
            return "--perf-repeats differs"
        if options.profile and not found.profile:
            return "--perf-profile differs"
        sampling = [one.environment.get("sampling") for one in (found, row)]
        if options.timing and sampling[0] != sampling[1]:
            return "--benchmark-max-time or --benchmark-min-rounds differs"
        return ""

    def rest(self, rows: Iterable[Row]) -> list[Row]:
        """Rows of this code that `rows`, of this run, do not replace: they stay in the file."""
        assert self._here is not None
        done = {_place(row) for row in rows}
        here = self._here
        return [
            row for row in self._found if not self._foreign(row, here) and _place(row) not in done
        ]

    def notes(self, rows: Iterable[Row]) -> list[str]:
        """What was taken, kept and not taken, and why not."""
        measured = {_place(row): row for row in rows}
        notes = [f"{len(self._taken)} cases taken from {self.source}"]
        if kept := len(self.rest(measured.values())):
            notes.append(f"{_rows(kept)} of {self.source} kept: not measured in this run")
        reasons = Counter(
            self._reason(row, measured.get(_place(row)))
            for row in self._found
            if _place(row) not in self._taken
        )
        del reasons[""]
        for why, n in reasons.items():
            notes.append(f"{_rows(n)} of {self.source} not taken: {why}")
        return notes

    def _reason(self, row: Row, measured: Row | None) -> str:
        """Why a row of the file was not taken, or empty where it was kept."""
        assert self._here is not None
        if why := self._foreign(row, self._here):
            return why
        if measured is None:
            return ""
        if row.status not in FINISHED:
            return "an error is no result"
        return self._made_otherwise(row, measured) or "the backend or the threads differ"

    def close(self) -> None:
        """Nothing is open."""


def _key(row: Row) -> tuple[object, ...]:
    return (*identity(row), row.environment.get("changes"), str(row.environment.get("affinity")))


def _place(row: Row) -> tuple[object, ...]:
    """A test has one row a run; that of one which fails early has no backend."""
    return row.id, row.device, row.threads_asked, row.heap


def _told(reasons: Iterable[str]) -> list[str]:
    return [f"{n} whose {why}" for why, n in Counter(reasons).items()]


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count != 1)}"
