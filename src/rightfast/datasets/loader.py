"""`Loader`: torch's DataLoader with the batches of `SampleDataset`: read ahead, copied once."""

import collections
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    Sampler,
    SequentialSampler,
    default_collate,
)

from rightfast.datasets import buffers
from rightfast.datasets.batch import Batch
from rightfast.datasets.cache import SharedCache
from rightfast.datasets.dataset import SampleDataset
from rightfast.datasets.ring import Leased, Ring, Sent, WorkerRing

AHEAD = 2  # batches, where this process reads them


def collate(samples: Any) -> Any:
    """The tensor (or the structure of tensors) that the samples of a batch are views of.

    For ``DataLoader(collate_fn=...)``: a batch is not copied once more. Lists that are no batch of
    a dataset of this package go to torch's ``default_collate``.
    """
    if not isinstance(samples, Batch):
        return default_collate(samples)
    return Sent(samples.block, samples) if isinstance(samples.block, Leased) else samples.stacked


class ReadAhead(Sampler[list[int]]):
    """A batch sampler that has the dataset start on batches before they are asked for.

    Args:
        batches: a batch sampler.
        start: what is done with a batch of indices when it comes into view; it returns what is
            passed on in their place.
        depth: batches that are in view beside the one asked for.
    """

    def __init__(self, batches: Any, start: Callable[[list[int]], list[int]], depth: int) -> None:
        self.batches, self.start, self.depth = batches, start, depth

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[int]]:
        waiting: collections.deque[list[int]] = collections.deque()
        for indices in self.batches:
            waiting.append(self.start(indices))
            if len(waiting) > self.depth:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()


class Loader(DataLoader[Any]):
    """DataLoader for `SampleDataset` and `SharedCache`, with batches that are copied once.

    Without workers, threads read the next batches while one is used. With workers, they write
    batches to shared memory that the parent reads in place. Memory of a batch is used again when
    nothing refers to it any more: to keep a batch is safe, to drop it before the next is faster.

    Args:
        dataset: map-style.
        batch_size, shuffle, sampler, batch_sampler, drop_last, generator, num_workers,
            worker_init_fn, prefetch_factor and further options: torch's.
        read_ahead: batches to start on before they are asked for; 2 without workers. With workers
            (0 there), the parent has the kernel read so many batches ahead of what it has given
            them.

    Raises:
        TypeError: ``collate_fn=``, which is `collate` here; use DataLoader for another one.
        ValueError: ``read_ahead`` below 0; what DataLoader refuses.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        sampler: Iterable[int] | None = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        drop_last: bool = False,
        generator: torch.Generator | None = None,
        read_ahead: int | None = None,
        worker_init_fn: Callable[[int], None] | None = None,
        **options: Any,
    ) -> None:
        if options.pop("collate_fn", None) is not None:
            raise TypeError(
                "expected no collate_fn=, as batches are made where they are read, got one; use "
                "torch.utils.data.DataLoader, or change the batches after the loader"
            )
        if batch_sampler is None:
            chosen = _sampler(dataset, shuffle, sampler, generator)
            batch_sampler = BatchSampler(chosen, batch_size, drop_last)
        elif batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError(
                "expected batch_sampler= without batch_size, shuffle, sampler and drop_last, which "
                "it decides, got some of these too"
            )
        depth = _depth(read_ahead, num_workers)
        start = _starter(dataset, num_workers, depth)
        self._rings: list[tuple[Ring, Any]] = []
        self._user_init = worker_init_fn
        super().__init__(
            dataset,
            batch_sampler=ReadAhead(batch_sampler, start, depth) if start else batch_sampler,
            num_workers=num_workers,
            generator=generator,
            collate_fn=collate,
            worker_init_fn=worker_init_fn,
            **options,
        )
        self._batch_size = getattr(batch_sampler, "batch_size", None)

    def __iter__(self) -> Any:
        running = self.persistent_workers and self._iterator is not None
        if not self.num_workers or running or not self._slot_bytes():
            return super().__iter__()
        ring = self._ring()
        self.worker_init_fn = _Init(ring, self._user_init)
        iterator = super().__iter__()
        self._rings.append((ring, iterator._workers))  # type: ignore[attr-defined]
        return iterator

    def _slot_bytes(self) -> int:
        dataset, size = self.dataset, self._batch_size
        if not isinstance(dataset, (SampleDataset, SharedCache)) or not isinstance(size, int):
            return 0
        return dataset.structure.batch_bytes(size)

    def _ring(self) -> Ring:
        """Memory for the batches of a new set of workers: that of workers who have ended, if any.

        Two iterators at a time have one each.
        """
        for place, (ring, workers) in enumerate(self._rings):
            if not any(worker.is_alive() for worker in workers):
                del self._rings[place]
                ring.reclaim()
                return ring
        # For each worker: what torch has it make in advance, one that is used, one in between.
        each = (self.prefetch_factor or 2) + 2
        return Ring(self.num_workers, each, self._slot_bytes())


class _Init:
    """What a worker does first. Sent to it with the ring."""

    def __init__(self, ring: Ring, then: Callable[[int], None] | None) -> None:
        self.ring, self.then = ring, then

    def __call__(self, worker: int) -> None:
        buffers.lend_from(WorkerRing(self.ring, worker))
        if self.then is not None:
            self.then(worker)


def _sampler(
    dataset: Any,
    shuffle: bool,
    sampler: Iterable[int] | None,
    generator: torch.Generator | None,
) -> Any:
    if sampler is not None:
        if shuffle:
            raise ValueError("expected either sampler= or shuffle=True, got both")
        return sampler
    if shuffle and len(dataset):  # RandomSampler refuses to draw from nothing
        return RandomSampler(dataset, generator=generator)
    return SequentialSampler(dataset)


def _depth(read_ahead: Any, num_workers: int) -> int:
    if read_ahead is None:
        return 0 if num_workers else AHEAD
    depth = operator.index(read_ahead)
    if depth < 0:
        raise ValueError(f"expected read_ahead= of at least 0 batches, got {depth}")
    return depth


def _starter(dataset: Any, num_workers: int, depth: int) -> Callable[[list[int]], list[int]] | None:
    """What is done with a batch that is to be read: here by threads, else by the kernel."""
    if not isinstance(dataset, (SampleDataset, SharedCache)) or (num_workers and not depth):
        return None
    if not num_workers:
        return dataset.prefetch

    def start(indices: list[int]) -> list[int]:
        dataset.advise(indices)
        return indices

    return start
