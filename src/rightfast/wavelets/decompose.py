"""Several levels down over some axes, as one linear map.

A whole decomposition is one linear map of its data, and one call to autograd: the cost of a
recorded step is that of several kernels on small signals, and nothing has to be kept for the
backward pass. Plain differentiable operations run instead where a compiler traces (it fuses
them) and where filters are tensors that may learn.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from rightfast_kernels.dwt import native, polyphase, reference
from rightfast_kernels.dwt.linear import LinearMap
from rightfast_kernels.dwt.reference import coeff_len
from torch import Tensor

from rightfast.wavelets.backends import Native, kernel_serves, note, takes
from rightfast.wavelets.inputs import cast, check_length, computed, result_dtype, served_as
from rightfast.wavelets.out import check_out, read_out, writable, write
from rightfast.wavelets.recall import remember
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


def decompose(
    x: Tensor, axes: Axes, depth: int, key: Any = None, out: Any = None
) -> tuple[Tensor, list[Bands]]:
    """The approximation after ``depth`` levels and the details, deepest level first.

    ``key``: what to recall a kernel by that serves this call; ``out``: tensors to fill, in a
    structure that `read_out` takes, which are the result then.
    """
    if out is not None:
        return _decompose_into(x, axes, depth, out)
    if depth == 0:
        return x, []
    dtype, data = result_dtype(x), served_as(x)
    if kernel_serves((data,), axes):
        flat = _by_kernel(data, tuple(axes), depth, key)
        return _unflatten([cast(band, dtype) for band in flat], len(axes), depth)
    shapes, data = _shapes(x.shape, axes, depth), computed(data).contiguous()
    note("torch")
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


def _decompose_into(x: Tensor, axes: Axes, depth: int, out: Any) -> tuple[Tensor, list[Bands]]:
    flat, shapes = read_out(out, len(axes), depth), _shapes(x.shape, axes, depth)
    details = [shape for shape in shapes[:0:-1] for _ in range((1 << len(axes)) - 1)]
    check_out(flat, [shapes[-1], *details], result_dtype(x), [x])
    data = served_as(x)
    kernel = depth and data.dtype == result_dtype(x) and kernel_serves((data,), axes)
    if kernel and writable(flat, data.dtype, [x]):
        native_of(tuple(axes), depth, tuple(x.shape), x.is_complex()).down_into(data, flat)
        note("kernel")
    else:
        low, levels = decompose(x, axes, depth)
        write(flat, [low, *(band for bands in levels for band in bands.values())])
    return _unflatten(flat, len(axes), depth)


def _shapes(shape: Sequence[int], axes: Axes, depth: int) -> list[tuple[int, ...]]:
    """The shape of the data, and of the bands of each level, first to last."""
    sizes = list(shape)
    shapes = [tuple(sizes)]
    for _ in range(depth):
        for dim, wavelet, mode in axes:
            check_length(sizes[dim], mode)
            sizes[dim] = coeff_len(sizes[dim], wavelet.dec_len, mode)
        shapes.append(tuple(sizes))
    return shapes


def _by_kernel(x: Tensor, axes: tuple[Any, ...], depth: int, key: Any) -> tuple[Tensor, ...]:
    if torch.compiler.is_compiling():
        uncached = native_of.__wrapped__  # a compiler warns of caches
        kernel: Native = uncached(axes, depth, tuple(x.shape), x.is_complex())
        return kernel.down(x, native.recorded_down)
    kernel = native_of(axes, depth, tuple(x.shape), x.is_complex())
    remember(key, kernel)
    note("kernel")
    if not derivatives(x):
        return kernel.down(x)
    return linear_of(kernel, axes, x.shape, depth)(x)


def linear_of(kernel: Native, axes: Axes, shape: Sequence[int], depth: int) -> LinearMap:
    """The transform of signals of this shape and its adjoint, by the kernel where that serves."""
    shapes = _shapes(shape, axes, depth)

    def run(x: Tensor) -> tuple[Tensor, ...]:
        return kernel.down(x) if takes(x) else _analyse_levels(x, axes, depth, polyphase)

    def adjoint(*g: Tensor) -> tuple[Tensor]:
        one = takes(g[0])
        return (kernel.up(g) if one else _analyse_levels_adjoint(g, axes, shapes, polyphase),)

    return LinearMap(run, adjoint)


@lru_cache(maxsize=256)
def native_of(axes: Axes, depth: int, shape: tuple[int, ...], complex_: bool) -> Native:
    """The kernel for ``depth`` levels of signals of this shape."""
    shapes = _shapes(shape, axes, depth)
    levels = pairwise(shapes)
    keys = band_keys(len(axes))
    return Native(
        [native.analysis_axis(dim, mode, *w.filters_as_floats(True)) for dim, w, mode in axes],
        [[(fine[dim], coarse[dim]) for dim, _, _ in axes] for fine, coarse in levels],
        [*([keys[1:]] * (depth - 1)), keys],
        complex_,
    )


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
