"""Samples that only the format's library can read, such as compressed ones."""

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from rightfast.datasets import forks
from rightfast.datasets.dataset import fill_row


class LibrarySource:
    """Reads sample by sample through ``open_array(path)``, whose result has ``[index]``.

    The array is opened in the process that reads. ``paths``: one file whose first axis counts the
    samples, or, with ``each``, a file for each sample.
    """

    parallel = False  # h5py has one lock for all threads; zarr has threads of its own

    def __init__(
        self,
        paths: list[str],
        count: int,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        open_array: Callable[[str], tuple[Any, Callable[[], None]]],
        each: bool = False,
    ) -> None:
        self.paths, self.count, self.shape, self.dtype = paths, count, shape, dtype
        self.nbytes = int(torch.Size(shape).numel()) * dtype.itemsize
        self._open_array, self._each = open_array, each
        self._start()

    def _start(self) -> None:
        self._opened: tuple[Any, Callable[[], None]] | None = None
        self._lock = threading.Lock()
        forks.register(self)

    def __len__(self) -> int:
        return self.count

    def read(self, indices: Sequence[int], rows: Sequence[memoryview]) -> None:
        """Sample ``indices[i]`` into ``rows[i]``, each of `nbytes` bytes."""
        with self._lock:
            for index, row in zip(indices, rows, strict=True):
                fill_row(self._sample(index), row)

    def _sample(self, index: int) -> Any:
        path = self.paths[index if self._each else 0]
        if self._each:
            array, close = self._open_array(path)
            try:
                sample = array[()]
            finally:
                close()
        else:
            if self._opened is None:
                self._opened = self._open_array(path)
            sample = self._opened[0][index]
        if tuple(sample.shape) != self.shape or sample.nbytes != self.nbytes:
            raise ValueError(
                f"expected samples of one shape and dtype, {self.shape} and {self.dtype} as the "
                f"first one has, got {tuple(sample.shape)} and {sample.dtype} in {path} (sample "
                f"{index}); pad or crop them when they are written"
            )
        return sample

    def advise(self, indices: Sequence[int]) -> None:
        """Nothing: where the samples lie is the library's matter."""

    def after_fork(self) -> None:
        with contextlib.suppress(Exception):
            self._close()
        self._lock = threading.Lock()

    def _close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened[1]()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._close()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_opened", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()
