"""Lengths and levels: how many samples a transform gives, and how deep it may go."""

import math
import operator
from collections.abc import Sequence
from itertools import product
from typing import Any

import pywt
from rightfast_kernels.dwt.reference import coeff_len

from rightfast.wavelets.inputs import as_integer, check_axes
from rightfast.wavelets.modes import as_mode, modes_per_axis, warn
from rightfast.wavelets.wavelet import Wavelet, as_wavelet, wavelets_per_axis


def _filter_len(filter_len: Any) -> int:
    if isinstance(filter_len, (str, Wavelet, pywt.Wavelet)):
        return as_wavelet(filter_len).dec_len
    if isinstance(filter_len, float) and filter_len.is_integer():
        filter_len = int(filter_len)
    try:
        return operator.index(filter_len)
    except TypeError:
        raise ValueError(
            "filter_len must be an integer, discrete Wavelet object, or the name of a discrete "
            f"wavelet, got {filter_len!r}."
        ) from None


def max_level(data_len: int, filter_len: int) -> int:
    """floor(log2(N / (F - 1))) by integers: log2 in float32 is one off at N = 2^24 - 1."""
    whole = data_len // (filter_len - 1)
    return whole.bit_length() - 1 if whole > 0 else 0


def dwt_max_level(data_len: int, filter_len: Any) -> int:
    """The largest useful level for ``data_len`` samples: floor(log2(N / (F - 1))), or 0.

    The last level at which one coefficient is free of border effects. ``filter_len`` is F, or
    a wavelet or its name. Raises ValueError for F < 2, an unknown wavelet, a negative length.
    """
    taps = _filter_len(filter_len)
    if taps < 2:
        raise ValueError(f"invalid wavelet filter length {taps}; expected at least 2")
    samples = as_integer(data_len, "a data length")
    if samples < 0:
        raise ValueError(f"expected a data length of 0 or more, got {samples}")
    return max_level(samples, taps)


def dwtn_max_level(shape: Sequence[int], wavelet: Any, axes: Any = None) -> int:
    """The smallest `dwt_max_level` over ``axes`` (None: all) of data of this ``shape``.

    Raises ValueError for repeated axes, an axis too large, or no axes at all.
    """
    shape = tuple(shape)
    if not shape:
        raise ValueError("Expected at least 1D input data.")
    dims = check_axes(axes, len(shape), "dwtn_max_level")
    wavelets = wavelets_per_axis(wavelet, len(dims))
    if not dims:
        raise ValueError("Expected at least one axis, got none")
    return min(max_level(shape[d], w.dec_len) for d, w in zip(dims, wavelets, strict=True))


def dwt_coeff_len(data_len: int, filter_len: Any, mode: Any) -> int:
    """Samples per band for ``data_len`` samples: floor((N + F - 1) / 2), or ceil(N / 2).

    The second is mode "periodization". ``filter_len`` is F, or a wavelet or its name. Raises
    ValueError unless both lengths are greater than zero.
    """
    n, taps = as_integer(data_len, "a data length"), _filter_len(filter_len)
    if n < 1 or taps < 1:
        which, value = ("data_len", n) if n < 1 else ("filter_len", taps)
        raise ValueError(f"Value of {which} must be greater than zero, got {value}.")
    return coeff_len(n, taps, as_mode(mode))


def check_level(sizes: Sequence[int], wavelets: Sequence[Wavelet], level: Any) -> int:
    """``level`` as an int, the maximum if None.

    Raises ValueError below 0, TypeError for what is no integer; warns above the maximum.
    """
    pairs = zip(sizes, wavelets, strict=True)
    most = min(max_level(n, wavelet.dec_len) for n, wavelet in pairs)
    if level is None:
        return most
    wanted = as_integer(level, "a level")
    if wanted < 0:
        raise ValueError(f"Level value of {wanted} is too low . Minimum level is 0.")
    if wanted > most:
        warn(
            f"Level value of {wanted} is too high: all coefficients will experience boundary "
            "effects.",
            UserWarning,
        )
    return wanted


def wavedecn_shapes(
    shape: Sequence[int],
    wavelet: Any,
    mode: Any = "symmetric",
    level: int | None = None,
    axes: Any = None,
) -> list[Any]:
    """The shapes that `wavedecn` gives for data of this ``shape``, in the same structure.

    Arguments and errors as `wavedecn`.
    """
    shape = tuple(shape)
    if not shape:
        raise ValueError("Expected at least 1D input data.")
    dims = check_axes(axes, len(shape), "wavedecn_shapes")
    wavelets, modes = wavelets_per_axis(wavelet, len(dims)), modes_per_axis(mode, len(dims))
    found: list[Any] = []
    for _ in range(check_level([shape[d] for d in dims], wavelets, level)):
        low = list(shape)
        for dim, w, m in zip(dims, wavelets, modes, strict=True):
            low[dim] = coeff_len(low[dim], w.dec_len, m)
        shape = tuple(low)
        found.insert(0, {"".join(key): shape for key in product("ad", repeat=len(dims))})
        del found[0]["a" * len(dims)]
    return [shape, *found]


def wavedecn_size(shapes: Any) -> int:
    """How many coefficients there are, from `wavedecn_shapes` or from `wavedecn`'s result.

    Raises ValueError for None among the bands.
    """
    entries = [shapes[0]] + [band for level in shapes[1:] for band in level.values()]
    if any(entry is None for entry in entries):
        raise ValueError("Setting coefficient arrays to None is not supported.")
    return sum(math.prod(getattr(entry, "shape", entry)) for entry in entries)
