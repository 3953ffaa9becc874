"""One row of results: one backend of one case."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass, field
from typing import Any

ROLES = ("subject", "peer")
STATUSES = ("ok", "wrong", "unsupported", "error")
INTERRUPTED = "interrupted"  # the reason of an error that is nobody's fault


@dataclass
class Row:
    """One backend of one case. Times in seconds, per call.

    Attributes:
        id: the test's node id.
        case: the id without the backend; rows with the same case are compared.
        backend, role: its name, and `subject` or `peer`.
        status: `ok`, `wrong`, `unsupported` or `error`; only `ok` has samples.
        reason: where and by how much it is wrong, or why it was not run.
        device: as `--perf-device` names it.
        order: place in pytest's collection before anything was deselected, so that files of one
            collection merge into its order.
        samples: raw, in time order; empty when timing was off.
        processes: of `--perf-repeats`: how many of `samples` each fresh process took, in order.
        loops: calls per sample.
        host: on a device, seconds until each call returned; `samples` are the device's time then.
        discarded, clocks: samples dropped for throttling, and what NVML said.
        first_call, warmup_calls, steady: what came before the samples.
        compile_seconds: of `torch.compile` with cold caches, where it was measured.
        error, worst_error: to float64; relative norm, and worst element over the rms.
        errors: the relative norm by draw and by input family.
        counters: exact counts; `inexact` names those that did not repeat.
        moved_bytes, flops: as the case states them; copy_seconds: `copy_` of the same bytes.
        inputs: fingerprint of the first draw; the same for all backends of a case.
        threads_asked, threads: torch's CPU threads, asked and in force.
        heap: how malloc treats large blocks, `system`, `warm` or `cold`; see `heap.py`.
        state: global torch state that is not at its default.
        profile: of `--perf-profile`: time by operator, see `profiles.py`.
        overhead: what the suite itself took, the callables' and references' own time not counted.
        environment: machine, versions, commit (see `machine.environment`).
    """

    id: str
    case: str
    backend: str
    role: str = "subject"
    status: str = "ok"
    reason: str | None = None
    device: str = "cpu"
    order: int = 0
    samples: list[float] = field(default_factory=list)
    processes: list[int] = field(default_factory=list)
    loops: int = 1
    host: list[float] = field(default_factory=list)
    discarded: int = 0
    clocks: dict[str, Any] = field(default_factory=dict)
    first_call: float | None = None
    warmup_calls: int = 0
    steady: bool = False
    compile_seconds: float | None = None
    error: float | None = None
    worst_error: float | None = None
    errors: dict[str, float] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    inexact: list[str] = field(default_factory=list)
    moved_bytes: int | None = None
    flops: int | None = None
    copy_seconds: float | None = None
    inputs: str = ""
    threads_asked: int = 1
    threads: int = 1
    heap: str = "system"
    state: dict[str, Any] = field(default_factory=dict)
    profile: dict[str, Any] = field(default_factory=dict)
    overhead: float = 0.0
    environment: dict[str, Any] = field(default_factory=dict)

    @property
    def word(self) -> str:
        """The status for people: an interrupt is no fault of the case at hand."""
        interrupted = self.status == "error" and self.reason == INTERRUPTED
        return INTERRUPTED if interrupted else self.status

    @property
    def by_process(self) -> list[list[float]]:
        """The samples of each process; of one, where the run had no repeats."""
        samples = iter(self.samples)
        counts = self.processes or [len(self.samples)]
        return [list(itertools.islice(samples, count)) for count in counts]

    @property
    def median(self) -> float | None:
        """Of the samples; with repeats the median of the processes' medians."""
        return statistics.median(self._medians) if self.samples else None

    @property
    def spread(self) -> float | None:
        """Over the median: the interquartile range of the samples, with repeats the range of the
        processes' medians."""
        if len(self.processes) > 1:
            middle = statistics.median(self._medians)
            return (max(self._medians) - min(self._medians)) / middle if middle else None
        if len(self.samples) < 2:
            return None
        low, middle, high = statistics.quantiles(self.samples, n=4)
        return (high - low) / middle if middle else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends of the range that `spread` measures, in seconds."""
        if len(self.processes) > 1:
            return min(self._medians), max(self._medians)
        if len(self.samples) < 2:
            return None
        low, _, high = statistics.quantiles(self.samples, n=4)
        return low, high

    @property
    def _medians(self) -> list[float]:
        return [statistics.median(samples) for samples in self.by_process if samples]
