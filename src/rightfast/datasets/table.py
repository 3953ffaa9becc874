"""Which sample has which slot: the protocol by which processes share a cache.

Readers take no lock. Every slot that is given to a sample has a *ticket*, a number that is never
given again: between one `clear` and the next there are as many as slots, from ``header[BASE]`` on,
and ticket ``base + s`` stands for slot ``s``. To clear is to raise the base by one store; memory
stays where it is, so nobody who still copies meets a page that is gone (on a full file system:
SIGBUS). A reader copies what a ticket stands for, and then looks whether the base is the same.

Why that is enough: the bytes of a slot change only under its lock, for a ticket that is not
published yet, and a published one is never written again. So while a reader copies what it found
published, they change only for a ticket of a later base, which the writer found in the header
before it wrote; a reader who saw any of these bytes sees that base, or a later one, after them.
This takes loads in order, stores in order, and no store before an earlier load: see `fence`.
"""

import contextlib
import mmap
import os
import threading
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from rightfast.datasets import forks
from rightfast.datasets.segment import Segment, fence
from rightfast.datasets.slots import Slots, slots_bytes
from rightfast.datasets.structure import Structure

BASE, NEXT, CLOSED = 0, 1, 2  # places in the header
WORDS = 8
ROWS = 4096  # processes that count hits at one time
# Locks: of each counting process, of each slot.
_COUNTING = 1
_SLOTS = _COUNTING + ROWS


def _table_bytes(count: int) -> int:
    """Bytes of the table of ``count`` samples, whole pages."""
    size = 8 * WORDS + 16 * ROWS + 8 * count
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def new_segment(structure: Structure, count: int, capacity: int) -> Segment:
    """Memory for `SlotTable`; that of the table is set aside."""
    segment = Segment(_table_bytes(count) + slots_bytes(structure, capacity))
    segment.commit(0, _table_bytes(count))
    SlotTable(segment, structure, count, capacity).clear()  # ticket 0 is nobody's
    return segment


class SlotTable:
    """A cache of ``capacity`` slots for ``count`` samples: its table, and then the slots.

    ``tickets[i]`` is that of sample ``i``, negative while it is written, and for good if its
    writer died: the next one uses it. One below the base is worth nothing.
    """

    def __init__(self, segment: Segment, structure: Structure, count: int, capacity: int) -> None:
        self.segment, self.capacity = segment, capacity
        self.header = segment.view(0, WORDS)
        self.counts = segment.array(8 * WORDS, 2 * ROWS, np.int64).reshape(ROWS, 2)
        self._counts = segment.view(8 * WORDS, 2 * ROWS)
        self.tickets = segment.view(8 * WORDS + 16 * ROWS, count)
        self.slots = Slots(segment, structure, capacity, _table_bytes(count))
        self.after_fork()
        forks.register(self)

    def after_fork(self) -> None:
        # The locks of rows are not inherited; a handler may count while its thread does.
        self._row: int | None = None
        self._counting = threading.RLock()

    @property
    def closed(self) -> bool:
        """Whether the cache was closed, in whatever process."""
        return bool(self.header[CLOSED])

    @property
    def filled(self) -> int:
        """Samples that are there."""
        tickets = np.array(self.tickets)
        fence()
        return int((tickets >= self.header[BASE]).sum())

    def read_one(self, index: int, row: memoryview) -> bool:
        """Copies a sample of a single part, if it is there."""
        ticket = self.tickets[index]
        fence()
        base = self.header[BASE]  # after the ticket, which so is none of a later base
        if ticket < base:
            return False
        self.slots.copy(ticket - base, row)
        fence()
        return self.header[BASE] == base

    def read(self, indices: Sequence[int], rows: list[NDArray[np.uint8]]) -> list[int]:
        """Copies the samples that are there; returns the places of those that are not."""
        view = self.tickets
        tickets = [view[index] for index in indices]
        fence()
        base = self.header[BASE]
        slots = [ticket - base for ticket in tickets]
        if min(slots, default=-1) >= 0:
            self.slots.gather(slots, rows)
            missed = []
        else:
            missed = [place for place, slot in enumerate(slots) if slot < 0]
            for place, slot in enumerate(slots):
                if slot >= 0:
                    self.slots.gather([slot], [part[place : place + 1] for part in rows])
        fence()
        return missed if self.header[BASE] == base else list(range(len(slots)))

    def missing(self, indices: Sequence[int]) -> list[int]:
        """Those of ``indices`` that are not there."""
        base = self.header[BASE]
        return [index for index in indices if self.tickets[index] < base]

    @contextlib.contextmanager
    def writing(self, index: int) -> Iterator[int | None]:
        """The slot to write sample ``index`` to, published on leaving without an error.

        None if it is there already, is being written by another thread, or the cache is full.
        """
        reserved = self._reserve(index)
        if reserved is None:
            yield None
            return
        base, slot = reserved
        locks = self.segment.locks
        try:
            fence()
            yield slot
            fence()
            with locks.alone():
                if self.header[BASE] == base:  # else the sample may have another ticket by now
                    self.tickets[index] = base + slot
        finally:
            locks.release(_SLOTS + slot)

    def _reserve(self, index: int) -> tuple[int, int] | None:
        """(base, slot) for a sample, with the lock of the slot."""
        locks, base, ticket = self.segment.locks, self.header[BASE], self.tickets[index]
        if ticket >= base or (-ticket < base and self._next(base) is None):
            return None
        with locks.alone() as first:
            base, ticket = self.header[BASE], self.tickets[index]
            if ticket >= base or self.closed or not first:
                return None
            reserved = -ticket if -ticket >= base else self._next(base)
            if reserved is None:
                return None
            if ticket != -reserved:
                self.header[NEXT] = reserved + 1  # first: who dies here wastes it
                self.tickets[index] = -reserved
            # Whoever has the lock writes this sample, or one of an earlier base.
            slot = reserved - base
            return (base, slot) if locks.acquire(_SLOTS + slot) else None

    def _next(self, base: int) -> int | None:
        """The ticket to give next, unless the cache is full."""
        ticket = max(base, self.header[NEXT])
        return ticket if ticket < base + self.capacity else None

    def clear(self) -> None:
        """Empties the table, and waits neither for those who read nor for those who write."""
        with self.segment.locks.alone():
            self.header[BASE] += self.capacity + 1

    def count_reads(self, hits: int, misses: int) -> None:
        """Add to what this process has read."""
        with self._counting:
            if self._row is None:
                self._row = self._counting_row()
            if hits:
                self._counts[2 * self._row] += hits
            if misses:
                self._counts[2 * self._row + 1] += misses

    def _counting_row(self) -> int:
        """A row that no living process counts in; it goes on with the numbers that are there."""
        for row in range(ROWS):
            if self.segment.locks.acquire(_COUNTING + row):
                return row
        return os.getpid() % ROWS  # thousands of processes: some counts are lost
