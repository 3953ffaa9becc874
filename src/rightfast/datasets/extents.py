"""Where the samples of a dataset lie: files, offsets, and what precedes each sample."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray


class Located(NamedTuple):
    """A sample, or an array of samples, as its header describes it."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    offset: int  # bytes from the start of the header to the first element


@dataclass(frozen=True)
class Extents:
    """Samples as runs of plain bytes. All have one shape and one dtype.

    Sample ``i`` is in ``paths[files[i]]``, from ``starts[i]`` on: first ``prefix``, then
    ``nbytes`` of elements. ``starts[i] < 0`` is a sample that the file leaves out.
    """

    what: str  # the format, for errors
    paths: list[str]
    files: NDArray[np.int32]
    starts: NDArray[np.int64]
    shape: tuple[int, ...]
    dtype: torch.dtype
    prefix: bytes = b""
    # The samples are the whole file, each: a longer one is no such sample.
    exact: bool = False
    # The bytes of a sample that is left out, and of one whose file is not there.
    fill: bytes | None = None
    # Reads the header at (path, start) if it is not ``prefix``.
    locate: Callable[[str, int], Located] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of one sample."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def __len__(self) -> int:
        return len(self.starts)


def in_one_file(what: str, path: str, count: int, first: Located, **more: object) -> Extents:
    """``count`` samples of ``first.shape``, one after the other from ``first.offset`` on."""
    nbytes = int(np.prod(first.shape, dtype=np.int64)) * first.dtype.itemsize
    starts = first.offset + nbytes * np.arange(count, dtype=np.int64)
    return Extents(
        what,
        [path],
        np.zeros(count, np.int32),
        starts,
        first.shape,
        first.dtype,
        **more,  # type: ignore[arg-type]
    )


def one_file_each(
    what: str, paths: list[str], first: Located, prefix: bytes, **more: object
) -> Extents:
    """One sample a file; the first file's header is expected of the others too."""
    return Extents(
        what,
        paths,
        np.arange(len(paths), dtype=np.int32),
        np.zeros(len(paths), np.int64),
        first.shape,
        first.dtype,
        prefix,
        **more,  # type: ignore[arg-type]
    )
