"""Reading extents: whole batches by few system calls, straight into the caller's memory."""

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from rightfast.datasets.descriptors import LIMIT, Descriptors
from rightfast.datasets.extents import Extents

# Of a larger range the kernel takes in no more than its read-ahead window, 128 KiB as it comes.
ADVICE = 128 << 10
VECTORS = 1024  # IOV_MAX
TOGETHER = 32  # files of one sample each that are open at once


class RawSource:
    """Reads extents. Any number of threads may call `read` at once."""

    parallel = True  # one batch may be read by several threads

    def __init__(self, extents: Extents) -> None:
        self.extents = extents
        self.shape, self.dtype, self.nbytes = extents.shape, extents.dtype, extents.nbytes
        self._open = Descriptors()
        self._keep = len(extents.paths) <= LIMIT

    def __len__(self) -> int:
        return len(self.extents)

    def read(self, indices: Sequence[int], rows: Sequence[memoryview]) -> None:
        """Sample ``indices[i]`` into ``rows[i]``, each of `nbytes` bytes."""
        if self._keep:
            self._read_runs(indices, rows)
            return
        for start in range(0, len(indices), TOGETHER):
            part = slice(start, start + TOGETHER)
            self._read_files(indices[part], rows[part])

    def advise(self, indices: Sequence[int]) -> None:
        """Have the kernel start reading these samples; returns before they are there."""
        if self._keep:
            self._advise_runs(self._runs(indices))
            return
        for index in indices:
            with contextlib.suppress(OSError):  # reading it will say what is wrong
                fd = self._open_sample(index)
                _advise(fd, int(self.extents.starts[index]), self.nbytes)
                os.close(fd)

    def _read_runs(self, indices: Sequence[int], rows: Sequence[memoryview]) -> None:
        runs = list(self._runs(indices))
        if len(runs) > 1:  # one run is what the kernel's own read-ahead is for
            self._advise_runs(runs)
        for file, start, first, last in runs:
            try:
                fd = self._open.get(self.extents.paths[file]) if start >= 0 else -1
            except FileNotFoundError:
                self._gone(indices[first], rows[first:last])
                continue
            self._one(fd, indices[first], start, rows[first:last])

    def _advise_runs(self, runs: Iterable[tuple[int, int, int, int]]) -> None:
        for file, start, first, last in runs:
            if start >= 0:
                with contextlib.suppress(FileNotFoundError):
                    fd = self._open.get(self.extents.paths[file])
                    size = (last - first) * (self.nbytes + len(self.extents.prefix))
                    _advise(fd, start, size)

    def _read_files(self, indices: Sequence[int], rows: Sequence[memoryview]) -> None:
        """Opens and advises all of them, then reads: the device works on many at once."""
        opened: list[int | None] = []
        try:
            for index in indices:
                try:
                    opened.append(self._open_sample(index))
                except FileNotFoundError:
                    opened.append(None)
                    continue
                if len(indices) > 1:
                    _advise(opened[-1], int(self.extents.starts[index]), self.nbytes)
            for fd, index, row in zip(opened, indices, rows, strict=True):
                if fd is None:
                    self._gone(index, [row])
                else:
                    self._one(fd, index, int(self.extents.starts[index]), [row])
        finally:
            for fd in opened:
                if fd is not None:
                    os.close(fd)

    def _open_sample(self, index: int) -> int:
        path = self.extents.paths[self.extents.files[index]]
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def _runs(self, indices: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
        """(file, start, first, last): samples that follow one another, as places in ``indices``."""
        chosen = np.asarray(indices, np.int64)
        files, starts = self.extents.files[chosen], self.extents.starts[chosen]
        apart = np.ones(len(chosen), bool)
        if not self.extents.prefix and not self.extents.exact:
            apart[1:] = (np.diff(starts) != self.nbytes) | (np.diff(files) != 0) | (starts[1:] < 0)
        bounds = [*np.flatnonzero(apart).tolist(), len(chosen)]
        for first, last in itertools.pairwise(bounds):
            for begin in range(first, last, VECTORS):
                end = min(begin + VECTORS, last)
                yield int(files[begin]), int(starts[begin]), begin, end

    def _one(self, fd: int, index: int, start: int, rows: Sequence[memoryview]) -> None:
        """Samples from ``index`` on, which lie together at ``start``."""
        if start < 0:
            self._gone(index, rows)
            return
        extents = self.extents
        head = bytearray(len(extents.prefix))
        buffers = [memoryview(head), *rows] if head else list(rows)
        wanted = len(head) + self.nbytes * len(rows)
        if extents.exact:
            buffers.append(memoryview(bytearray(1)))
        got = read_fully(fd, buffers, start)
        if head and got >= len(head) and head != extents.prefix:
            got = len(head) + self._elsewhere(fd, index, start, rows[0])
        if got < wanted:
            raise ValueError(
                f"expected {wanted} bytes of {extents.what} for sample {index} at byte {start} of "
                f"{self._path(index)}, got {got}: the file is truncated; write it anew"
            )
        if got > wanted:
            raise ValueError(
                f"expected {wanted} bytes of {extents.what} in {self._path(index)}, got a longer "
                f"file: it is no sample of shape {self.shape} and dtype {self.dtype}; remove it, "
                "or write it anew"
            )

    def _elsewhere(self, fd: int, index: int, start: int, row: memoryview) -> int:
        """Reads a sample whose header is not that of the first one."""
        path, extents = self._path(index), self.extents
        if extents.locate is None:
            raise ValueError(f"expected {extents.what} at byte {start} of {path}, got other data")
        found = extents.locate(path, start)
        if found.shape != self.shape or found.dtype != self.dtype:
            raise ValueError(
                f"expected samples of one shape and dtype, {self.shape} and {self.dtype} as the "
                f"first one has, got {found.shape} and {found.dtype} in {path} (sample {index}); "
                "pad or crop them when they are written"
            )
        return read_fully(fd, [row], start + found.offset)

    def _gone(self, index: int, rows: Sequence[memoryview]) -> None:
        if self.extents.fill is None:
            raise FileNotFoundError(
                f"expected sample {index} in {self._path(index)}, got no such file: it has gone "
                "since the dataset was made; make the dataset anew"
            )
        for row in rows:
            row[:] = self.extents.fill

    def _path(self, index: int) -> str:
        return self.extents.paths[int(self.extents.files[index])]


def read_fully(fd: int, buffers: Sequence[memoryview], offset: int) -> int:
    """Fill ``buffers`` from ``offset`` on; returns how many bytes there were."""
    wanted = sum(len(buffer) for buffer in buffers)
    total = os.preadv(fd, buffers, offset) if wanted else 0
    while 0 < total < wanted:  # the end, or a signal, or more than 2 GiB
        rest, skip = [], total
        for buffer in buffers:
            if skip < len(buffer):
                rest.append(buffer[skip:])
            skip = max(0, skip - len(buffer))
        got = os.preadv(fd, rest, offset + total)
        if not got:
            break
        total += got
    return total


def _advise(fd: int | None, start: int, size: int) -> None:
    if fd is None or not hasattr(os, "posix_fadvise"):
        return
    for begin in range(start, start + size, ADVICE):
        part = min(ADVICE, start + size - begin)
        os.posix_fadvise(fd, begin, part, os.POSIX_FADV_WILLNEED)
