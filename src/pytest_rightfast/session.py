"""What the cases of one run share."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from . import counters
from .machine import Ceilings, affinity
from .options import Options
from .poison import poisoned
from .reference import float64_only
from .rows import Row
from .visits import Desk

if TYPE_CHECKING:
    from .comparison import Comparison
    from .journal import Journal
    from .stored import Stored


class Source(Protocol):
    """Rows that were measured elsewhere."""

    def row_like(self, row: Row) -> Row | None:
        """The measured row of an empty one, or None where it is to be measured here."""

    def close(self) -> None:
        """The run is over."""


@dataclass
class PerfSession:
    """What the cases of one run share.

    Attributes:
        rows: results so far, in order.
        asked, deselected: ids of the perf cases that are to run; how many were deselected.
        hushed: wrong cases whose test caught the error and passed.
        benchmarks: what was entered into pytest-benchmark, for saving a baseline.
        stored: the run that is compared with; comparison: what that said.
        compared: runs that pytest-benchmark compares with.
        note: a last word for the summary; written: the file that holds the rows.
        interrupted: by Ctrl-C, or by pytest itself.
        resumed: what an earlier run supplied and what not, for the summary.
        import_changes: global torch state changed by importing a file, by file.
        started: seconds that torch's import and first use took.
        desk: in a worker of the gate, where its requests come from.
        sources: where rows come from that are not measured here: other processes, an earlier run.
        journal: keeps finished rows while the run goes on.
        affinity: the CPUs of the process at the start.
        case, cache: expected answers of the case at hand.
    """

    options: Options
    root: Path
    rows: list[Row] = field(default_factory=list)
    import_changes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    hushed: list[str] = field(default_factory=list)
    deselected: int = 0
    benchmarks: list[Any] = field(default_factory=list)
    stored: Stored | None = None
    comparison: Comparison | None = None
    compared: int = 0
    note: str = ""
    interrupted: bool = False
    resumed: list[str] = field(default_factory=list)
    written: Path | None = None
    desk: Desk | None = None
    sources: list[Source] = field(default_factory=list)
    journal: Journal | None = None
    started: float | None = None
    affinity: list[int] = field(default_factory=affinity)
    ceilings: Ceilings = field(init=False)
    case: str = ""
    cache: dict[object, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ceilings = Ceilings(self.options.device)

    def start(self) -> None:
        """What torch imports and sets up at its first profile and dispatch mode: once, not in the
        first case."""
        if self.started is None:
            begin = time.perf_counter()
            import torch

            with float64_only("nothing"), poisoned():
                counters.count(lambda: torch.ones(2, device="cpu") + 1)
            self.started = time.perf_counter() - begin

    def cache_of(self, case: str) -> dict[object, Any]:
        """Expected answers of the case at hand; those of the one before are dropped."""
        if case != self.case:
            self.case, self.cache = case, {}
        return self.cache
