"""Chrome traces, for Perfetto or chrome://tracing: of a run's cases, or of both sides of each case
that the gate calls slower."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from . import messages, pairs, profiles
from .statistics import Outcome
from .trial import Case
from .workers import WorkerError

CALLS = 3  # in one trace, after one that warms up


def keep(
    folder: Path,
    cases: list[Case],
    fresh: Callable[[list[str]], AbstractContextManager[pairs.Pair]],
) -> list[str]:
    """Write `<case>.base.json` and `<case>.head.json` of the slower cases; returns notes."""
    slower = [c for c in cases if c.decision is not None and c.decision.outcome is Outcome.SLOWER]
    if not slower:
        return []
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return [f"no traces of {len(slower)} slower cases: {error}"]
    notes = []
    with fresh(list(dict.fromkeys(["head", *(case.arm for case in slower)]))) as pair:
        for case in slower:
            for side, arm in (("base", case.arm), ("head", "head")):
                file = folder.absolute() / f"{_plain(case.name)}.{side}.json"
                try:
                    pair.ask(arm, messages.Trace(case.name, str(file)), messages.Done)
                    case.trace.append(str(file))
                except WorkerError as error:
                    notes.append(f"no trace of {case.name}: {error}")
    return [f"traces of {len(slower)} slower cases in {folder}", *notes]


def record(call: Callable[[], object], reset: Callable[[], None] | None, file: Path) -> None:
    """In a worker: some calls under torch's profiler, as one file, whole or not at all."""
    from torch.profiler import profile

    def once() -> None:
        if reset:
            reset()
        call()

    once()
    with profile(record_shapes=True) as recorded:
        for _ in range(CALLS):
            once()
    profiles.write_trace(recorded, file)


def file_of(folder: Path, name: str) -> Path:
    """The trace of one test in a run; a digest keeps names apart that are alike when plain."""
    return folder.absolute() / f"{_plain(name)}.{zlib.crc32(name.encode()):08x}.json"


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name)[-120:].strip("_")
