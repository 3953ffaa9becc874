"""Batches that a worker writes and the parent reads in the same memory, used again and again."""

import mmap
import weakref
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rightfast.datasets.batch import Batch
from rightfast.datasets.buffers import Block
from rightfast.datasets.segment import Segment, fence
from rightfast.datasets.structure import Structure

_FREE, _LENT = 0, 1


class Ring:
    """Shared memory for batches: ``each`` slots of ``slot_bytes`` for each of ``workers``.

    A worker writes a batch to a slot of its own and sends the slot's number. The slot is free again
    when the parent has nothing that refers to it; a batch that is kept is not written to again.
    """

    _here: ClassVar[weakref.WeakValueDictionary[str, "Ring"]] = weakref.WeakValueDictionary()

    def __init__(self, workers: int, each: int, slot_bytes: int) -> None:
        self.each, self.slots = each, workers * each
        self.slot_bytes = -(-slot_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        segment = Segment(self._place(self.slots))
        segment.commit(0, self._place(0))
        self._start(segment)

    def _start(self, segment: Segment) -> None:
        self.segment = segment
        # Of each slot: whether it is lent, and whether its memory was ever set aside.
        self._lent = segment.array(0, self.slots, np.uint8)
        self._committed = segment.array(self.slots, self.slots, np.uint8)
        self._held: set[int] = set()  # slots that the parent has
        Ring._here[segment.name] = self

    def _place(self, slot: int) -> int:
        return -(-2 * self.slots // mmap.PAGESIZE) * mmap.PAGESIZE + slot * self.slot_bytes

    def _memory(self, slot: int, nbytes: int) -> Any:
        return self.segment.array(self._place(slot), nbytes, np.uint8)

    def claim(self, worker: int) -> int | None:
        """A free slot of a worker, in that worker."""
        for slot in range(worker * self.each, (worker + 1) * self.each):
            if self._lent[slot] == _FREE:
                fence()
                self._lent[slot] = _LENT
                if not self._committed[slot]:
                    self.segment.commit(self._place(slot), self.slot_bytes)
                    self._committed[slot] = 1
                return slot
        return None

    def release(self, slot: int) -> None:
        """The slot may be written again."""
        fence()
        self._held.discard(slot)
        self._lent[slot] = _FREE

    def received(self, slot: int, nbytes: int) -> Block:
        """In the parent: the bytes of a slot, which returns when nothing refers to them."""
        fence()
        self._held.add(slot)
        return Block(self._memory(slot, nbytes), lambda: self.release(slot))

    def reclaim(self) -> None:
        """Take back what dead workers had, and what they sent and nobody received."""
        for slot in range(self.slots):
            if slot not in self._held:
                self._lent[slot] = _FREE

    def __getstate__(self) -> dict[str, Any]:
        return {
            "each": self.each,
            "slots": self.slots,
            "slot_bytes": self.slot_bytes,
            "segment": self.segment,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start(state["segment"])


class Leased(Block):
    """The memory of a slot while a worker has it."""

    __slots__ = ("ring", "sent", "slot")

    def __init__(self, ring: Ring, slot: int, raw: NDArray[np.uint8]) -> None:
        super().__init__(raw, self._end)
        self.ring, self.slot, self.sent = ring, slot, False

    def _end(self) -> None:
        if not self.sent:
            self.ring.release(self.slot)


class WorkerRing:
    """The slots of one worker, as `buffers.lend_from` takes them."""

    def __init__(self, ring: Ring, worker: int) -> None:
        self.ring, self.worker = ring, worker

    def take(self, nbytes: int) -> Block | None:
        slot = self.ring.claim(self.worker) if 0 < nbytes <= self.ring.slot_bytes else None
        if slot is None:
            return None
        return Leased(self.ring, slot, self.ring._memory(slot, nbytes))


class Sent:
    """A batch on its way to the parent, where it arrives as the stacked tensors."""

    def __init__(self, leased: Leased, batch: Batch) -> None:
        self._leased, self._batch = leased, batch

    def __reduce__(self) -> Any:
        leased, batch = self._leased, self._batch
        leased.sent = True
        name, size = leased.ring.segment.name, leased.raw.nbytes
        return _received, (name, leased.slot, size, batch.size, batch.structure)


def _received(name: str, slot: int, size: int, count: int, structure: Structure) -> Any:
    return structure.stacked(Ring._here[name].received(slot, size), count)
