"""How long a call took, without the time that the machine gave to other programs meanwhile.

The wall clock is right as long as the thread keeps its core. Where the system took the core away
(an involuntary context switch, getrusage(2)), the wall clock counts foreign work: a call of 4 ms
beside one busy neighbour reads 4 or 8 ms. If the thread did not also wait of its own (a lock, a
file, threads that work for it), its CPU time is then what the call took.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

try:
    import resource

    _THREAD: int | None = resource.RUSAGE_THREAD
except (ImportError, AttributeError):  # not Linux: the wall clock alone
    _THREAD = None


@dataclass(frozen=True)
class Instant:
    """Nanoseconds of the wall clock and of the thread; times it waited, and was sent to wait."""

    wall: int
    thread: int
    waited: int
    preempted: int


def start() -> Instant:
    waited, preempted = switches()
    thread = time.thread_time_ns()
    return Instant(time.perf_counter_ns(), thread, waited, preempted)


def stop(begun: Instant) -> float:
    """Seconds since `begun`."""
    wall = time.perf_counter_ns() - begun.wall
    thread = time.thread_time_ns() - begun.thread
    waited, preempted = switches()
    foreign = preempted != begun.preempted and waited == begun.waited
    return (min(wall, thread) if foreign else wall) / 1e9


def switches() -> tuple[int, int]:
    """Voluntary and involuntary context switches of this thread so far."""
    if _THREAD is None:
        return 0, 0
    usage = resource.getrusage(_THREAD)
    return usage.ru_nvcsw, usage.ru_nivcsw
