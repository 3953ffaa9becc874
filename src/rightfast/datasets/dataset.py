"""The map-style dataset that all formats share."""

import itertools
import operator
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from rightfast.datasets import buffers
from rightfast.datasets.batch import Ahead, Batch, Followed, start_on
from rightfast.datasets.structure import Structure
from rightfast.datasets.threads import submit, threads_for, wait


class Source(Protocol):
    """What reads the bytes of samples."""

    parallel: bool
    shape: tuple[int, ...]
    dtype: torch.dtype
    nbytes: int

    def __len__(self) -> int: ...
    def read(self, indices: Sequence[int], rows: Sequence[memoryview]) -> None: ...
    def advise(self, indices: Sequence[int]) -> None: ...


class SampleDataset(Dataset[Tensor]):
    """Samples of one shape and dtype, each a tensor of its own memory.

    ``dataset[i]`` is sample ``i``; ``dataset.__getitems__(indices)``, which DataLoader calls, reads
    a whole batch at once. The files are opened in the process that reads, so datasets may be
    forked and pickled. All errors of a file are ValueErrors that name it.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.structure = Structure.of_tensor(source.shape, source.dtype)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return self._source.shape

    @property
    def dtype(self) -> torch.dtype:
        """dtype of the samples."""
        return self._source.dtype

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample."""
        return self._source.nbytes

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> Tensor:
        (index,) = check_indices([index], len(self))
        # Not a worker's shared memory: single samples are copied once more, when they are collated.
        block = buffers.pool.take(self.sample_bytes)
        self._source.read([index], [block.raw.data])
        return block.tensor(self.sample_shape, self.dtype)

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        if isinstance(indices, Ahead) and indices.begun(self):
            return indices.finish()
        if isinstance(indices, Followed):
            start_on(self, indices.following)
        return self._prefetch(check_indices(indices, len(self)), apart=True)()

    def read(self, indices: Sequence[int], rows: Sequence[memoryview]) -> None:
        """The bytes of sample ``indices[i]`` into ``rows[i]``, each of `sample_bytes` bytes."""
        wait(self.start(check_indices(indices, len(self)), rows))

    def start(self, indices: Sequence[int], rows: Sequence[memoryview]) -> "list[Future[None]]":
        """`read`, which goes on in threads; without threads all is done on return."""
        parts = min(threads_for(len(indices) * self.sample_bytes), len(indices))
        if parts < 2 or not self._source.parallel:
            self._source.read(indices, rows)
            return []
        bounds = [len(indices) * part // parts for part in range(parts + 1)]
        return [
            submit(self._source.read, indices[first:last], rows[first:last])
            for first, last in itertools.pairwise(bounds)
        ]

    def prefetch(self, indices: Sequence[int]) -> Ahead:
        """Start reading a batch. ``__getitems__`` of the result waits for it, for `collate`."""
        return Ahead(indices, self, self._prefetch(check_indices(indices, len(self)), apart=False))

    def _prefetch(self, indices: list[int], apart: bool) -> Callable[[], Batch]:
        count = len(indices)
        block = buffers.batch_memory(self.structure.batch_bytes(count))
        reading = self.start(indices, buffers.rows_of(block.raw.data, self.sample_bytes, count))

        def finish() -> Batch:
            wait(reading)
            return self.structure.batch(block, count, apart)

        return finish

    def advise(self, indices: Sequence[int]) -> None:
        """Have the kernel take these samples into the page cache, whoever reads them then."""
        self._source.advise(check_indices(indices, len(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} x {self.sample_shape}, {self.dtype})"


def check_indices(indices: Sequence[Any], count: int) -> list[int]:
    """``indices`` as non-negative ints. Raises TypeError, and IndexError outside the dataset."""
    try:
        numbers = list(map(operator.index, indices))
    except TypeError:
        got = [type(index).__name__ for index in indices]
        raise TypeError(
            f"expected indices as integers, got {', '.join(sorted(set(got)))}; for a slice, give "
            "range(...) to __getitems__ or torch.utils.data.Subset"
        ) from None
    if numbers and (min(numbers) < 0 or max(numbers) >= count):
        for number in numbers:
            if not -count <= number < count:
                raise IndexError(
                    f"expected an index below {count}, the number of samples, got {number}"
                )
        return [number % count for number in numbers]
    return numbers


def fill_row(array: "np.ndarray[Any, Any]", row: memoryview) -> None:
    """The bytes of ``array`` into ``row``, for sources that read through a library."""
    row[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
