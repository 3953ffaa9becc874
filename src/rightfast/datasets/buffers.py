"""Memory for samples and batches, used again once no tensor refers to it.

Fresh memory costs a page fault for every 4 KiB, several times what the copy into it does.
"""

import os
import threading
import weakref
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import get_worker_info

from rightfast.datasets import forks

KEPT = 512 << 20  # bytes that wait to be used again; more are given back
SMALL = 64 << 10  # below, the C library's own free lists do as well


class Lends(Protocol):
    def take(self, nbytes: int) -> Tensor | None:
        """``nbytes`` of memory as a flat uint8 tensor, or None if there is none left."""


class Pool:
    """Memory of this process, lent as tensors. It returns by itself, with the last tensor (or
    view, or array) that refers to it, so a tensor that is kept is never written to again."""

    def __init__(self, kept: int = KEPT) -> None:
        self.kept, self.waiting = kept, 0
        self._free: dict[int, list[NDArray[np.uint8]]] = {}
        # Reentrant: a tensor may end, and come back here, at any line of the same thread.
        self._lock = threading.RLock()
        forks.register(self)

    def take(self, nbytes: int) -> Tensor:
        """``nbytes`` of memory with any content, as a flat uint8 tensor."""
        if nbytes < SMALL:
            return torch.empty(nbytes, dtype=torch.uint8)
        with self._lock:
            waiting = self._free.get(nbytes)
            memory = waiting.pop() if waiting else None
            self.waiting -= nbytes if memory is not None else 0
        if memory is None:
            memory = torch.empty(nbytes, dtype=torch.uint8).numpy()
        return lend(memory, self._give_back, memory)

    def _give_back(self, memory: NDArray[np.uint8]) -> None:
        with self._lock:
            if self.waiting + memory.nbytes <= self.kept:
                self.waiting += memory.nbytes
                self._free.setdefault(memory.nbytes, []).append(memory)

    def clear(self) -> None:
        """Give back to the system what waits to be used again."""
        with self._lock:
            self._free.clear()
            self.waiting = 0

    def after_fork(self) -> None:
        self._lock = threading.RLock()  # another thread of the parent may have held it
        self.clear()  # what the parent keeps would be copied page by page


def lend(memory: NDArray[np.uint8], done: Any, *arguments: Any) -> Tensor:
    """``memory`` as a tensor; ``done(*arguments)`` is called when nothing refers to it any more.

    torch holds the array that a tensor was made of for as long as the storage lives, so the
    array of its own that is made here ends with the last view.
    """
    view = memory[:]
    weakref.finalize(view, _ended, os.getpid(), done, arguments).atexit = False
    return torch.from_numpy(view)


def _ended(process: int, done: Any, arguments: tuple[Any, ...]) -> None:
    if os.getpid() == process:  # a forked child has a copy of the tensor, not its memory's fate
        done(*arguments)


pool = Pool()
_ring: Lends | None = None


def lend_from(ring: Lends | None) -> None:
    """In a worker: batches come from ``ring``, which the parent reads."""
    global _ring
    _ring = ring


def lent_from() -> Lends | None:
    """The ring that batches come from, in a worker that has one."""
    return _ring


def batch_memory(nbytes: int) -> Tensor:
    """Memory for a batch: the pool's, or in a worker what the parent can read without a copy."""
    if get_worker_info() is None:
        return pool.take(nbytes)
    lent = _ring.take(nbytes) if _ring is not None else None
    if lent is not None:
        return lent
    # As torch's default_collate does it.
    shared = torch.UntypedStorage._new_shared(nbytes, device="cpu")  # type: ignore[no-untyped-call]
    return torch.empty(0, dtype=torch.uint8).set_(shared)


def shaped(memory: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Flat bytes as a tensor of ``shape``."""
    return memory.view(dtype).view(shape)


def rows_of(memory: Tensor, nbytes: int, count: int) -> list[memoryview]:
    """Each of ``count`` samples in flat bytes, for system calls."""
    view = memory.numpy().data
    return [view[i * nbytes : (i + 1) * nbytes] for i in range(count)]
