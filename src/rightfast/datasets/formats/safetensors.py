"""safetensors: the length of a JSON header, the header, then the elements of all tensors.

Source of the format: https://github.com/huggingface/safetensors#format. It is little enough that
files are read and written here without the library.
"""

import json
import math
import os
import struct
from typing import Any

import torch

from rightfast.datasets import writing
from rightfast.datasets.dataset import SampleDataset
from rightfast.datasets.extents import Extents, Located, in_one_file, one_file_each
from rightfast.datasets.listing import check_size, existing, files_of
from rightfast.datasets.raw import RawSource

WHAT = "a safetensors file"
DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "U16": torch.uint16,
    "I16": torch.int16,
    "U32": torch.uint32,
    "I32": torch.int32,
    "U64": torch.uint64,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "C64": torch.complex64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}
_LONGEST = 100_000_000  # bytes of header; the library refuses more too


class SafetensorsDataset(SampleDataset):
    """Samples in safetensors: one tensor whose first axis counts them, or a folder, a file each.

    ``key`` names the tensor; a file with one tensor alone needs no matching name. Raises ValueError
    for files that are no safetensors, are cut off, lack ``key``, or hold samples of unequal shape
    (when they are read), TypeError for dtypes that torch lacks.
    """

    def __init__(self, path: str | os.PathLike[str], key: str = "data") -> None:
        found = existing(path, "a safetensors file, or a folder of them,")
        self.key = key
        super().__init__(
            RawSource(_folder(found, key) if found.is_dir() else _packed(str(found), key))
        )


def write_safetensors(
    path: str | os.PathLike[str],
    samples: Any,
    layout: writing.Layout = "packed",
    key: str = "data",
) -> None:
    """Write samples as one tensor of one file (``"packed"``), or as a file each (``"files"``).

    Args:
        path: file, or folder, to make; must not exist.
        samples: a tensor whose first axis counts the samples, or a sequence of tensors.
        layout: ``"packed"`` or ``"files"``.
        key: name of the tensor.

    Raises:
        TypeError: a dtype that safetensors has no name for (complex128).
        ValueError: samples of unequal shape or dtype, none at all.
        FileExistsError: ``path`` exists.
    """
    writing.check_layout(layout)
    given = writing.Samples(samples)
    with writing.appearing(path) as part:
        if layout == "packed":
            with open(part, "wb") as file:
                file.write(_header(key, (len(given), *given.shape), given.dtype))
                for sample in given:
                    file.write(sample.data)
            return
        writing.needs_samples(given, path)
        part.mkdir()
        head = _header(key, given.shape, given.dtype)
        names = writing.numbered(part, len(given), ".safetensors")
        for name, sample in zip(names, given, strict=True):
            with open(name, "wb") as file:
                file.write(head)
                file.write(sample.data)


def _header(key: str, shape: tuple[int, ...], dtype: torch.dtype) -> bytes:
    names = {known: name for name, known in DTYPES.items()}
    if not isinstance(key, str) or key == "__metadata__":
        raise ValueError(
            f"expected key= as a name other than __metadata__, which the format keeps for itself, "
            f"got {key!r}"
        )
    if dtype not in names:
        raise TypeError(
            f"expected a dtype that safetensors has a name for, got {dtype}; write .npy or HDF5"
        )
    size = math.prod(shape) * dtype.itemsize
    entry = {"dtype": names[dtype], "shape": list(shape), "data_offsets": [0, size]}
    text = json.dumps({key: entry}, separators=(",", ":")).encode()
    # Padded as the library pads it, so that the elements are aligned, here to a cache line.
    text += b" " * (-(8 + len(text)) % 64)
    return struct.pack("<Q", len(text)) + text


class _Locate:
    """Finds the tensor ``key`` in the header of a file."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self, path: str, start: int = 0) -> Located:
        tensors, data = _read_header(path)
        key = next(iter(tensors)) if len(tensors) == 1 else self.key
        if key not in tensors:
            raise ValueError(
                f"expected a tensor {self.key!r} in {path}, got {', '.join(sorted(tensors))}; name "
                "one of these with key="
            )
        try:
            entry = tensors[key]
            shape = tuple(int(n) for n in entry["shape"])
            first, last = entry["data_offsets"]
            name = entry["dtype"]
        except (TypeError, KeyError, ValueError):
            raise ValueError(
                f"expected dtype, shape and data_offsets of {key!r} in {path}, got "
                f"{tensors[key]!r}; write the file anew"
            ) from None
        if name not in DTYPES:
            raise TypeError(f"expected a dtype of {', '.join(DTYPES)} in {path}, got {name!r}")
        if last - first != math.prod(shape) * DTYPES[name].itemsize or first < 0:
            raise ValueError(
                f"expected {key!r} in {path} to have the bytes of its shape {shape}, got offsets "
                f"{first} to {last}; write the file anew"
            )
        check_size(path, data + last, WHAT)
        return Located(shape, DTYPES[name], data + first)


def _read_header(path: str) -> tuple[dict[str, Any], int]:
    with open(path, "rb") as file:
        head = file.read(8)
        size = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
        text = file.read(size) if 2 <= size <= _LONGEST else b""
    try:
        tensors = json.loads(text)
        if len(text) != size or not isinstance(tensors, dict):
            raise ValueError("no header")
    except ValueError:
        raise ValueError(
            f"expected {WHAT} at {path}, got other data, or a file that is cut off; check the "
            "path, or write the file anew"
        ) from None
    tensors.pop("__metadata__", None)
    return tensors, 8 + size


def _packed(path: str, key: str) -> Extents:
    whole = _Locate(key)(path)
    if not whole.shape:
        raise ValueError(
            f"expected a tensor whose first axis counts the samples in {path}, got one without "
            "axes; for one file a sample, give the folder"
        )
    return in_one_file(WHAT, path, whole.shape[0], whole._replace(shape=whole.shape[1:]))


def _folder(path: os.PathLike[str], key: str) -> Extents:
    paths = files_of(path, (".safetensors",), "safetensors")
    locate = _Locate(key)
    first = locate(paths[0])
    with open(paths[0], "rb") as file:
        prefix = file.read(first.offset)
    return one_file_each(WHAT, paths, first, prefix, locate=locate)
