"""HDF5, through h5py: where the elements are plain bytes, they are read past the library.

Contiguous datasets, and chunks of whole samples without filters, are runs of plain bytes at
offsets that h5py tells (`H5Dget_offset`, `H5Dchunk_iter`). Everything else (compressed, chunks
that cut samples, the other byte order) is read through h5py, sample by sample.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from rightfast.datasets import dtypes, writing
from rightfast.datasets.dataset import SampleDataset, Source
from rightfast.datasets.extents import Extents, Located, in_one_file, one_file_each
from rightfast.datasets.listing import existing, files_of
from rightfast.datasets.optional import library
from rightfast.datasets.raw import RawSource
from rightfast.datasets.through_library import LibrarySource

WHAT = "an HDF5 file"
SUFFIXES = (".h5", ".hdf5", ".hdf", ".he5")


class HDF5Dataset(SampleDataset):
    """Samples in HDF5: one dataset whose first axis counts them, or a folder, a file each.

    ``key`` is the path of the dataset in the file. Raises ValueError for files that are not HDF5,
    are cut off, lack ``key``, or hold samples of unequal shape (when they are read), TypeError for
    dtypes that torch lacks, ImportError without h5py.
    """

    def __init__(self, path: str | os.PathLike[str], key: str = "data") -> None:
        found = existing(path, "an HDF5 file, or a folder of them,")
        self.key = key
        super().__init__(_folder(found, key) if found.is_dir() else _packed(str(found), key))

    @property
    def raw(self) -> bool:
        """Whether the samples are read as plain bytes, past h5py."""
        return isinstance(self._source, RawSource)


def write_hdf5(
    path: str | os.PathLike[str],
    samples: Any,
    layout: writing.Layout = "packed",
    key: str = "data",
    compression: str | None = None,
) -> None:
    """Write samples as one dataset of one file (``"packed"``), or as a file each (``"files"``).

    Args:
        path: file, or folder, to make; must not exist.
        samples: a tensor whose first axis counts the samples, or a sequence of tensors.
        layout: ``"packed"`` or ``"files"``.
        key: path of the dataset in the file.
        compression: of h5py, such as ``"gzip"``; a chunk a sample. Slower to read, see the docs.

    Raises:
        TypeError: a dtype that HDF5 can't hold.
        ValueError: samples of unequal shape or dtype, none at all.
        FileExistsError: ``path`` exists. ImportError: h5py is not installed.
    """
    h5py = library("h5py", "HDF5 files")
    writing.check_layout(layout)
    given = writing.Samples(samples)
    array = dtypes.stored(given.dtype, "HDF5")

    with writing.appearing(path) as part:
        if layout == "packed":
            chunks = {"chunks": (1, *given.shape)} if compression else {}
            with h5py.File(part, "w") as file:
                shape = (len(given), *given.shape)
                made = _make(file, key, shape, given.dtype, compression=compression, **chunks)
                for index, sample in enumerate(given):
                    made[index] = sample.view(array).reshape(given.shape)
            return
        writing.needs_samples(given, path)
        part.mkdir()
        for name, sample in zip(writing.numbered(part, len(given), ".h5"), given, strict=True):
            with h5py.File(name, "w") as file:
                made = _make(file, key, given.shape, given.dtype, compression=compression)
                made[...] = sample.view(array).reshape(given.shape)


def _make(file: Any, key: str, shape: tuple[int, ...], dtype: torch.dtype, **options: Any) -> Any:
    made = file.create_dataset(key, shape=shape, dtype=dtypes.stored(dtype, "HDF5"), **options)
    if dtype in dtypes.CARRIED:
        made.attrs[dtypes.ATTRIBUTE] = dtypes.name_of(dtype)
    return made


class _Open:
    """Opens the dataset ``key`` of a file."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self, path: str) -> tuple[Any, Callable[[], None]]:
        h5py = library("h5py", "HDF5 files")
        try:
            # No lock: a child that closes what it inherited would release the parent's.
            file = h5py.File(path, "r", locking=False)
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise ValueError(
                f"expected {WHAT} at {path}, got other data, or a file that is cut off ({error}); "
                "check the path, or write the file anew"
            ) from None
        array = file.get(self.key)
        if not isinstance(array, h5py.Dataset) or array.shape is None:
            names: list[str] = []
            file.visititems(lambda n, x: names.append(n) if isinstance(x, h5py.Dataset) else None)
            file.close()
            raise ValueError(
                f"expected a dataset {self.key!r} in {path}, got {', '.join(names) or 'none'}; "
                "name one of these with key="
            )
        return array, file.close


class _Locate(_Open):
    """Finds a sample that is the whole of a contiguous dataset."""

    def __call__(self, path: str, start: int = 0) -> Any:
        array, close = super().__call__(path)
        try:
            offset = array.id.get_offset()
            usable = offset is not None and array.dtype.isnative and not array.external
            return Located(tuple(array.shape), _dtype(array, path), offset if usable else -1)
        finally:
            close()


def _dtype(array: Any, path: str) -> torch.dtype:
    named = array.attrs.get(dtypes.ATTRIBUTE)
    if named is not None:
        return dtypes.from_name(str(named), path)
    return dtypes.from_numpy(array.dtype.newbyteorder("="), path)


def _packed(path: str, key: str) -> Source:
    array, close = _Open(key)(path)
    try:
        if not array.shape:
            raise ValueError(
                f"expected a dataset whose first axis counts the samples in {path}, got one "
                "without axes; for one file a sample, give the folder"
            )
        count, shape, dtype = array.shape[0], tuple(array.shape[1:]), _dtype(array, path)
        extents = _plain(array, path, count, Located(shape, dtype, 0))
        if extents is not None:
            return RawSource(extents)
        return LibrarySource([path], count, shape, dtype, _open_native(key, array))
    finally:
        close()


def _plain(array: Any, path: str, count: int, first: Located) -> Extents | None:
    """The samples as plain bytes, or None if they are not stored so."""
    if not array.dtype.isnative or array.external or array.is_virtual or not array.size:
        return None
    if (offset := array.id.get_offset()) is not None:
        return in_one_file(WHAT, path, count, first._replace(offset=offset))
    filters = array.id.get_create_plist().get_nfilters()
    if array.chunks is None or filters or array.chunks[1:] != array.shape[1:]:
        return None
    return _chunked(array, path, count, first)


def _chunked(array: Any, path: str, count: int, first: Located) -> Extents:
    starts = np.full(count, -1, np.int64)  # of chunks that were never written
    rows = array.chunks[0]
    nbytes = int(np.prod(first.shape, dtype=np.int64)) * first.dtype.itemsize

    def place(chunk: Any) -> None:
        begin = chunk.chunk_offset[0]
        inside = np.arange(min(rows, count - begin))
        starts[begin : begin + rows] = chunk.byte_offset + nbytes * inside

    array.id.chunk_iter(place)
    fill = np.full(first.shape, array.fillvalue, array.dtype).tobytes()
    files = np.zeros(count, np.int32)
    return Extents(WHAT, [path], files, starts, first.shape, first.dtype, fill=fill)


class _open_native(_Open):
    """Opens a dataset whose elements come in this machine's byte order."""

    def __init__(self, key: str, array: Any) -> None:
        super().__init__(key)
        self.native = None if array.dtype.isnative else array.dtype.newbyteorder("=").str

    def __call__(self, path: str) -> tuple[Any, Callable[[], None]]:
        array, close = super().__call__(path)
        return (array.astype(self.native) if self.native else array), close


def _folder(path: os.PathLike[str], key: str) -> Source:
    paths = files_of(path, SUFFIXES, "HDF5")
    locate = _Locate(key)
    first = locate(paths[0])
    if first.offset < 0:
        array, close = _Open(key)(paths[0])
        opened = _open_native(key, array)
        close()
        return LibrarySource(paths, len(paths), first.shape, first.dtype, opened, each=True)
    with open(paths[0], "rb") as file:
        prefix = file.read(first.offset)
    return RawSource(one_file_each(WHAT, paths, first, prefix, locate=_contiguous(key)))


class _contiguous(_Locate):
    """The same for the later files of a folder, which are read as the first one is."""

    def __call__(self, path: str, start: int = 0) -> Any:
        found = super().__call__(path, start)
        if found.offset < 0:
            raise ValueError(
                f"expected {path} to be stored as the first file of its folder is, contiguous and "
                "without compression, got another storage; write the folder anew"
            )
        return found
