"""`SharedCache`: samples of a dataset in memory that all its workers share."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from rightfast.datasets import buffers, segment
from rightfast.datasets.batch import Ahead, Batch, Followed, start_on
from rightfast.datasets.buffers import Block
from rightfast.datasets.dataset import SampleDataset, check_indices
from rightfast.datasets.room import capacity
from rightfast.datasets.segment import Segment
from rightfast.datasets.structure import Structure
from rightfast.datasets.table import CLOSED, SlotTable, new_segment
from rightfast.datasets.threads import later, wait

_TOGETHER = 8 << 20  # bytes of samples that `warm` reads at once
_Reading = tuple[Block, Callable[[], None]]  # a batch's memory, and what waits for the rest of it


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
        self._attach(new_segment(self.structure, count, self.capacity), count)

    def _attach(self, shared: Segment, count: int) -> None:
        self._count = count
        self._table: SlotTable | None = SlotTable(shared, self.structure, count, self.capacity)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Any:
        table = self._used()
        if type(index) is not int or not 0 <= index < self._count:
            (index,) = check_indices([index], self._count)
        block = buffers.pool.take(self.structure.batch_bytes(1))
        if self.structure.single and table.read_one(index, block.raw.data):
            table.count_reads(1, 0)
            return self.structure.sample(block)
        self._begin(table, [index], self.structure.parts(block.raw, 1))()
        return self.structure.sample(block)

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        if isinstance(indices, Ahead) and indices.begun(self):
            return indices.finish()
        if isinstance(indices, Followed):
            start_on(self, indices.following)
        table, checked = self._used(), check_indices(indices, self._count)
        return self._finish(checked, self._start(table, checked), apart=True)

    def prefetch(self, indices: Sequence[int]) -> Ahead:
        """Start reading a batch. ``__getitems__`` of the result waits for it, for `collate`."""
        table, checked = self._used(), check_indices(indices, self._count)
        nbytes = self.structure.batch_bytes(len(checked))
        begun = later(nbytes, self._start, table, checked)
        return Ahead(indices, self, lambda: self._finish(checked, begun()))

    def _start(self, table: SlotTable, indices: list[int]) -> _Reading:
        block = buffers.batch_memory(self.structure.batch_bytes(len(indices)))
        return block, self._begin(table, indices, self.structure.parts(block.raw, len(indices)))

    def _finish(self, indices: list[int], reading: _Reading, apart: bool = False) -> Batch:
        self._used()
        block, done = reading
        done()
        return self.structure.batch(block, len(indices), apart)

    def advise(self, indices: Sequence[int]) -> None:
        """Have the kernel read what is not here, if the dataset can say where it lies."""
        table = self._used()
        if isinstance(self.dataset, SampleDataset):
            self.dataset.advise(table.missing(check_indices(indices, self._count)))

    def _begin(
        self,
        table: SlotTable,
        indices: list[int],
        rows: list[NDArray[np.uint8]],
        counted: bool = True,
    ) -> Callable[[], None]:
        """Hits into their rows, at once; what is returned does the rest."""
        missed = table.read(indices, rows)
        if not missed:
            return functools.partial(table.count_reads, len(indices) * counted, 0)
        absent = [indices[place] for place in missed]
        lines = [[part[place].data for place in missed] for part in rows]
        bytewise = self.dataset if isinstance(self.dataset, SampleDataset) else None
        reading = bytewise.start(absent, lines[0]) if bytewise is not None else []

        def done() -> None:
            wait(reading)
            if bytewise is None:
                self._read_samples(absent, lines)
            for number, index in enumerate(absent):
                self._store(table, index, [line[number] for line in lines])
            if counted:
                table.count_reads(len(indices) - len(absent), len(absent))

        return done

    def _read_samples(self, indices: list[int], lines: list[list[memoryview]]) -> None:
        """From a dataset that gives samples, not bytes."""
        many = getattr(self.dataset, "__getitems__", None)
        samples = list(many(indices) if many else map(self.dataset.__getitem__, indices))
        if len(samples) != len(indices):
            raise ValueError(
                f"expected __getitems__ of {type(self.dataset).__name__} to give a sample for each "
                f"of {len(indices)} indices, got {len(samples)}; have it give one each, in order"
            )
        for number, sample in enumerate(samples):
            found = self.structure.to_bytes(sample, indices[number])
            for line, part in zip(lines, found, strict=True):
                line[number][:] = part.data

    def _store(self, table: SlotTable, index: int, parts: list[memoryview]) -> None:
        with table.writing(index) as slot:
            if slot is not None:
                table.slots.store(slot, parts)

    def warm(self, indices: Sequence[int] | None = None) -> int:
        """Store samples before they are asked for, in this process.

        Args:
            indices: which; None for the first ones, as many as there is room for.

        Returns:
            How many samples are there. They count as neither hits nor misses.
        """
        table = self._used()
        chosen = range(self.capacity) if indices is None else indices
        checked = check_indices(chosen, self._count)
        step = max(1, _TOGETHER // max(1, self.structure.sample_bytes))
        for start in range(0, len(checked), step):
            part = checked[start : start + step]
            block = buffers.pool.take(self.structure.batch_bytes(len(part)))
            self._begin(table, part, self.structure.parts(block.raw, len(part)), counted=False)()
        return self.info().filled

    def clear(self) -> None:
        """Empty the cache, at once, while others may read it.

        The memory stays, for the samples that are read next; `close` gives it back.
        """
        self._used().clear()

    def info(self) -> CacheInfo:
        """Hits and misses of all processes, and what is there."""
        table = self._used()
        hits, misses = table.counts.sum(axis=0).tolist()
        nbytes = (filled := table.filled) * self.structure.sample_bytes
        return CacheInfo(hits, misses, filled, self.capacity, nbytes)

    def close(self) -> None:
        """End the cache, for all processes: reading raises ValueError from now on.

        This process gives the memory back, now, or when what it reads has ended. The system has it
        when the others have done so too: at their next use of the cache, or when they end.
        """
        table, self._table = self._table, None
        if table is not None:
            table.header[CLOSED] = 1

    def __enter__(self) -> "SharedCache":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _used(self) -> SlotTable:
        table = self._table
        if table is None or table.header[CLOSED]:
            self._table = None  # with it goes the memory
            raise ValueError(
                "expected a cache that is open, got one that was closed; make another one, or "
                "close it after the last read"
            )
        return table

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
        self._attach(shared, count)


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
