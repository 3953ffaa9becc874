"""One measurement at a time on one machine; who holds the lock can be asked.

The operating system's lock decides and dies with its holder. The note beside it only tells who that
is, so a note that a killed gate left behind blocks no one.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from pytest_rightfast.errors import PerfError


class BusyError(PerfError):
    """Another measurement holds this machine."""


@dataclass(frozen=True)
class Holder:
    """`since` in seconds of the Unix epoch."""

    pid: int
    command: str
    since: float

    def __str__(self) -> str:
        started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"process {self.pid} since {started}: {self.command}"


def lock_path() -> Path:
    """`RIGHTFAST_LOCK`, or one file in the machine's temporary folder, for all its users."""
    given = os.environ.get("RIGHTFAST_LOCK")
    return Path(given) if given else Path(tempfile.gettempdir()) / "rightfast-measuring.lock"


def holder(path: Path) -> Holder | None:
    """Who holds the lock by the note, or None where the note is missing or can't be read."""
    try:
        return Holder(**json.loads(_note(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


@contextmanager
def measuring(
    path: Path | None = None,
    *,
    wait_seconds: float = 0.0,
    on_wait: Callable[[Holder | None], None] | None = None,
) -> Iterator[Holder]:
    """Hold the machine while measuring; waits up to `wait_seconds` (negative: without end).

    `on_wait` is called once, before waiting. Raises BusyError, which names the holder.
    """
    path = lock_path() if path is None else path
    lock = FileLock(path, mode=0o666)
    try:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if wait_seconds == 0:
                raise
            if on_wait is not None:
                on_wait(holder(path))
            lock.acquire(timeout=wait_seconds, poll_interval=0.2)
    except Timeout:
        held = holder(path)
        raise BusyError(
            f"this machine is measuring already ({held or 'holder unknown'}); two at once would "
            f"time each other: wait for it, or have this one wait. Lock: {path}"
        ) from None
    except OSError as error:
        raise BusyError(
            f"{path}: the measuring lock can't be opened: {error}; RIGHTFAST_LOCK names another"
        ) from error
    me = Holder(os.getpid(), " ".join(sys.argv), time.time())
    try:
        _write_note(_note(path), me)
        yield me
    finally:
        _drop_note(_note(path))
        lock.release()


def _note(path: Path) -> Path:
    return path.with_name(path.name + ".holder")


def _write_note(note: Path, me: Holder) -> None:
    # The note is a courtesy: a full disk or another user's file must not stop a measurement.
    try:
        note.write_text(json.dumps(asdict(me)), encoding="utf-8")
    except OSError:
        _drop_note(note)


def _drop_note(note: Path) -> None:
    with suppress(OSError):
        note.unlink()
