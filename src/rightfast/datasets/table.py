"""Which sample has which slot: the protocol by which processes share a cache.

Record locks, which the system releases when a process dies, keep slots from being given back while
they are used: readers share one, a writer has that of its sample, and who clears has all of them.
Reading memory that was given back would have the system find new memory for it, and a full file
system has none: SIGBUS. A slot is published after its bytes. See `SharedCache`.
"""

import contextlib
import fcntl
import mmap
import os
from collections.abc import Iterator

import numpy as np

from rightfast.datasets import forks
from rightfast.datasets.segment import Segment, fence

CLEARING, USED, CLOSED = 0, 1, 2  # places in the header
WORDS = 8
ROWS = 4096  # processes that count hits at one time
# Record locks: one for the numbers, each counting process, who clears, those who read, each sample.
_NUMBERS, _COUNTING = 0, 1
_CLEARING = _COUNTING + ROWS
_READING, _SAMPLES = _CLEARING + 1, _CLEARING + 2
_SHARED, _ALONE = fcntl.LOCK_SH | fcntl.LOCK_NB, fcntl.LOCK_EX | fcntl.LOCK_NB


def table_bytes(count: int) -> int:
    """Bytes of the table of ``count`` samples, whole pages."""
    size = 8 * WORDS + 16 * ROWS + 4 * count
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


class SlotTable:
    """The table of a cache of ``capacity`` slots for ``count`` samples, at a segment's start.

    ``slots[i]`` is 0 for a sample that is not there, ``slot + 1`` for one that is, and
    ``-(slot + 1)`` while it is written, and for good if its writer died: the next one uses it.
    """

    def __init__(self, segment: Segment, count: int, capacity: int) -> None:
        self.segment, self.count, self.capacity = segment, count, capacity
        self.header = segment.view(0, WORDS, "q")
        self.counts = segment.array(8 * WORDS, 2 * ROWS, np.int64).reshape(ROWS, 2)
        self._counts = segment.view(8 * WORDS, 2 * ROWS, "q")
        self.slots = segment.view(8 * WORDS + 16 * ROWS, count, "i")
        self._row: int | None = None
        forks.register(self)

    def after_fork(self) -> None:
        self._row = None  # record locks are not inherited

    @property
    def full(self) -> bool:
        """Whether all slots are taken."""
        return self.header[USED] >= self.capacity

    @property
    def closed(self) -> bool:
        """Whether the cache was closed, in whatever process."""
        return bool(self.header[CLOSED])

    @contextlib.contextmanager
    def writing(self, index: int) -> Iterator[int | None]:
        """The slot to write sample ``index`` to, published on leaving without an error.

        None if it is there already, is being written by another process, or the cache is full.
        """
        if self.slots[index] > 0 or (self.full and not self.slots[index]):
            yield None
            return
        with self.segment.lock:
            if not self._acquire(_SAMPLES + index):
                yield None
                return
            try:
                slot = self._reserve(index)
                yield slot
                if slot is not None:
                    fence()
                    self.slots[index] = slot + 1
            finally:
                self._release(_SAMPLES + index)

    def _reserve(self, index: int) -> int | None:
        known = self.slots[index]  # again, now that no other process writes it
        if known > 0 or self.header[CLEARING] or self.closed:
            return None
        if known < 0:
            return -known - 1
        fcntl.lockf(self.segment.fd, fcntl.LOCK_EX, 1, _NUMBERS)
        try:
            slot = self.header[USED]
            if self.full:
                return None
            self.header[USED] = slot + 1
            self.slots[index] = -(slot + 1)
            return slot
        finally:
            self._release(_NUMBERS)

    def enter(self) -> bool:
        """Whether slots may be read, until `leave`, which is to follow; not while one clears."""
        shared = self.segment
        with shared.lock:
            if self.header[CLEARING]:
                return False
            if not shared.readers:
                try:
                    fcntl.lockf(shared.fd, _SHARED, 1, _READING)
                except (BlockingIOError, PermissionError):  # one clears
                    return False
            shared.readers += 1
            return True

    def leave(self, hits: int = 0) -> None:
        """No slot is read any more; with ``hits``, as `count_reads`."""
        shared = self.segment
        with shared.lock:
            shared.readers -= 1
            if not shared.readers:
                fcntl.lockf(shared.fd, fcntl.LOCK_UN, 1, _READING)
                if self.header[CLEARING]:
                    shared.idle.notify_all()
            if hits:
                self._count(hits, 0)

    @contextlib.contextmanager
    def cleared(self) -> Iterator[None]:
        """Empties the table, while no process reads or writes. Its body gives the memory back."""
        fd, shared = self.segment.fd, self.segment
        with shared.lock:
            while shared.readers:
                self.header[CLEARING] = 1  # from here on nobody enters
                shared.idle.wait()
            fcntl.lockf(fd, fcntl.LOCK_EX, 1, _CLEARING)
            try:
                self.header[CLEARING] = 1  # and stays, if this process dies: all misses
                fcntl.lockf(fd, fcntl.LOCK_EX, 1 + self.count, _READING)
                np.asarray(self.slots)[:] = 0
                self.header[USED] = 0
                yield
                self.header[CLEARING] = 0
            finally:
                fcntl.lockf(fd, fcntl.LOCK_UN, 2 + self.count, _CLEARING)

    def count_reads(self, hits: int, misses: int) -> None:
        """Add to what this process has read."""
        with self.segment.lock:
            self._count(hits, misses)

    def _count(self, hits: int, misses: int) -> None:
        if self._row is None:
            self._row = self._counting_row()
        if hits:
            self._counts[2 * self._row] += hits
        if misses:
            self._counts[2 * self._row + 1] += misses

    def _counting_row(self) -> int:
        """A row that no living process counts in; it goes on with the numbers that are there."""
        for row in range(ROWS):
            if self._acquire(_COUNTING + row):
                return row
        return os.getpid() % ROWS  # thousands of processes: some counts are lost

    def _acquire(self, place: int) -> bool:
        try:
            fcntl.lockf(self.segment.fd, _ALONE, 1, place)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _release(self, place: int) -> None:
        fcntl.lockf(self.segment.fd, fcntl.LOCK_UN, 1, place)
