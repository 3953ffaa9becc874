"""How long a call took, without the time that the machine gave to other programs meanwhile.

The wall clock is right as long as the thread keeps its core. Where the system took the core away
(an involuntary context switch, getrusage(2)), the wall clock counts foreign work: a call of 4 ms
beside one busy neighbour reads 4 or 8 ms. If the thread did not also wait of its own (a lock, a
file) and the process has no children, its CPU time is then what the call took at most: that of the
whole process, for its other threads may be what took the core.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

try:
    import resource

    _THREAD: int | None = resource.RUSAGE_THREAD
except (ImportError, AttributeError):  # not Linux: the wall clock alone
    _THREAD = None


@dataclass(frozen=True)
class Instant:
    """Nanoseconds of the wall clock and of the process's CPU time; how often the thread waited, and
    was made to wait."""

    wall: int
    process: int
    waited: int
    preempted: int


def start() -> Instant:
    waited, preempted = switches()
    process = time.process_time_ns()
    return Instant(time.perf_counter_ns(), process, waited, preempted)


def stop(begun: Instant) -> float:
    """Seconds since `begun`."""
    wall = time.perf_counter_ns() - begun.wall
    process = time.process_time_ns() - begun.process
    waited, preempted = switches()
    foreign = preempted != begun.preempted and waited == begun.waited and not children()
    return (min(wall, process) if foreign else wall) / 1e9


def children() -> bool:
    """Whether this process has live children: sched_yield(2) hands them the core, and counts as an
    involuntary switch."""
    tasks = f"/proc/{os.getpid()}/task"
    try:
        return any(Path(tasks, task, "children").read_bytes() for task in os.listdir(tasks))
    except OSError:
        return True  # not known, so nothing is left out


def switches() -> tuple[int, int]:
    """Voluntary and involuntary context switches of this thread so far."""
    if _THREAD is None:
        return 0, 0
    usage = resource.getrusage(_THREAD)
    return usage.ru_nvcsw, usage.ru_nivcsw
