"""Memory for samples and batches, used again once no tensor refers to it.

Fresh memory costs a page fault for every 4 KiB, several times what the copy into it does.
"""

import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import get_worker_info

from rightfast.datasets import forks
from rightfast.datasets.dtypes import PLAIN

KEPT = 512 << 20  # bytes that wait to be used again; more are given back
SMALL = 64 << 10  # below, the C library's own free lists do as well


class _Lent(np.ndarray[Any, Any]):
    """An array that says when it ends. torch holds the array that a tensor was made of for as long
    as the storage lives, so it ends with the last view of that tensor."""

    done: Callable[[], None] | None = None
    process = 0

    def __del__(self) -> None:
        # A forked child has a copy of the tensor; what becomes of the memory is not its matter.
        if self.done is not None and forks.process == self.process:
            self.done()


class Block:
    """Flat bytes that become one tensor, and ``done()`` when nothing refers to that any more."""

    __slots__ = ("_done", "_shared", "raw")

    def __init__(
        self,
        raw: NDArray[np.uint8],
        done: Callable[[], None] | None = None,
        shared: Tensor | None = None,
    ) -> None:
        self.raw, self._done, self._shared = raw, done, shared

    def tensor(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The bytes as a tensor; to be called once."""
        if self._shared is not None:
            return self._shared.view(dtype).view(shape)
        known = PLAIN.get(dtype)
        lent = self.raw.view(_Lent) if known is None else _Lent(shape, known, self.raw)
        lent.done, lent.process = self._done, forks.process
        tensor = torch.from_numpy(lent)
        return tensor.view(dtype).view(shape) if known is None else tensor


class Lends(Protocol):
    """Where a worker takes memory from that its parent reads, such as a ring."""

    def take(self, nbytes: int) -> Block | None:
        """``nbytes`` of memory, or None if there is none left."""


class Pool:
    """Memory of this process. It returns by itself, with the last tensor (or view, or array) that
    refers to it, so a tensor that is kept is never written to again."""

    def __init__(self, kept: int = KEPT) -> None:
        self.kept, self.waiting = kept, 0
        self._free: dict[int, list[NDArray[np.uint8]]] = {}
        # Reentrant: a tensor may end, and come back here, at any line of the same thread.
        self._lock = threading.RLock()
        forks.register(self)

    def take(self, nbytes: int) -> Block:
        """``nbytes`` of memory with any content."""
        if nbytes < SMALL:
            return Block(np.empty(nbytes, np.uint8))
        with self._lock:
            waiting = self._free.get(nbytes)
            raw = waiting.pop() if waiting else None
            self.waiting -= nbytes if raw is not None else 0
        if raw is None:
            raw = torch.empty(nbytes, dtype=torch.uint8).numpy()
        return Block(raw, lambda: self._give_back(raw))

    def _give_back(self, raw: NDArray[np.uint8]) -> None:
        with self._lock:
            if self.waiting + raw.nbytes <= self.kept:
                self.waiting += raw.nbytes
                self._free.setdefault(raw.nbytes, []).append(raw)

    def clear(self) -> None:
        """Give back to the system what waits to be used again."""
        with self._lock:
            self._free.clear()
            self.waiting = 0

    def after_fork(self) -> None:
        self._lock = threading.RLock()  # another thread of the parent may have held it
        self.clear()  # what the parent keeps would be copied page by page


pool = Pool()
_ring: Lends | None = None


def lend_from(ring: Lends | None) -> None:
    """In a worker: batches come from ``ring``, which the parent reads."""
    global _ring
    _ring = ring


def batch_memory(nbytes: int) -> Block:
    """Memory for a batch: the pool's, or in a worker what the parent can read without a copy."""
    if get_worker_info() is None:
        return pool.take(nbytes)
    lent = _ring.take(nbytes) if _ring is not None else None
    if lent is not None:
        return lent
    # As torch's default_collate does it.
    storage = torch.UntypedStorage._new_shared(nbytes, device="cpu")  # type: ignore[no-untyped-call]
    shared = torch.empty(0, dtype=torch.uint8).set_(storage)
    return Block(shared.numpy(), shared=shared)


def rows_of(view: memoryview, nbytes: int, count: int) -> list[memoryview]:
    """Each of ``count`` samples in flat bytes, for system calls."""
    return [view[i * nbytes : (i + 1) * nbytes] for i in range(count)]
