"""torch's dtypes and the names that files give them."""

from typing import Any

import numpy as np
import torch

# Those that numpy knows too, under the same name.
_NAMES = (
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 "
    "float16 float32 float64 complex64 complex128"
)
PLAIN: dict[torch.dtype, np.dtype[Any]] = {
    getattr(torch, name): np.dtype(name) for name in _NAMES.split()
}
# Those that numpy does not know: a file has their bits under a dtype of the same size.
CARRIED: dict[torch.dtype, np.dtype[Any]] = {
    torch.bfloat16: np.dtype("uint16"),
    torch.float8_e4m3fn: np.dtype("uint8"),
    torch.float8_e5m2: np.dtype("uint8"),
    torch.complex32: np.dtype("uint32"),
}
# The attribute that names the dtype of carried bits, in formats that have attributes.
ATTRIBUTE = "torch_dtype"

_BY_NAME = {str(dtype).removeprefix("torch."): dtype for dtype in (*PLAIN, *CARRIED)}
_BY_NUMPY = {array: dtype for dtype, array in PLAIN.items()}


def name_of(dtype: torch.dtype) -> str:
    """torch's name without the module: ``float32``."""
    return str(dtype).removeprefix("torch.")


def stored(dtype: torch.dtype, where: str) -> np.dtype[Any]:
    """The numpy dtype in which a file has elements of ``dtype``. Raises TypeError for others."""
    if dtype not in PLAIN and dtype not in CARRIED:
        raise TypeError(
            f"expected a dtype that {where} can hold, got {dtype}; convert the samples first, for "
            "instance with .dequantize() or .float()"
        )
    return PLAIN[dtype] if dtype in PLAIN else CARRIED[dtype]


def from_name(name: str, where: str) -> torch.dtype:
    """The dtype that a file calls ``name``. Raises TypeError for names that torch lacks."""
    if name not in _BY_NAME:
        raise TypeError(
            f"expected a dtype that torch has in {where}, one of {', '.join(_BY_NAME)}, got "
            f"{name!r}; write the file anew with one of these"
        )
    return _BY_NAME[name]


def from_numpy(array: np.dtype[Any], where: str) -> torch.dtype:
    """The dtype of elements of a numpy dtype, in this machine's byte order.

    Raises TypeError for foreign byte order and for what torch lacks (strings, objects, records).
    """
    if array in _BY_NUMPY and array.isnative:
        return _BY_NUMPY[array]
    foreign = array.newbyteorder("=") in _BY_NUMPY
    raise TypeError(
        f"expected elements that torch has in {where}, got {array.str!r}"
        + (" (the other byte order)" if foreign else "")
        + "; write the file anew, for instance with .astype('float32')"
    )
