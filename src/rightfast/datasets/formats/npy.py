"""`.npy`: a header of text, then the elements.

Source of the format: numpy.lib.format (NEP 1). bfloat16 has no name there; it is written as numpy
writes it with ml_dtypes, as two opaque bytes (``V2``), and read so.
"""

import io
import os
from typing import Any

import numpy as np
import torch
from numpy.lib import format as npy_format

from rightfast.datasets import dtypes, writing
from rightfast.datasets.dataset import SampleDataset
from rightfast.datasets.extents import Extents, Located, in_one_file, one_file_each
from rightfast.datasets.listing import check_size, existing, files_of
from rightfast.datasets.raw import RawSource

WHAT = "an .npy array"
_HEADER = 1 << 16  # bytes, more than any header of numbers has
_BFLOAT16 = np.dtype("V2")


class NpyDataset(SampleDataset):
    """Samples in `.npy`: one file whose first axis counts them, or a folder with one file each.

    Files of a folder are taken by name. Raises ValueError for files that are no C-ordered arrays
    of numbers, are cut off, or hold samples of unequal shape (when they are read), TypeError for
    dtypes that torch lacks.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        found = existing(path, "an .npy file, or a folder of them,")
        super().__init__(RawSource(_folder(found) if found.is_dir() else _packed(str(found))))


def write_npy(
    path: str | os.PathLike[str], samples: Any, layout: writing.Layout = "packed"
) -> None:
    """Write samples as one `.npy` (``"packed"``) or as a folder with one each (``"files"``).

    Args:
        path: file, or folder, to make; must not exist.
        samples: a tensor whose first axis counts the samples, or a sequence of tensors.
        layout: ``"packed"`` or ``"files"``.

    Raises:
        TypeError: a dtype that `.npy` has no place for (float8, complex32).
        ValueError: samples of unequal shape or dtype, none at all.
        FileExistsError: ``path`` exists.
    """
    writing.check_layout(layout)
    given = writing.Samples(samples)
    with writing.appearing(path) as part:
        if layout == "packed":
            with open(part, "wb") as file:
                file.write(header((len(given), *given.shape), given.dtype))
                for sample in given:
                    file.write(sample.data)
            return
        writing.needs_samples(given, path)
        part.mkdir()
        head = header(given.shape, given.dtype)
        for name, sample in zip(writing.numbered(part, len(given), ".npy"), given, strict=True):
            with open(name, "wb") as file:
                file.write(head)
                file.write(sample.data)


def header(shape: tuple[int, ...], dtype: torch.dtype) -> bytes:
    """The bytes that precede the elements."""
    if dtype is torch.bfloat16:
        array = _BFLOAT16
    elif dtype in dtypes.PLAIN:
        array = dtypes.PLAIN[dtype]
    else:
        raise TypeError(
            f"expected a dtype that .npy has a name for, got {dtype}; write safetensors or HDF5"
        )
    file = io.BytesIO()
    described = {"descr": array.str, "fortran_order": False, "shape": shape}
    npy_format.write_array_header_1_0(file, described)
    return file.getvalue()


def locate(path: str, start: int) -> Located:
    """Read the header at byte ``start`` of a file."""
    with open(path, "rb") as whole:
        whole.seek(start)
        file = io.BytesIO(whole.read(_HEADER))
    try:
        major, _ = npy_format.read_magic(file)
        read = {1: npy_format.read_array_header_1_0, 2: npy_format.read_array_header_2_0}[major]
        shape, fortran, array = read(file)
    except (ValueError, KeyError) as error:
        raise ValueError(
            f"expected {WHAT} at byte {start} of {path}, got other data ({error}); check the path, "
            "or write the file anew"
        ) from None
    if fortran and len(shape) > 1:
        raise ValueError(
            f"expected {WHAT} in C order in {path}, got Fortran order, where a sample lies in "
            "pieces; write np.ascontiguousarray of it"
        )
    known = torch.bfloat16 if array == _BFLOAT16 else dtypes.from_numpy(array, path)
    return Located(shape, known, file.tell())


def _packed(path: str) -> Extents:
    whole = locate(path, 0)
    if not whole.shape:
        raise ValueError(
            f"expected an array whose first axis counts the samples in {path}, got one without "
            "axes; for one file a sample, give the folder"
        )
    first = whole._replace(shape=whole.shape[1:])
    extents = in_one_file(WHAT, path, whole.shape[0], first)
    check_size(path, whole.offset + len(extents) * extents.nbytes, WHAT)
    return extents


def _folder(path: os.PathLike[str]) -> Extents:
    paths = files_of(path, (".npy",), "npy")
    first = locate(paths[0], 0)
    with open(paths[0], "rb") as file:
        prefix = file.read(first.offset)
    return one_file_each(WHAT, paths, first, prefix, exact=True, locate=locate)
