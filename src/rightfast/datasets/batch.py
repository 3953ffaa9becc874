"""A batch: its samples, one by one, and the tensor that they are views of."""

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

    def __init__(self, samples: Sequence[Any], stacked: Any, block: Block, structure: Any) -> None:
        super().__init__(samples)
        self.stacked, self.block, self.structure = stacked, block, structure

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
