"""Device time by events and host time by the wall clock, kept apart, on CUDA and its likes.

A sample: the L2 cache is flushed by clearing a large buffer, which also keeps the device busy while
the host enqueues the call, so that the events bracket the device's work and not the host's. Host
time is what the call itself takes to return. Works with any device module of torch that has
events (`torch.cuda`, `torch.xpu`, ...).

Events see one stream. So a few extra calls compare the moment when the end event has passed with
the moment when the whole device is idle: work on a side stream that nobody waits for shows there.
"""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass, field, replace
from typing import Any

from .clock_cpu import MOST_SAMPLES, Budget, Target, Timing, no_gc
from .nvml import Throttle

FLUSH_BYTES = 256 * 2**20
# After the end event has passed, the rest of the device may take this much longer to fall idle.
ESCAPE_SECONDS, ESCAPE_SHARE = 30e-6, 0.2
ESCAPE_CALLS = 7


@dataclass
class DeviceTiming(Timing):
    """`samples` are device times; `host` the times that the calls took to return.

    Attributes:
        escaped: median seconds that the device went on after the end event; 0 if within the bound.
        discarded: samples dropped because the clock was throttled around them.
        clocks: what NVML said: SM clock in MHz at the start and the end, throttle reasons.
    """

    host: list[float] = field(default_factory=list)
    escaped: float = 0.0
    discarded: int = 0
    clocks: dict[str, Any] = field(default_factory=dict)


class DeviceSampler:
    """Like `clock_cpu.Sampler`, on a device."""

    def __init__(self, target: Target, budget: Budget, device: Any, seed: int = 0) -> None:
        import torch

        self.target, self.budget, self._random = target, budget, random.Random(seed)
        self.device, self.module = device, getattr(torch, device.type)
        self.loops = 1
        self._flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device=device)
        start = time.perf_counter()
        self._call(0)
        self.module.synchronize(device)
        first = time.perf_counter() - start
        self.per_sample, calls = self._warm_up()
        self.warm = DeviceTiming([], 1, first, calls + 1, True)

    def _call(self, which: int) -> Any:
        if self.target.reset is not None:
            self.target.reset()
        return self.target.calls[which]()

    def _warm_up(self) -> tuple[float, int]:
        """A tenth of the budget, at least three calls. Returns seconds of a whole sample."""
        times: list[float] = []
        while len(times) < 3 or (sum(times) < self.budget.max_time / 10 and len(times) < 1000):
            start = time.perf_counter()
            self._flush.zero_()
            self._call(len(times) % len(self.target.calls))
            self.module.synchronize(self.device)
            times.append(time.perf_counter() - start)
        return statistics.median(times), len(times)

    def block(self, budget: Budget | None = None) -> DeviceTiming:
        budget = budget or self.budget
        wanted = int(budget.max_time / self.per_sample)
        rounds = max(budget.min_rounds, min(wanted, MOST_SAMPLES))
        keep = frozenset(self._random.sample(range(rounds), min(budget.kept, rounds)))
        found = replace(self.warm, samples=[], host=[], kept=[])
        with no_gc(), Throttle(self.device) as throttle:
            start = time.perf_counter()
            for first in range(0, rounds, 20):
                throttle.look()
                part = range(first, min(first + 20, rounds))
                samples, host = self._rounds(part, keep, found)
                if throttle.look():
                    found.discarded += len(samples)
                    continue
                found.samples += samples
                found.host += host
            found.busy = time.perf_counter() - start
            found.escaped = self._escaped()
        found.clocks = throttle.log
        return found

    def _rounds(
        self, part: range, keep: frozenset[int], found: DeviceTiming
    ) -> tuple[list[float], list[float]]:
        """Enqueue some samples, then wait for all: no wait stands between two of them."""
        events, host = [], []
        for index in part:
            which = index % len(self.target.calls)
            if self.target.reset is not None:
                self.target.reset()
            begin = self.module.Event(enable_timing=True)
            end = self.module.Event(enable_timing=True)
            self._flush.zero_()
            begin.record()
            start = time.perf_counter_ns()
            returned = self.target.calls[which]()
            host.append((time.perf_counter_ns() - start) / 1e9)
            end.record()
            events.append((begin, end))
            if index in keep:
                found.kept.append(self.target.keep(which, returned))
            del returned
        self.module.synchronize(self.device)
        return [begin.elapsed_time(end) / 1e3 for begin, end in events], host

    def _escaped(self) -> float:
        """Seconds that the device works on after the end event of a call, if beyond the bound."""
        late, lengths = [], []
        for index in range(ESCAPE_CALLS):
            self.module.synchronize(self.device)
            begin = self.module.Event(enable_timing=True)
            end = self.module.Event(enable_timing=True)
            begin.record()
            returned = self._call(index % len(self.target.calls))
            end.record()
            end.synchronize()
            passed = time.perf_counter()
            self.module.synchronize(self.device)
            late.append(time.perf_counter() - passed)
            lengths.append(begin.elapsed_time(end) / 1e3)
            del returned
        bound = max(ESCAPE_SECONDS, ESCAPE_SHARE * statistics.median(lengths))
        middle = statistics.median(late)
        return middle if middle > bound else 0.0
