"""Locks at numbered places of a file, which the system releases when a process dies."""

import contextlib
import fcntl
import threading
import time
from collections.abc import Iterator

from rightfast.datasets import forks

ALL = 0  # the place of `Locks.alone`
_SPIN = 2e-5  # seconds


class Locks:
    """Record locks of the file ``fd``, which exclude processes, and what excludes threads beside.

    A process loses its record locks with the first descriptor of the file that it closes, so it
    must not open others for a while. A signal handler may use what it interrupts: it never waits
    for its own thread.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.after_fork()
        forks.register(self)

    def after_fork(self) -> None:
        # Record locks are not inherited, and another thread of the parent may have held this one.
        self._threads = threading.RLock()
        self._depth = 0
        self._held: set[int] = set()

    def acquire(self, place: int) -> bool:
        """Take a place other than ALL, unless a thread of this or another process has it."""
        with self._threads:
            if place in self._held:
                return False
            self._held.add(place)
            if self._lock(place):
                return True
            self._held.discard(place)
            return False

    def release(self, place: int) -> None:
        """Give back a place that was acquired."""
        self._unlock(place)
        self._held.discard(place)

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """No other thread of any process is here, a matter of microseconds.

        Yields False in a signal handler that interrupts this very thread in here.
        """
        with self._threads:
            self._depth += 1
            try:
                # A lock that waits would take two caches, locked by two threads of two processes
                # each, for a deadlock (EDEADLK). Locked again in a handler, it stays locked.
                while not self._lock(ALL):
                    time.sleep(_SPIN)
                yield self._depth == 1
            finally:
                self._depth -= 1
                if not self._depth:
                    self._unlock(ALL)

    def _lock(self, place: int) -> bool:
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _unlock(self, place: int) -> None:
        fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, place)
