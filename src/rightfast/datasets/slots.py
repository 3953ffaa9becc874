"""The memory of a cache's samples: a row for each slot, of each part of a sample."""

import mmap
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rightfast.datasets.segment import Segment
from rightfast.datasets.structure import Structure


def slots_bytes(structure: Structure, capacity: int) -> int:
    """Bytes of ``capacity`` slots, whole pages for each part."""
    return sum(_sizes(structure, capacity))


def _sizes(structure: Structure, capacity: int) -> list[int]:
    sizes = (leaf.nbytes * capacity for leaf in structure.leaves)
    return [-(-size // mmap.PAGESIZE) * mmap.PAGESIZE for size in sizes]


class Slots:
    """``capacity`` slots for samples of one structure, from byte ``start`` of a segment on."""

    def __init__(self, segment: Segment, structure: Structure, capacity: int, start: int) -> None:
        self._segment, sizes = segment, _sizes(structure, capacity)
        self._offsets: list[int] = [start, *(start + np.cumsum(sizes)[:-1]).tolist()]
        # Of each part: a row of bytes for each slot.
        self._rows = [
            segment.array(offset, capacity * leaf.nbytes, np.uint8).reshape(-1, leaf.nbytes)
            if leaf.nbytes and capacity
            else np.empty((capacity, leaf.nbytes), np.uint8)
            for offset, leaf in zip(self._offsets, structure.leaves, strict=True)
        ]
        self._nbytes = self._rows[0].shape[1]
        self._flat = self._rows[0].reshape(-1).data

    def copy(self, slot: int, row: memoryview) -> None:
        """A sample of a single part into ``row``."""
        first = slot * self._nbytes
        row[:] = self._flat[first : first + self._nbytes]

    def gather(self, slots: Sequence[int], parts: Sequence[NDArray[np.uint8]]) -> None:
        """Samples into a batch: those of ``slots``, into the rows of each of ``parts``."""
        for held, part in zip(self._rows, parts, strict=True):
            held.take(slots, axis=0, out=part, mode="clip")

    def store(self, slot: int, parts: Sequence[memoryview]) -> None:
        """A sample into its slot. Raises OSError (ENOSPC) where there is no room for it."""
        for offset, held, part in zip(self._offsets, self._rows, parts, strict=True):
            self._segment.commit(offset + slot * len(part), len(part))
            held[slot] = part
