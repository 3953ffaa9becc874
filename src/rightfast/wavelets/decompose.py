"""Several levels down over some axes, as one linear map.

A whole decomposition is one linear map of its data, and one call to autograd: the cost of a
recorded step is that of several kernels on small signals, and nothing has to be kept for the
backward pass. Plain differentiable operations run instead where a compiler traces (it fuses
them) and where filters are tensors that may learn.
"""

from collections.abc import Sequence
from typing import Any

from rightfast_kernels.dwt import polyphase, reference
from rightfast_kernels.dwt.linear import LinearMap
from rightfast_kernels.dwt.reference import coeff_len
from torch import Tensor

from rightfast.wavelets.inputs import cast, check_length, computed, result_dtype
from rightfast.wavelets.step import (
    Axes,
    Bands,
    analyse,
    analyse_adjoint,
    analyse_stacked,
    band_keys,
    derivatives,
    plain_ops,
)

# Up to so many samples the calls of a level cost more than two copies of it.
STACKED = 1 << 16


def decompose(x: Tensor, axes: Axes, depth: int) -> tuple[Tensor, list[Bands]]:
    """The approximation after ``depth`` levels and the details, deepest level first."""
    if depth == 0:
        return x, []
    shape = list(x.shape)
    shapes = [tuple(shape)]
    for _ in range(depth):
        for dim, wavelet, mode in axes:
            check_length(shape[dim], mode)
            shape[dim] = coeff_len(shape[dim], wavelet.dec_len, mode)
        shapes.append(tuple(shape))
    dtype, data = result_dtype(x), computed(x).contiguous()
    if plain_ops(axes):
        flat = _analyse_levels(data, axes, depth, reference)
    elif derivatives(data):
        flat = LinearMap(
            lambda x: _analyse_levels(x, axes, depth, polyphase),
            lambda *g: (_analyse_levels_adjoint(g, axes, shapes, polyphase),),
        )(data)
    else:
        flat = _analyse_levels(data, axes, depth, polyphase)
    return _unflatten([cast(band, dtype) for band in flat], len(axes), depth)


def _analyse_levels(x: Tensor, axes: Axes, depth: int, kernel: Any) -> tuple[Tensor, ...]:
    """(approximation, details of the deepest level, ..., of the first), keys in order."""
    flat: list[Tensor] = []
    for _ in range(depth):
        few = kernel is polyphase and len(axes) > 1 and x.numel() <= STACKED
        low, *details = (analyse_stacked if few else analyse)(x, axes, kernel).values()
        flat = details + flat
        x = low
    return (x, *flat)


def _analyse_levels_adjoint(
    g: Sequence[Tensor], axes: Axes, shapes: Sequence[Sequence[int]], kernel: Any
) -> Tensor:
    low, details = _unflatten(g, len(axes), len(shapes) - 1)
    for bands, shape in zip(details, reversed(shapes[:-1]), strict=True):
        low = analyse_adjoint({"a" * len(axes): low, **bands}, axes, shape, kernel)
    return low


def _unflatten(flat: Sequence[Tensor], count: int, depth: int) -> tuple[Tensor, list[Bands]]:
    keys = band_keys(count)[1:]
    levels = [flat[1 + i * len(keys) :][: len(keys)] for i in range(depth)]
    return flat[0], [dict(zip(keys, level, strict=True)) for level in levels]
