"""What one `asv` command has measured so far, shared by its processes.

asv starts a process for every number, and rightfast measures a case whole: the first process of a
case and a commit measures, the others read. A time benchmark takes every row once, so that each of
asv's rounds is a process of its own. The next `asv` command starts from nothing: it begins by
asking for the benchmarks, and that empties the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .asv_side import Answer, Side
from .checkouts import cache_folder
from .results import Row, write_atomically

WRONG = ("wrong", "error")


@dataclass
class Measured:
    """One case at one commit, once.

    `status`: `ok`, `wrong`, `error`, `unsupported`, or `absent` (the commit has no such case).
    `row` is there only where its numbers may be compared with other commits'.
    """

    status: str
    reason: str = ""
    row: Row | None = None


class Rows:
    """The rows of the commit that this process measures, and the case list of all."""

    def __init__(self, side: Side, arguments: list[str], timeout: float) -> None:
        self.side, self.arguments, self.timeout = side, arguments, timeout
        self.folder = cache_folder() / "asv" / _hash(str(side.root), str(side.perf))
        commit = os.environ.get("ASV_COMMIT", "")
        self.here = self.folder / "rows" / _hash(os.environ.get("ASV_ENV_NAME", ""), commit)

    def reset(self, cases: list[dict[str, str]]) -> None:
        """A new `asv` command: forget what the last one measured."""
        shutil.rmtree(self.folder / "rows", ignore_errors=True)
        write_atomically(self.folder / "cases.json", json.dumps(cases))

    def cases(self) -> list[dict[str, str]] | None:
        found = _read(self.folder / "cases.json")
        return None if found is None else list(found)

    def all(self, case: str) -> list[Measured]:
        """What this commit's rounds have measured so far; measures if there is nothing yet."""
        return self._stored(case) or [self._measure(case)]

    def next(self, case: str) -> list[Measured]:
        """Like `all`; the last is of a row that no time benchmark has taken yet."""
        stored = self._stored(case)
        taken = _read(self._file(case, "taken")) or 0
        if len(stored) <= taken and not is_wrong(stored):
            stored.append(self._measure(case))
        write_atomically(self._file(case, "taken"), json.dumps(len(stored)))
        return stored

    def _measure(self, case: str) -> Measured:
        one = self._ask(case, own_perf=False)
        own = one.status in ("error", "absent") and self.side.top is not None
        if own:
            # Head's perf file does not run on this commit; its own says whether it has the case.
            one = self._ask(case, own_perf=True)
        if one.row is not None:
            self._compare(case, one, one.row, own=own)
        stored = [*self._stored(case), one]
        write_atomically(self._file(case, "rows"), json.dumps([asdict(m) for m in stored]))
        return one

    def _compare(self, case: str, one: Measured, row: Row, *, own: bool) -> None:
        """What all commits share: the inputs, and how fast this machine copies their bytes.

        The first row settles both: a copy measured anew for each commit would make changes of its
        own noise.
        """
        file = self.folder / "rows" / f"{_hash(case)}.shared.json"
        shared = _read(file)
        if shared is None and not own:
            shared = {"inputs": row.inputs, "copy_seconds": row.copy_seconds}
            write_atomically(file, json.dumps(shared))
        if shared is None or row.inputs != shared["inputs"]:
            one.row = None
            one.reason = (
                "draws other inputs here than at the first commit, or that is not known yet"
            )
        else:
            row.copy_seconds = shared["copy_seconds"]

    def _ask(self, case: str, *, own_perf: bool) -> Measured:
        home = self.side.top if own_perf and self.side.top else self.side.root
        file = home / case.partition("::")[0]
        if not file.exists():
            return Measured("absent", f"{file.name} is not there")
        wanted = [*self.arguments, f"{home}/{case}"]
        answer = self.side.ask(wanted, own_perf=own_perf, timeout=self.timeout)
        return _judged(answer, case)

    def _stored(self, case: str) -> list[Measured]:
        return [_measured(entry) for entry in _read(self._file(case, "rows")) or ()]

    def _file(self, case: str, kind: str) -> Path:
        return self.here / f"{_hash(case)}.{kind}.json"


def is_wrong(measured: list[Measured]) -> bool:
    """Wrong in one round is wrong: then there is no time."""
    return any(one.status in WRONG for one in measured)


def _judged(answer: Answer, case: str) -> Measured:
    row = answer.row
    if row is not None:
        keep = row if row.status == "ok" else None
        return Measured(row.status, row.reason or answer.reason, keep)
    if answer.skipped:
        return Measured("unsupported", answer.reason)
    if any(found["id"] == case for found in answer.cases) or answer.failed or answer.reason:
        return Measured("error", answer.reason or "; ".join(answer.failed.values())[-2000:])
    return Measured("absent", "no such case")


def _measured(entry: dict[str, Any]) -> Measured:
    row = entry.pop("row")
    return Measured(**entry, row=Row(**row) if row else None)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
