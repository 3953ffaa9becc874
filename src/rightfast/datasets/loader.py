"""`Loader`: torch's DataLoader with the batches of `SampleDataset`: read ahead, copied once."""

import collections
import itertools
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
    get_worker_info,
)

from rightfast.datasets import buffers
from rightfast.datasets.batch import Batch, Followed, read_early, start_on
from rightfast.datasets.cache import SharedCache
from rightfast.datasets.dataset import SampleDataset
from rightfast.datasets.ring import Leased, Ring, Sent, WorkerRing

AHEAD = 2  # batches, where this process reads them
WORKERS_AHEAD = 4  # batches, of each worker
AHEAD_BYTES = 256 << 20  # of all workers: the page cache is to hold them until they are read


def collate(samples: Any) -> Any:
    """The tensor (or the structure of tensors) that the samples of a batch are views of.

    For ``DataLoader(collate_fn=...)``: a batch is not copied once more. Lists that are no batch of
    a dataset of this package go to torch's ``default_collate``.
    """
    if not isinstance(samples, Batch):
        return default_collate(samples)
    return Sent(samples.block, samples) if isinstance(samples.block, Leased) else samples.stacked


class ReadAhead(Sampler[list[int]]):
    """A batch sampler that sees batches before they are asked for.

    Args:
        batches: a batch sampler.
        depth: batches that are in view beside the one asked for.
        start: what is done with a batch of indices when it comes into view; it returns what is
            passed on in their place. None for workers, which are told of it by `Followed`.
    """

    def __init__(
        self, batches: Any, depth: int, start: Callable[[list[int]], list[int]] | None
    ) -> None:
        self.batches, self.depth, self.start = batches, depth, start
        self._begun: tuple[collections.deque[list[int]], Iterator[list[int]]] | None = None

    def __len__(self) -> int:
        return len(self.batches)

    def peek(self) -> list[list[int]]:
        """The first ``depth`` batches of the epoch that the next iterator goes through."""
        coming = iter(self.batches)
        first = list(itertools.islice(coming, self.depth))
        self._begun = collections.deque(first), coming
        return first

    def __iter__(self) -> Iterator[list[int]]:
        waiting, coming = self._begun or (collections.deque[list[int]](), iter(self.batches))
        self._begun = None
        for indices in coming:
            waiting.append(self.start(indices) if self.start else indices)
            if len(waiting) > self.depth:
                yield self._passed(waiting.popleft(), indices)
        while waiting:
            yield self._passed(waiting.popleft(), [])

    def _passed(self, indices: list[int], following: list[int]) -> list[int]:
        return indices if self.start else Followed(indices, following)


class Loader(DataLoader[Any]):
    """DataLoader for `SampleDataset` and `SharedCache`, with batches that are copied once.

    Without workers, threads read the next batches while one is used. With workers, they write
    batches to shared memory that the parent reads in place. Memory of a batch is used again when
    nothing refers to it any more: to keep a batch is safe, to drop it before the next is faster.

    Args:
        dataset: map-style.
        batch_size, shuffle, sampler, batch_sampler, drop_last, generator, num_workers,
            worker_init_fn, prefetch_factor and further options: torch's.
        read_ahead: batches to start on before they are asked for; 2 without workers. With workers,
            each has the kernel start on so many of its next batches: 4, or fewer where those of all
            workers take more than 256 MiB.

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
        size = getattr(batch_sampler, "batch_size", None)
        nbytes = _batch_bytes(dataset, size)
        depth = _depth(read_ahead, num_workers, nbytes)
        known = isinstance(dataset, (SampleDataset, SharedCache))
        if known and (depth or not num_workers):
            start = None if num_workers else dataset.prefetch
            batch_sampler = ReadAhead(batch_sampler, depth, start)
        self._rings: list[tuple[Ring, Any]] = []
        self._user_init = worker_init_fn
        super().__init__(
            dataset,
            batch_sampler=batch_sampler,
            num_workers=num_workers,
            generator=generator,
            collate_fn=collate,
            worker_init_fn=worker_init_fn,
            **options,
        )
        self._slot_bytes = nbytes

    def __iter__(self) -> Any:
        running = self.persistent_workers and self._iterator is not None
        if not self.num_workers or running or not self._slot_bytes:
            return super().__iter__()
        ring, given = self._ring(), self.generator
        first, self.generator = self._first()
        self.worker_init_fn = _Init(ring, first, self._user_init)
        try:
            iterator = super().__iter__()
        finally:
            self.generator = given
        self._rings.append((ring, iterator._workers))  # type: ignore[attr-defined]
        return iterator

    def _first(self) -> tuple[list[list[int]], torch.Generator | None]:
        """The first batches, and what torch is to draw the seed of the workers from.

        It draws that before any batch. A twin of the generator gives it the same one, and the
        samples come in the order that they have with any other number of workers.
        """
        if not isinstance(self.batch_sampler, ReadAhead):
            return [], self.generator
        drawn = torch.default_generator if self.generator is None else self.generator
        twin = torch.Generator(drawn.device)
        twin.set_state(drawn.get_state())
        torch.empty((), dtype=torch.int64).random_(generator=drawn)
        return self.batch_sampler.peek(), twin

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
        return Ring(self.num_workers, each, self._slot_bytes)


class _Init:
    """What a worker does first. Sent to it with the ring.

    Workers start one after the other, and get no indices before all have: meanwhile each has the
    kernel start on its first batches.
    """

    def __init__(
        self, ring: Ring, first: list[list[int]], then: Callable[[int], None] | None
    ) -> None:
        self.ring, self.first, self.then = ring, first, then

    def __call__(self, worker: int) -> None:
        buffers.lend_from(WorkerRing(self.ring, worker))
        if self.then is not None:
            self.then(worker)
        mine = self.first[worker :: self.ring.slots // self.ring.each]
        dataset: Any = get_worker_info().dataset  # type: ignore[union-attr]
        for indices in mine:
            start_on(dataset, indices)
        if mine:
            read_early(dataset, mine[0])


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


def _batch_bytes(dataset: Any, size: Any) -> int:
    """Of a batch that workers write where the parent reads; 0 where they do not."""
    if not isinstance(dataset, (SampleDataset, SharedCache)) or not isinstance(size, int):
        return 0
    return dataset.structure.batch_bytes(size)


def _depth(read_ahead: Any, num_workers: int, nbytes: int) -> int:
    """Batches in view."""
    if read_ahead is None:
        fitting = AHEAD_BYTES // max(1, nbytes * num_workers) if nbytes else 1
        read_ahead = max(1, min(WORKERS_AHEAD, fitting)) if num_workers else AHEAD
    depth = operator.index(read_ahead)
    if depth < 0:
        raise ValueError(f"expected read_ahead= of at least 0 batches, got {depth}")
    return depth * max(1, num_workers)
