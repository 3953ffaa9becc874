"""Sampling on the CPU. Hooks never measure; the clock is read in stopwatch.py alone.

A sample is the time of one call, in seconds: the mean over a loop where a call is too short for
the clock. Samples keep their order in time. A few samples, drawn beforehand, keep what the call
returned, copied at once, so that the timed work itself is verified.
"""

from __future__ import annotations

import gc
import itertools
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from . import stopwatch

# Shorter calls are looped until one sample lasts this long: a thousand times the clock's own cost.
SHORTEST_SAMPLE = 100e-6
MOST_SAMPLES = 1000
# Where other processes use the core between two blocks, so many calls of the next one are slow: the
# first takes twice as long or more, the eighth 1.2 times (seen where 4 MB are touched).
LEAD_CALLS = 8


@dataclass(frozen=True)
class Budget:
    """Seconds to sample for, the fewest samples, and how many of them keep their answer.

    `lead`: seconds of calls before them that are thrown away, and LEAD_CALLS calls at least, but
    no more than four times as long. For a core that is shared, so not on other devices.
    """

    max_time: float
    min_rounds: int
    kept: int = 3
    lead: float = 0.0


@dataclass
class Timing:
    """Raw samples and how they came about. All times in seconds; `busy` is all that was timed."""

    samples: list[float]
    loops: int
    first_call: float
    warmup_calls: int
    steady: bool
    busy: float = 0.0
    kept: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Target:
    """What is timed.

    Args:
        calls: one closure per set of inputs; samples take turns. With `reset`, a closure consumes
            its inputs, and is called once between two resets.
        keep: turns a returned value into a copy that later calls cannot touch.
        reset: restores consumed inputs, outside the timed region.
    """

    calls: Sequence[Callable[[], Any]]
    keep: Callable[[int, Any], Any]
    reset: Callable[[], None] | None = None


class Sampler:
    """A warmed-up target: blocks of samples can be taken from it again and again.

    Args:
        target: what is timed.
        budget: seconds that one block may take; a tenth of it is the most that warming up takes.
        seed: decides which rounds keep their answer.
    """

    def __init__(self, target: Target, budget: Budget, seed: int = 0) -> None:
        self.target, self.budget, self._random = target, budget, random.Random(seed)
        with no_gc():
            times, steady = _warm_up(target, budget)
        self.per_call = statistics.median(times[len(times) // 2 :])
        self.loops = _loops(target, self.per_call)
        self._turn = 0  # a block of one sample must not always take the same inputs
        self.warm = Timing([], self.loops, times[0], len(times), steady, sum(times))

    def block(self, budget: Budget | None = None) -> Timing:
        """Samples for one budget, its own by default."""
        budget = budget or self.budget
        rounds = _rounds(budget, self.per_call * self.loops)
        keep = frozenset(self._random.sample(range(rounds), min(budget.kept, rounds)))
        timing = replace(self.warm, samples=[], kept=[])
        with no_gc():
            self._lead(budget.lead, timing)
            for index in range(rounds):
                which = (self._turn + index) % len(self.target.calls)
                seconds = _sample(self.target, which, self.loops, index in keep, timing)
                timing.samples.append(seconds)
        self._turn += rounds
        timing.busy += sum(timing.samples) * self.loops
        return timing

    def _lead(self, seconds: float, timing: Timing) -> None:
        """Fill the caches again."""
        calls, spent = 0, 0.0
        while spent < (4 * seconds if calls < LEAD_CALLS else seconds):
            which = calls // self.loops % len(self.target.calls)
            spent += _sample(self.target, which, self.loops, False, timing) * self.loops
            calls += self.loops
        timing.busy += spent


def _warm_up(target: Target, budget: Budget) -> tuple[list[float], bool]:
    """Call until a third of the calls is no faster than the third before it, for a tenth of the
    budget at most. Returns the seconds of each call, and whether they became steady."""
    first = _time(target.calls[0], 1)
    limit, spent, times = budget.max_time / 10, first, [first]
    turns = itertools.cycle(range(len(target.calls)))
    while spent < limit or len(times) < 3:
        if len(times) >= 2 and spent > 5 * limit:
            break
        if target.reset:
            target.reset()
        times.append(_time(target.calls[next(turns)], 1))
        spent += times[-1]
        third = len(times) // 3
        if third >= 10 and len(times) % 10 == 0:
            late = statistics.median(times[-third:])
            if late > 0.95 * statistics.median(times[-2 * third : -third]):
                return times, True
    return times, False


def _loops(target: Target, per_call: float) -> int:
    if target.reset is not None:
        return len(target.calls)
    return max(1, int(SHORTEST_SAMPLE / max(per_call, 1e-9)))


def _rounds(budget: Budget, per_sample: float) -> int:
    wanted = int(budget.max_time / max(per_sample, 1e-9))
    return max(budget.min_rounds, min(wanted, MOST_SAMPLES))


def _sample(target: Target, which: int, loops: int, keep: bool, timing: Timing) -> float:
    """Seconds per call of one sample."""
    if target.reset is not None:
        return _sample_consuming(target, keep, timing)
    call = target.calls[which]
    if not keep:
        return _time(call, loops) / loops
    begun = stopwatch.start()
    for _ in itertools.repeat(None, loops - 1):
        call()
    returned = call()
    seconds = stopwatch.stop(begun)
    timing.kept.append(target.keep(which, returned))
    return seconds / loops


def _sample_consuming(target: Target, keep: bool, timing: Timing) -> float:
    """Each closure once, on inputs that were just restored."""
    assert target.reset is not None
    target.reset()
    begun = stopwatch.start()
    for call in target.calls:
        returned = call()
    seconds = stopwatch.stop(begun)
    if keep:
        last = len(target.calls) - 1
        timing.kept.append(target.keep(last, returned))
    return seconds / len(target.calls)


def _time(call: Callable[[], Any], loops: int) -> float:
    begun = stopwatch.start()
    for _ in itertools.repeat(None, loops):
        call()
    return stopwatch.stop(begun)


@contextmanager
def no_gc() -> Iterator[None]:
    """A collection in the middle of a sample is no property of the call."""
    enabled = gc.isenabled()
    gc.collect(0)
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
