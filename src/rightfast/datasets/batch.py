"""A batch: its samples, one by one, and the tensor that they are views of."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from rightfast.datasets import forks
from rightfast.datasets.buffers import Block


class Batch(list[Any]):
    """The samples of a batch, as DataLoader expects them, and ``stacked``, all of them in one.

    The samples are views of ``stacked``: `collate` gives that, where torch's ``default_collate``
    copies the samples into another tensor. A batch that was read ahead is for `collate` alone, and
    has no samples apart, as a view of each costs most of a microsecond.
    """

    def __init__(
        self, samples: Sequence[Any], stacked: Any, block: Block, structure: Any, size: int
    ) -> None:
        super().__init__(samples)
        self.stacked, self.block, self.structure, self.size = stacked, block, structure, size

    def __reduce__(self) -> Any:
        return list, (list(self),)  # without the whole behind the views


class Ahead(list[int]):
    """The indices of a batch whose samples are being read already."""

    def __init__(self, indices: Sequence[int], owner: Any, finish: Callable[[], Batch]) -> None:
        super().__init__(indices)
        self.owner, self.finish, self._process = owner, finish, forks.process

    def begun(self, owner: Any) -> bool:
        """Whether to wait for it: not in a child that was forked meanwhile, which has no threads of
        its parent, and reads the indices like any others."""
        return self.owner is owner and self._process == forks.process

    def __reduce__(self) -> Any:
        return list, (list(self),)


class Followed(list[int]):
    """The indices of a batch, and those of a later one, which the worker that reads this one has
    the kernel start on before. In a worker that has read it already, they arrive as `Ahead`."""

    def __init__(self, indices: Sequence[int], following: Sequence[int]) -> None:
        super().__init__(indices)
        self.following = following

    def __reduce__(self) -> Any:
        return _arrived, (list(self), self.following)


_early: list[Ahead] = []


def start_on(dataset: Any, indices: Sequence[int]) -> None:
    """Have the kernel read a batch that is to come. What is wrong is said when that is read."""
    with contextlib.suppress(Exception):
        dataset.advise(indices)


def read_early(dataset: Any, indices: Sequence[int]) -> None:
    """In a worker: read a batch whose indices are on their way, or again when they are here, where
    an error is heard."""
    with contextlib.suppress(Exception):
        _early.append(dataset.prefetch(indices))


def _arrived(indices: list[int], following: list[int]) -> list[int]:
    if not _early or _early[0] != indices:
        return Followed(indices, following)
    begun = _early.pop()
    start_on(begun.owner, following)
    return begun
