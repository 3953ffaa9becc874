"""What a sample is made of: one tensor, or tensors and numbers in tuples, lists and dicts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rightfast.datasets.batch import Batch
from rightfast.datasets.buffers import shaped
from rightfast.datasets.trees import Node, flatten, unflatten
from rightfast.datasets.writing import bytes_of

_ALIGNED = 64  # bytes, where each part of a batch starts
_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64}


@dataclass(frozen=True)
class Leaf:
    """A tensor or a number of a sample."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    number: bool

    @property
    def nbytes(self) -> int:
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
        return cls(tuple(_leaf(part) for part in parts), tree)

    @property
    def sample_bytes(self) -> int:
        """Bytes of the tensors and numbers of one sample."""
        return sum(leaf.nbytes for leaf in self.leaves)

    def batch_bytes(self, count: int) -> int:
        """Bytes of a batch, each leaf of it together and aligned."""
        return self._places(count)[-1]

    def _places(self, count: int) -> list[int]:
        places = [0]
        for leaf in self.leaves:
            places.append(places[-1] + -(-leaf.nbytes * count // _ALIGNED) * _ALIGNED)
        return places

    def parts(self, memory: Tensor, count: int) -> list[Tensor]:
        """The flat bytes of each leaf in those of a batch."""
        starts = self._places(count)
        return [
            memory[start : start + leaf.nbytes * count]
            for start, leaf in zip(starts[:-1], self.leaves, strict=True)
        ]

    def stacked(self, memory: Tensor, count: int) -> Any:
        """A batch, whose leaves are tensors with ``count`` as their first axis."""
        parts = zip(self.parts(memory, count), self.leaves, strict=True)
        return self._join([shaped(part, (count, *leaf.shape), leaf.dtype) for part, leaf in parts])

    def batch(self, memory: Tensor, count: int) -> Batch:
        """A batch with its samples, which are views of it."""
        stacked = self.stacked(memory, count)
        columns = [tensor.unbind(0) for tensor in flatten(stacked)[0]]
        if len(columns) == 1 and isinstance(stacked, Tensor) and not self.leaves[0].number:
            return Batch(columns[0], stacked, memory, self)
        return Batch(
            [self._sample(row) for row in zip(*columns, strict=True)], stacked, memory, self
        )

    def sample(self, memory: Tensor) -> Any:
        """A batch of one, without its first axis."""
        parts = zip(self.parts(memory, 1), self.leaves, strict=True)
        return self._sample([shaped(part, leaf.shape, leaf.dtype) for part, leaf in parts])

    def _sample(self, tensors: Sequence[Tensor]) -> Any:
        pairs = zip(tensors, self.leaves, strict=True)
        return self._join([tensor.item() if leaf.number else tensor for tensor, leaf in pairs])

    def _join(self, parts: list[Any]) -> Any:
        return unflatten(parts, self.tree)

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
        return str(self._join(names)).replace("'", "").replace("torch.", "")


def _leaf(part: Any) -> Leaf:
    if isinstance(part, Tensor) and part.layout is torch.strided and not part.is_nested:
        return Leaf(tuple(part.shape), part.dtype, False)
    if type(part) in _NUMBERS:
        return Leaf((), _NUMBERS[type(part)], True)
    raise TypeError(
        "expected samples of dense tensors and numbers (in tuples, lists or dicts), got "
        f"{type(part).__name__}; convert it in the dataset, for instance with torch.from_numpy"
    )
