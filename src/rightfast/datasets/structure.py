"""What a sample is made of: one tensor, or tensors and numbers in tuples, lists and dicts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rightfast.datasets.batch import Batch
from rightfast.datasets.buffers import Block
from rightfast.datasets.trees import Node, flatten, unflatten
from rightfast.datasets.writing import bytes_of, is_plain

_ALIGNED = 64  # bytes, where each part of a batch starts
_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64}


@dataclass(frozen=True)
class Leaf:
    """A tensor or a number of a sample."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    number: bool

    @cached_property
    def nbytes(self) -> int:
        """Bytes of one."""
        return int(torch.Size(self.shape).numel()) * self.dtype.itemsize


@dataclass(frozen=True)
class Structure:
    """The tree of a sample, the same for all of a dataset."""

    leaves: tuple[Leaf, ...]
    tree: Node | None

    @classmethod
    def of_tensor(cls, shape: tuple[int, ...], dtype: torch.dtype) -> "Structure":
        """Samples that are one tensor each."""
        return cls((Leaf(shape, dtype, False),), None)

    @classmethod
    def of(cls, sample: Any) -> "Structure":
        """As ``sample`` is. Raises TypeError for parts that are no tensors or numbers."""
        parts, tree = flatten(sample)
        if not parts:
            raise TypeError(
                f"expected samples with a tensor or a number in them, got {sample!r}; have the "
                "dataset give what is to be kept"
            )
        return cls(tuple(_leaf(part) for part in parts), tree)

    @cached_property
    def sample_bytes(self) -> int:
        """Bytes of the tensors and numbers of one sample."""
        return sum(leaf.nbytes for leaf in self.leaves)

    @cached_property
    def single(self) -> Leaf | None:
        """The only leaf of a sample that is a tensor."""
        return None if self.tree is not None or self.leaves[0].number else self.leaves[0]

    def batch_bytes(self, count: int) -> int:
        """Bytes of a batch, each leaf of it together and aligned."""
        return count * self.sample_bytes if self.single else self._bounds(count)[-1][1]

    def _bounds(self, count: int) -> list[tuple[int, int]]:
        """Where the bytes of each leaf start and end; then where all end."""
        bounds, start = [], 0
        for leaf in self.leaves:
            bounds.append((start, start + leaf.nbytes * count))
            start += -(-leaf.nbytes * count // _ALIGNED) * _ALIGNED
        return [*bounds, (start, start)]

    def parts(self, raw: NDArray[np.uint8], count: int) -> list[NDArray[np.uint8]]:
        """Of each leaf, a row of bytes for each sample, in the bytes of a batch."""
        if self.single:
            return [raw.reshape(count, self.sample_bytes)]
        return [
            raw[start:end].reshape(count, leaf.nbytes)
            for (start, end), leaf in zip(self._bounds(count)[:-1], self.leaves, strict=True)
        ]

    def stacked(self, block: Block, count: int) -> Any:
        """A batch, whose leaves are tensors with ``count`` as their first axis."""
        if leaf := self.single:
            return block.tensor((count, *leaf.shape), leaf.dtype)
        flat = block.tensor((len(block.raw),), torch.uint8)
        pairs = zip(self._bounds(count)[:-1], self.leaves, strict=True)
        return unflatten(
            [
                flat[start:end].view(leaf.dtype).view(count, *leaf.shape)
                for (start, end), leaf in pairs
            ],
            self.tree,
        )

    def batch(self, block: Block, count: int, apart: bool) -> Batch:
        """A batch, and with ``apart`` its samples, which are views of it."""
        stacked = self.stacked(block, count)
        if not apart:
            return Batch((), stacked, block, self, count)
        if self.single:
            return Batch(stacked.unbind(0), stacked, block, self, count)
        columns = [tensor.unbind(0) for tensor in flatten(stacked)[0]]
        samples = [self._sample(row) for row in zip(*columns, strict=True)]
        return Batch(samples, stacked, block, self, count)

    def sample(self, block: Block) -> Any:
        """A batch of one, without its first axis."""
        if leaf := self.single:
            return block.tensor(leaf.shape, leaf.dtype)
        return self._sample([tensor[0] for tensor in flatten(self.stacked(block, 1))[0]])

    def _sample(self, tensors: Sequence[Tensor]) -> Any:
        pairs = zip(tensors, self.leaves, strict=True)
        return unflatten([t.item() if leaf.number else t for t, leaf in pairs], self.tree)

    def to_bytes(self, sample: Any, index: int) -> list[Any]:
        """The bytes of each leaf. Raises ValueError for a sample of another structure."""
        parts, tree = flatten(sample)
        found = tuple(_leaf(part) for part in parts)
        if tree != self.tree or found != self.leaves:
            raise ValueError(
                f"expected samples of one structure, shape and dtype, {self} as the first one "
                f"has, got {Structure(found, tree)} for sample {index}; pad or crop them first"
            )
        tensors = zip(parts, self.leaves, strict=True)
        return [
            bytes_of(torch.tensor(part, dtype=leaf.dtype) if leaf.number else part)
            for part, leaf in tensors
        ]

    def __str__(self) -> str:
        names = [
            str(leaf.dtype) if leaf.number else f"{leaf.shape} {leaf.dtype}" for leaf in self.leaves
        ]
        return str(unflatten(names, self.tree)).replace("'", "").replace("torch.", "")


def _leaf(part: Any) -> Leaf:
    if isinstance(part, Tensor) and is_plain(part):
        return Leaf(tuple(part.shape), part.dtype, False)
    if type(part) in _NUMBERS:
        return Leaf((), _NUMBERS[type(part)], True)
    raise TypeError(
        "expected samples of dense tensors and numbers (in tuples, lists or dicts), got "
        f"{type(part).__name__}; convert it in the dataset, for instance with torch.from_numpy"
    )
