"""`SharedCache`: samples of a dataset in memory that all its workers share."""

import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from rightfast.datasets import buffers, segment
from rightfast.datasets.batch import Ahead, Batch
from rightfast.datasets.dataset import SampleDataset, check_indices, wait
from rightfast.datasets.room import capacity
from rightfast.datasets.segment import Segment, fence
from rightfast.datasets.structure import Structure
from rightfast.datasets.table import CLOSED, GENERATION, SlotTable, table_bytes

_TOGETHER = 8 << 20  # bytes of samples that `warm` reads at once


@dataclass(frozen=True)
class CacheInfo:
    """What a cache holds, and what was read through it, by all processes, since it was made."""

    hits: int
    misses: int
    filled: int  # samples that are there
    capacity: int  # samples that there is room for
    nbytes: int  # of the samples that are there

    @property
    def hit_rate(self) -> float:
        """Hits among all reads, from 0 to 1; 0 before the first."""
        return self.hits / max(1, self.hits + self.misses)


class SharedCache(Dataset[Any]):
    """A map-style dataset that keeps samples of another one in shared memory.

    A sample is stored when it is first read, by whatever process, until the cache is full; then
    all processes have it from there. Samples and batches that are handed out are copies. What
    the cache holds is the sample as it came: put random augmentation behind the cache.

    Args:
        dataset: map-style; samples are tensors, or tensors and numbers in tuples, lists and dicts,
            all of one structure, shape and dtype. The first sample says which.
        fraction: of the samples that there is room for, 0 to 1.
        bytes: room for samples instead, as a number or a text such as ``"4GiB"``.

    Raises:
        TypeError: samples of anything else, or a fraction that is no number.
        ValueError: a fraction out of range, both or neither of ``fraction`` and ``bytes``; on
            reading, a sample of another shape; on use after `close`.
        OSError: (ENOSPC) ``/dev/shm`` is short of room, now or when a sample is stored.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        fraction: float | None = None,
        bytes: int | str | None = None,
    ) -> None:
        count = _length(dataset)
        self.dataset = dataset
        self.structure = _structure(dataset, count)
        self.capacity = capacity(count, self.structure.sample_bytes, fraction, bytes)
        need = self.capacity * self.structure.sample_bytes
        segment.check_room(segment.FOLDER, need, "take a smaller fraction= or bytes=")
        self._start(Segment(table_bytes(count) + sum(self._sizes())), count)

    def _sizes(self) -> list[int]:
        """Bytes for all slots of each leaf, whole pages."""
        leaves = (leaf.nbytes * self.capacity for leaf in self.structure.leaves)
        return [-(-size // mmap.PAGESIZE) * mmap.PAGESIZE for size in leaves]

    def _start(self, shared: Segment, count: int) -> None:
        self._table: SlotTable | None = SlotTable(shared, count, self.capacity)
        self._count = count
        self._offsets = list(np.cumsum([table_bytes(count), *self._sizes()])[:-1].tolist())
        # Of each leaf: a row of bytes for each slot.
        self._slots = [
            shared.array(offset, self.capacity * leaf.nbytes, np.uint8).reshape(-1, leaf.nbytes)
            if leaf.nbytes and self.capacity
            else np.empty((self.capacity, leaf.nbytes), np.uint8)
            for offset, leaf in zip(self._offsets, self.structure.leaves, strict=True)
        ]
        self._bytes = self._slots[0].reshape(-1).data  # of a sample that is a single tensor

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Any:
        table = self._used()
        if type(index) is not int or not 0 <= index < self._count:
            (index,) = check_indices([index], self._count)
        block = buffers.pool.take(self.structure.batch_bytes(1))
        generation, slot = table.header[GENERATION], table.slots[index]
        if slot > 0 and self.structure.single and not generation & 1:
            fence()
            first = (slot - 1) * self.structure.sample_bytes
            block.view[:] = self._bytes[first : first + self.structure.sample_bytes]
            fence()
            if table.header[GENERATION] == generation:
                table.count_reads(1, 0)
                return self.structure.sample(block)
        self._begin([index], self.structure.parts(block.raw, 1))()
        return self.structure.sample(block)

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        if isinstance(indices, Ahead) and indices.owner is self:
            return indices.finish()
        return self.prefetch(indices).finish()

    def prefetch(self, indices: Sequence[int]) -> Ahead:
        """Start reading a batch. ``__getitems__`` of the result waits for it."""
        table = self._used()
        checked = check_indices(indices, self._count)
        if all(table.slots[index] > 0 for index in checked):
            return Ahead(indices, self, lambda: self._start_batch(checked)())  # nothing to wait for
        return Ahead(indices, self, self._start_batch(checked))

    def _start_batch(self, indices: list[int]) -> Callable[[], Batch]:
        count = len(indices)
        block = buffers.batch_memory(self.structure.batch_bytes(count))
        done = self._begin(indices, self.structure.parts(block.raw, count))

        def finish() -> Batch:
            done()
            return self.structure.batch(block, count)

        return finish

    def advise(self, indices: Sequence[int]) -> None:
        """Have the kernel read what is not here, if the dataset can say where it lies."""
        table = self._used()
        if isinstance(self.dataset, SampleDataset):
            checked = check_indices(indices, self._count)
            self.dataset.advise([index for index in checked if table.slots[index] <= 0])

    def _begin(
        self, indices: list[int], rows: list[NDArray[np.uint8]], counted: bool = True
    ) -> Callable[[], None]:
        """Hits into their rows, at once; what is returned does the rest."""
        table = self._used()
        missed = self._copy_hits(table, indices, rows)
        absent = [indices[place] for place in missed]
        lines = [[part[place].data for place in missed] for part in rows]
        bytewise = self.dataset if isinstance(self.dataset, SampleDataset) else None
        reading = bytewise.start(absent, lines[0]) if bytewise is not None and absent else []

        def done() -> None:
            wait(reading)
            if absent and bytewise is None:
                self._read_samples(absent, lines)
            for number, index in enumerate(absent):
                self._store(table, index, [line[number] for line in lines])
            if counted:
                table.count_reads(len(indices) - len(absent), len(absent))

        return done

    def _copy_hits(
        self, table: SlotTable, indices: list[int], rows: list[NDArray[np.uint8]]
    ) -> list[int]:
        """Copies what is there; returns the places of what is not."""
        everything = list(range(len(indices)))
        generation = table.generation
        if generation & 1 or not self.capacity:
            return everything
        view = table.slots
        slots = [view[index] for index in indices]
        fence()
        missed = [place for place in everything if slots[place] <= 0]
        if not missed and slots:
            chosen = np.array(slots) - 1
            for held, part in zip(self._slots, rows, strict=True):
                held.take(chosen, axis=0, out=part, mode="clip")
        elif len(missed) < len(slots):
            for place in everything:
                if slots[place] > 0:
                    for held, part in zip(self._slots, rows, strict=True):
                        part[place] = held[slots[place] - 1]
        fence()
        # Cleared meanwhile: the slots may be another sample's by now.
        return missed if table.generation == generation else everything

    def _read_samples(self, indices: list[int], lines: list[list[memoryview]]) -> None:
        """From a dataset that gives samples, not bytes."""
        many = getattr(self.dataset, "__getitems__", None)
        samples = many(indices) if many else (self.dataset[index] for index in indices)
        for number, sample in enumerate(samples):
            found = self.structure.to_bytes(sample, indices[number])
            for line, part in zip(lines, found, strict=True):
                line[number][:] = part.data

    def _store(self, table: SlotTable, index: int, parts: list[memoryview]) -> None:
        with table.writing(index) as slot:
            if slot is None:
                return
            for offset, held, part in zip(self._offsets, self._slots, parts, strict=True):
                table.segment.commit(offset + slot * len(part), len(part))
                held[slot] = part

    def warm(self, indices: Sequence[int] | None = None) -> int:
        """Store samples before they are asked for, in this process.

        Args:
            indices: which; None for the first ones, as many as there is room for.

        Returns:
            How many samples are there. They count as neither hits nor misses.
        """
        self._used()
        chosen = range(self.capacity) if indices is None else indices
        checked = check_indices(chosen, self._count)
        step = max(1, _TOGETHER // max(1, self.structure.sample_bytes))
        for start in range(0, len(checked), step):
            part = checked[start : start + step]
            block = buffers.pool.take(self.structure.batch_bytes(len(part)))
            self._begin(part, self.structure.parts(block.raw, len(part)), counted=False)()
        return self.info().filled

    def clear(self) -> None:
        """Empty the cache, and give its memory back, while other processes may read it."""
        table = self._used()
        with table.cleared():
            self._discard(table)

    def _discard(self, table: SlotTable) -> None:
        for offset, size in zip(self._offsets, self._sizes(), strict=True):
            table.segment.discard(offset, size)

    def info(self) -> CacheInfo:
        """Hits and misses of all processes, and what is there."""
        table = self._used()
        hits, misses = table.counts.sum(axis=0).tolist()
        filled = int((np.asarray(table.slots) > 0).sum())
        nbytes = filled * self.structure.sample_bytes
        return CacheInfo(hits, misses, filled, self.capacity, nbytes)

    def close(self) -> None:
        """Give the memory back, for all processes; reading raises ValueError from now on."""
        table, self._table = self._table, None
        if table is not None and not table.closed:
            with table.cleared():
                table.header[CLOSED] = 1
                self._discard(table)
        self._slots = []
        self._bytes = memoryview(b"")

    def __enter__(self) -> "SharedCache":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _used(self) -> SlotTable:
        if self._table is None or self._table.closed:
            raise ValueError(
                "expected a cache that is open, got one that was closed; make another one, or "
                "close it after the last read"
            )
        return self._table

    def __getstate__(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "structure": self.structure,
            "capacity": self.capacity,
            "count": self._count,
            "segment": self._used().segment,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        count, shared = state.pop("count"), state.pop("segment")
        self.__dict__.update(state)
        self._start(shared, count)


def _length(dataset: Any) -> int:
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise TypeError(
            f"expected a map-style dataset, with len() and [index], got {type(dataset).__name__}; "
            "an iterable one can't be cached by index"
        )
    return len(dataset)


def _structure(dataset: Any, count: int) -> Structure:
    if isinstance(dataset, (SampleDataset, SharedCache)):
        return dataset.structure
    return Structure.of(dataset[0]) if count else Structure.of_tensor((), torch.float32)
