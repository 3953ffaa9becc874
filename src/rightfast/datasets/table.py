"""Which sample has which slot: the protocol by which processes share a cache.

A reader takes no lock: it reads the slot of its sample, copies, and then looks whether the cache
was cleared meanwhile. A writer has the record lock of its sample, which the system releases when a
process dies, and publishes the slot after the bytes. See `SharedCache`.
"""

import contextlib
import fcntl
import mmap
import os
from collections.abc import Iterator

import numpy as np

from rightfast.datasets import forks
from rightfast.datasets.segment import Segment, fence

GENERATION, USED, CLOSED = 0, 1, 2  # places in the header
WORDS = 8
ROWS = 4096  # processes that count hits at one time
# Record locks: one for the numbers, one for each counting process, one for each sample.
_NUMBERS, _COUNTING = 0, 1
_SAMPLES = _COUNTING + ROWS


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
    def generation(self) -> int:
        """Changes with every `cleared`; odd while one goes on."""
        return self.header[GENERATION]

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
        if known > 0 or self.generation & 1 or self.closed:
            return None
        if known < 0:
            return -known - 1
        self._acquire(_NUMBERS, wait=True)
        try:
            slot = self.header[USED]
            if self.full:
                return None
            self.header[USED] = slot + 1
            self.slots[index] = -(slot + 1)
            return slot
        finally:
            self._release(_NUMBERS)

    @contextlib.contextmanager
    def cleared(self) -> Iterator[None]:
        """Empties the table, while no process writes. Its body gives the memory back."""
        with self.segment.lock:
            fcntl.lockf(self.segment.fd, fcntl.LOCK_EX, self.count, _SAMPLES)
            try:
                # Odd already: who cleared before died of it.
                self.header[GENERATION] += 2 if self.generation & 1 else 1
                fence()
                np.asarray(self.slots)[:] = 0
                self.header[USED] = 0
                yield
                fence()
                self.header[GENERATION] += 1
            finally:
                fcntl.lockf(self.segment.fd, fcntl.LOCK_UN, self.count, _SAMPLES)

    def count_reads(self, hits: int, misses: int) -> None:
        """Add to what this process has read."""
        if self._row is None:
            self._row = self._counting_row()
        with self.segment.lock:
            self._counts[2 * self._row] += hits
            self._counts[2 * self._row + 1] += misses

    def _counting_row(self) -> int:
        """A row that no living process counts in; it goes on with the numbers that are there."""
        with self.segment.lock:
            for row in range(ROWS):
                if self._acquire(_COUNTING + row):
                    return row
        return os.getpid() % ROWS  # thousands of processes: some counts are lost

    def _acquire(self, place: int, wait: bool = False) -> bool:
        try:
            flags = fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB)
            fcntl.lockf(self.segment.fd, flags, 1, place)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _release(self, place: int) -> None:
        fcntl.lockf(self.segment.fd, fcntl.LOCK_UN, 1, place)
