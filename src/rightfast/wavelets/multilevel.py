"""Several levels: `wavedec`, `wavedec2`, `wavedecn` and their inverses.

Coefficients come as PyWavelets orders them: the last approximation, then the details of each
level, deepest first. The containers given are never changed.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from rightfast.wavelets.decompose import decompose
from rightfast.wavelets.inputs import as_tensor, check_axes
from rightfast.wavelets.layout import Packed
from rightfast.wavelets.lengths import check_level
from rightfast.wavelets.out import check_out
from rightfast.wavelets.recall import (
    bands_of_plane,
    bands_of_space,
    key_of,
    plane,
    recall,
    space,
)
from rightfast.wavelets.reconstruct import reconstruct
from rightfast.wavelets.single import check_bands, prepare, prepare_one
from rightfast.wavelets.step import Axes, Bands, band_keys


def wavedec(
    data: Any,
    wavelet: Any,
    mode: Any = "symmetric",
    level: int | None = None,
    axis: int = -1,
    *,
    out: Any = None,
) -> list[Tensor]:
    """Several levels of the discrete wavelet transform along one axis.

    Args:
        data: tensor or array-like of any shape.
        wavelet, mode, axis: as in `dwt`.
        level: how many levels; None is `dwt_max_level`; 0 gives back ``[data]``.
        out: tensors to fill, structured as the result, which they are then; see `dwt`.

    Returns:
        ``[cA_n, cD_n, ..., cD_1]``: each level is a `dwt` of the approximation before it.

    Raises:
        ValueError: ``level`` below 0, and as `dwt`. Warns if ``level`` is above the maximum.
        TypeError: data that is not numeric, a level that is not an integer.
    """
    key = None if out is not None else key_of("wavedec", [data], wavelet, mode, (level, axis))
    if known := recall(key):
        return known.recalled_down(data)
    x = as_tensor(data)
    low, details = _decomposed(x, prepare_one(wavelet, mode, axis, x.ndim), level, key, out)
    return [low, *(bands["d"] for bands in details)]


def waverec(
    coeffs: Any,
    wavelet: Any,
    mode: Any = "symmetric",
    axis: int = -1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `wavedec`.

    Args:
        coeffs: list or tuple ``[cA_n, cD_n, ..., cD_1]``; None stands for zeros.
        wavelet, mode, axis: as given to `wavedec`.
        out: a tensor to fill, which is the result then; see `idwt`.

    Returns:
        The signal; an odd one comes back one sample longer, as in PyWavelets. With one entry,
        that entry.

    Raises:
        ValueError: not a list or tuple, empty, nothing but None, an approximation that is
            neither as long as the details beside it nor one longer, and as `idwt`.
        TypeError: coefficients that are not numeric.
    """
    key = None if out is not None else key_of("waverec", coeffs, wavelet, mode, (axis,))
    if (known := recall(key)) and (found := known.recalled_up(coeffs)) is not None:
        return found
    first, rest = _split(coeffs)
    for d in rest:
        if d is not None and not isinstance(d, (Tensor, np.ndarray)):
            raise _wrong_detail(d, "tensors or arrays", "wavedec")
    if not rest:
        return _level_zero(first, out)
    low = None if first is None else as_tensor(first, "the approximation")
    details = [{} if d is None else {"d": as_tensor(d, "a detail")} for d in rest]
    ndim = _ndim(low, details)
    axes = prepare_one(wavelet, mode, axis, ndim, "coefficient")
    return reconstruct(low, details, axes, key=key, out=out)


def wavedec2(
    data: Any,
    wavelet: Any,
    mode: Any = "symmetric",
    level: int | None = None,
    axes: Any = (-2, -1),
    *,
    out: Any = None,
) -> list[Any]:
    """Several levels over two axes: ``[cA_n, (cH_n, cV_n, cD_n), ..., (cH_1, cV_1, cD_1)]``.

    Arguments as `wavedec`, with one wavelet and one mode, or two of them, for the two
    ``axes``; ``out`` structured as the result; the order of cH, cV and cD is that of `dwt2`.
    Errors as `wavedec`, and ValueError for data of fewer than two dimensions, repeated axes, or
    not two axes.
    """
    usual = out is None and _usual(axes)
    key = key_of("wavedec2", [data], wavelet, mode, (level, *axes)) if usual else None
    if known := recall(key):
        return bands_of_plane(known.recalled_down(data))
    x = as_tensor(data)
    if x.ndim < 2:
        raise ValueError(f"Expected input data to have at least 2 dimensions, got {x.ndim}.")
    dims = check_axes(axes, x.ndim, "wavedec2", count=2)
    low, details = _decomposed(x, prepare(wavelet, mode, dims, x.ndim), level, key, out)
    return [low, *((bands["da"], bands["ad"], bands["dd"]) for bands in details)]


def waverec2(
    coeffs: Any,
    wavelet: Any,
    mode: Any = "symmetric",
    axes: Any = (-2, -1),
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `wavedec2`; None stands for zeros. Arguments and errors as `waverec`."""
    flat = plane(coeffs)
    usual = out is None and _usual(axes)
    key = key_of("waverec2", flat, wavelet, mode, axes) if usual else None
    if flat and (known := recall(key)) and (found := known.recalled_up(flat)) is not None:
        return found
    first, rest = _split(coeffs)
    details: list[Bands] = []
    for d in rest:
        if not isinstance(d, (list, tuple)) or len(d) != 3:
            raise _wrong_detail(d, "a 3-tuple of tensors", "wavedec2")
        keyed = zip(("da", "ad", "dd"), d, strict=True)
        details.append({k: as_tensor(v, f"band {k!r}") for k, v in keyed if v is not None})
    if not rest:
        return _level_zero(first, out)
    low = None if first is None else as_tensor(first, "the approximation")
    ndim = _ndim(low, details)
    dims = check_axes(axes, ndim, "waverec2", count=2)
    return reconstruct(low, details, prepare(wavelet, mode, dims, ndim), key=key, out=out)


def wavedecn(
    data: Any,
    wavelet: Any,
    mode: Any = "symmetric",
    level: int | None = None,
    axes: Any = None,
    *,
    out: Any = None,
) -> list[Any]:
    """Several levels over any axes: ``[cA_n, {key: band}, ..., {key: band}]``, deepest first.

    Arguments as `wavedec`, with one wavelet and one mode for all ``axes`` (None: every axis),
    or one for each. Keys are those of `dwtn`, without "aa...a". Errors as `wavedec`, and
    ValueError for repeated axes.
    """
    usual = out is None and (axes is None or (type(axes) is tuple and axes))
    key = key_of("wavedecn", [data], wavelet, mode, (level, *(axes or ()))) if usual else None
    if known := recall(key):
        return bands_of_space(known.recalled_down(data), band_keys(len(axes or data.shape))[1:])
    x = as_tensor(data)
    if x.ndim < 1:
        raise ValueError("Expected at least 1D input data.")
    dims = check_axes(axes, x.ndim, "wavedecn")
    if not dims:
        raise ValueError("Expected at least one axis to transform, got none.")
    low, details = _decomposed(x, prepare(wavelet, mode, dims, x.ndim), level, key, out)
    return [low, *details]


def waverecn(
    coeffs: Any,
    wavelet: Any,
    mode: Any = "symmetric",
    axes: Any = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `wavedecn`; missing keys stand for zeros.

    Args:
        coeffs: list or tuple ``[cA_n, {key: band}, ..., {key: band}]``; cA_n may be None.
        wavelet, mode, axes: as given to `wavedecn`.
        out: as for `waverec`.

    Returns:
        The signal, as `waverec` along each axis. With one entry, that entry.

    Raises:
        ValueError: as `waverec`; also a key set to None (leave it out instead), and keys that
            are not one "a" or "d" for each axis.
        TypeError: coefficients that are not numeric.
    """
    usual = out is None and (axes is None or (type(axes) is tuple and axes))
    flat, keys = (usual and space(coeffs)) or (None, ())
    key = key_of("waverecn", flat, wavelet, mode, axes or (), keys)
    if flat and (known := recall(key)) and (found := known.recalled_up(flat)) is not None:
        return found
    first, rest = _split(coeffs)
    for d in rest:
        if not isinstance(d, dict):
            raise _wrong_detail(d, "a dictionary of tensors", "wavedecn")
        absent = [key for key, band in d.items() if band is None]
        if absent:
            raise ValueError(
                f"The following detail coefficients were set to None: {absent}. For multilevel "
                "transforms leave the key out, or use zeros."
            )
    details = [check_bands(d) for d in rest]
    if not rest:
        return _level_zero(first, out)
    low = None if first is None else as_tensor(first, "the approximation")
    ndim = _ndim(low, details)
    dims = check_axes(axes, ndim, "waverecn")
    wrong = sorted({k for bands in details for k in bands if len(k) != len(dims) or "d" not in k})
    if wrong:
        raise ValueError(
            f"Expected detail keys of {len(dims)} characters with at least one 'd', got {wrong}."
        )
    axes = prepare(wavelet, mode, dims, ndim)
    return reconstruct(low, details, axes, trim_first=False, key=key, out=out)


def _usual(axes: Any) -> bool:
    return type(axes) is tuple and axes == (-2, -1)


def _decomposed(
    x: Tensor, axes: Axes, level: int | None, key: Any = None, out: Any = None
) -> tuple[Tensor, list[Bands]]:
    sizes, wavelets = [x.shape[dim] for dim, _, _ in axes], [w for _, w, _ in axes]
    depth = check_level(sizes, wavelets, level)
    if key and depth > check_level(sizes, wavelets, None):
        key = None  # which warns every time
    return decompose(x, axes, depth, key, out)


def _split(coeffs: Any) -> tuple[Any, Sequence[Any]]:
    """(the low band, the details) of a list, or of a `Packed`."""
    if isinstance(coeffs, Packed):
        coeffs = coeffs.unpack()
    if not isinstance(coeffs, (list, tuple)):
        raise ValueError(f"Expected sequence of coefficient arrays, got {type(coeffs).__name__}.")
    if len(coeffs) < 1:
        raise ValueError("Coefficient list too short (minimum 1 array required).")
    return coeffs[0], coeffs[1:]


def _wrong_detail(d: Any, expected: str, function: str) -> ValueError:
    return ValueError(
        f"Unexpected detail coefficient type: {type(d)}. Detail coefficients must be {expected} "
        f"as returned by {function}. If you are using array_to_coeffs or unravel_coeffs, please "
        f"specify output_format={function!r}"
    )


def _level_zero(first: Any, out: Tensor | None) -> Tensor:
    if first is None:
        raise ValueError("At least one coefficient must contain a valid value.")
    x = as_tensor(first, "the approximation")
    if out is None:
        return x
    check_out([out], [x.shape], x.dtype, [x])
    return out.copy_(x)


def _ndim(low: Tensor | None, details: Sequence[Bands]) -> int:
    """How many dimensions the bands have."""
    given = [] if low is None else [low]
    given += [band for bands in details for band in bands.values()]
    if not given:
        raise ValueError("At least one coefficient must contain a valid value.")
    ndims = sorted({band.ndim for band in given})
    if len(ndims) > 1:
        raise ValueError(f"All coefficients must have a matching number of dimensions, got {ndims}")
    return ndims[0]
