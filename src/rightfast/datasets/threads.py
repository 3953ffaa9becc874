"""The threads of this process that read and copy samples while it does something else."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from torch.utils.data import get_worker_info

from rightfast.datasets import forks

THREADS = 4  # of a process that has no workers
PART = 256 << 10  # bytes to read that are worth a thread
COPY = 2 << 20  # bytes to copy that are: with less, handing them over takes longer
T = TypeVar("T")
_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_for(nbytes: int) -> int:
    """How many threads are worth it for so many bytes: fewer than two means none.

    A DataLoader's worker has none: there are other workers.
    """
    return 0 if get_worker_info() is not None else min(THREADS, nbytes // PART)


def submit(work: Callable[..., T], *arguments: Any) -> Future[T]:
    """``work(*arguments)`` in a thread."""
    return _reading.executor().submit(work, *arguments)


def later(nbytes: int, work: Callable[..., T], *arguments: Any) -> Callable[[], T]:
    """What waits for ``work(*arguments)``, a copy of ``nbytes`` that a thread does if it is worth
    one."""
    if nbytes >= COPY and threads_for(nbytes):
        return _copying.executor().submit(work, *arguments).result
    result = work(*arguments)
    return lambda: result


def wait(reading: list[Future[None]]) -> None:
    """Until all is read; raises what the first failing part raised, after all have ended."""
    failures = [error for part in reading if (error := part.exception()) is not None]
    if failures:
        raise failures[0]


class _Threads:
    """They do not survive a fork, so a child has its own."""

    def __init__(self, purpose: str, count: int) -> None:
        self._purpose, self._count = purpose, count
        self._executor: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        forks.register(self)

    def executor(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None:
                name = f"rightfast-{self._purpose}-{os.getpid()}"
                self._executor = ThreadPoolExecutor(self._count, name)
            return self._executor

    def after_fork(self) -> None:
        self._executor, self._lock = None, threading.Lock()


_reading = _Threads("read", THREADS)  # they mostly wait
_copying = _Threads("copy", min(THREADS, _CORES))  # more drive each other's code out of the caches
