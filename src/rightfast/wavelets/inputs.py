"""Reading data and axes: tensors as they are, arrays and lists as PyWavelets reads them."""

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.exceptions import AxisError
from torch import Tensor

# Each dtype that is taken, and the one it is computed in. Half precision loses too much in a
# sum of many taps; integers become float64, as in PyWavelets.
_COMPUTED = {
    torch.float64: torch.float64,
    torch.float32: torch.float32,
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex128: torch.complex128,
    torch.complex64: torch.complex64,
    torch.complex32: torch.complex64,
    **dict.fromkeys(
        (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64), torch.float64
    ),
}
_REAL_HALF = (torch.float16, torch.bfloat16)
_HALF = (*_REAL_HALF, torch.complex32)


def as_tensor(data: Any, what: str = "data") -> Tensor:
    """``data`` itself if a tensor, else the tensor of the array it describes.

    Raises TypeError for what is not numeric or not dense, and for dtypes that no transform takes.
    """
    tensor = data if isinstance(data, Tensor) else _from_array(data, what)
    if not is_dense(tensor):
        raise TypeError(
            f"expected {what} as a dense tensor, got "
            + ("a nested one" if tensor.is_nested else f"layout {tensor.layout}")
            + "; convert it first, with .to_dense() or, if nested, .to_padded_tensor(0)"
        )
    if tensor.dtype not in _COMPUTED:
        raise TypeError(
            f"expected {what} of a real, complex or integer dtype, got {tensor.dtype}; "
            "convert it first, for instance with .float()"
        )
    return tensor


def is_dense(x: Tensor) -> bool:
    """Whether ``x`` has a number, and memory, at every place: neither sparse nor nested."""
    return x.layout is torch.strided and not x.is_nested


def _from_array(data: Any, what: str) -> Tensor:
    array = np.asarray(data)
    if array.dtype.kind not in "biufc":
        raise TypeError(
            f"expected {what} to be a tensor or a numeric array-like, got {type(data).__name__} "
            f"with dtype {array.dtype}"
        )
    if array.dtype.kind in "iub" or array.dtype == np.longdouble:
        array = array.astype(np.float64)
    elif array.dtype == np.clongdouble:
        array = array.astype(np.complex128)
    # torch takes neither negative strides, nor foreign byte order, nor read-only memory.
    backwards = any(stride < 0 for stride in array.strides)
    if backwards or not array.flags.writeable or not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="), order="C")
    return torch.from_numpy(array)


def computed(x: Tensor) -> Tensor:
    """``x`` in the dtype that it is computed in."""
    return cast(x, _COMPUTED[x.dtype])


def served_as(x: Tensor) -> Tensor:
    """``x`` in the dtype that a native kernel reads: on a GPU half precision as it is."""
    return x if x.is_cuda and x.dtype in _REAL_HALF else computed(x)


def cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    """``x.to(dtype)``, without the call where there is nothing to do."""
    return x if x.dtype == dtype else x.to(dtype)


def result_dtype(x: Tensor) -> torch.dtype:
    """The dtype of the result for data ``x``: its own, or float64 for integers."""
    return x.dtype if x.dtype in _HALF else _COMPUTED[x.dtype]


def common_dtype(bands: Sequence[Tensor]) -> torch.dtype:
    """The dtype of a reconstruction: the bands' own if they agree, else float64 or complex128.

    Half precision beside float32 gives float32.
    """
    dtypes = {result_dtype(band) for band in bands}
    if len(dtypes) == 1:
        return dtypes.pop()
    if dtypes <= {torch.float16, torch.bfloat16, torch.float32}:
        return torch.float32
    return torch.complex128 if any(d.is_complex for d in dtypes) else torch.float64


def as_integer(value: Any, what: str) -> int:
    """``value`` as an int, if it is one to Python. Raises TypeError for 2.0 and "2", too."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"expected {what} as an integer, got {value!r} ({type(value).__name__}); "
            "convert it first, with int()"
        ) from None


def check_axis(axis: Any, ndim: int, what: str = "data") -> int:
    """``axis`` as a non-negative int. Raises AxisError (a ValueError and IndexError), TypeError."""
    number = as_integer(axis, "an axis")
    if not -ndim <= number < ndim:
        raise AxisError(
            f"Axis greater than {what} dimensions: got axis {number} for {ndim}-D {what}"
        )
    return number % ndim


def check_axes(axes: Any, ndim: int, caller: str, count: int | None = None) -> list[int]:
    """``axes`` as distinct non-negative ints; None is all of them; one int is one axis.

    Raises ValueError for repeated axes (also 0 and -2 of a 2-D tensor), or not ``count`` axes;
    TypeError for what is not made of integers.
    """
    if axes is None:
        return list(range(ndim))
    given = read_axes(axes, count)
    numbers = [check_axis(axis, ndim) for axis in given]
    if len(set(numbers)) != len(numbers):
        raise ValueError(f"The axes passed to {caller} must be unique, got {given}.")
    return numbers


def read_axes(axes: Any, count: int | None = None) -> list[Any]:
    """``axes`` as a list: of one, or of a sequence, array or tensor of them."""
    if isinstance(axes, (Tensor, np.ndarray)):
        axes = axes.tolist()
    if isinstance(axes, Iterable) and not isinstance(axes, str):
        given = list(axes)
    else:
        given = [as_integer(axes, "axes")]
    if count is not None and len(given) != count:
        raise ValueError(f"Expected {count} axes, got {len(given)}: {given}")
    return given


def check_length(n: int, mode: str) -> None:
    """Raises ValueError if a signal of ``n`` samples cannot be extended by ``mode``."""
    if n < 1:
        raise ValueError(
            "Value of data_len must be greater than zero: the transformed axis is empty"
        )
    if n == 1 and mode in ("reflect", "antireflect"):
        raise ValueError(
            "Input data length must be greater than 1 for [anti]reflect mode along the "
            "transformed axis; use symmetric or antisymmetric"
        )
