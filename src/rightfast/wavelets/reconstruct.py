"""Several levels up over some axes, as one linear map: the inverse of decompose.py."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from rightfast_kernels.dwt import native, polyphase, reference
from rightfast_kernels.dwt.linear import LinearMap
from torch import Tensor

from rightfast.wavelets.backends import Native, kernel_serves, note, takes
from rightfast.wavelets.inputs import cast, common_dtype, computed, served_as
from rightfast.wavelets.out import check_out, writable, write
from rightfast.wavelets.recall import remember
from rightfast.wavelets.step import (
    Axes,
    Bands,
    derivatives,
    plain_ops,
    synthesise,
    synthesise_adjoint,
)


@dataclass(frozen=True)
class Level:
    """One level up: the keys of its details, the shape of its bands, and the shape of the
    approximation that comes in, which may be one longer along an axis; None if none does."""

    keys: tuple[str, ...]
    shape: tuple[int, ...]
    low: tuple[int, ...] | None


def reconstruct(
    low: Tensor | None,
    details: Sequence[Bands],
    axes: Axes,
    trim_first: bool = True,
    key: Any = None,
    out: Any = None,
) -> Tensor:
    """The signal from its approximation and details, deepest first; missing bands are zeros.

    Before each step the approximation loses its last sample along each axis where it is one
    longer than the details, which is what an odd length gives; any other difference raises
    ValueError. ``trim_first``: whether this holds for the approximation that is given, too.
    ``key``: what to recall a kernel by that serves this call; ``out``: a tensor to fill, which
    is the result then.
    """
    levels = plan_of(low, details, axes, trim_first)
    given = [] if low is None else [low]
    given += [band for bands in details for band in bands.values()]
    dtype = common_dtype(given)
    data = [served_as(cast(band, dtype)).contiguous() for band in given]
    if out is not None:
        check_out([out], [_shape_above(levels[-1].shape, axes)], dtype, given)
        kernel = data[0].dtype == dtype and kernel_serves(data, axes)
        if not (kernel and writable([out], data[0].dtype, given)):
            write([out], [reconstruct(low, details, axes, trim_first)])
        else:
            native_of(tuple(axes), tuple(levels), data[0].is_complex()).up_into(
                _trimmed(data, levels), out
            )
            note("kernel")
        return out  # type: ignore[no-any-return]
    if kernel_serves(data, axes):
        mixed = any(band.dtype != dtype for band in given)
        return cast(_by_kernel(data, levels, axes, None if mixed else key), dtype)
    note("torch")
    data = [computed(band) for band in data]
    if plain_ops(axes):
        return cast(_up(data, levels, axes, reference), dtype)
    if not any(derivatives(band) for band in data):
        return cast(_up(data, levels, axes, polyphase), dtype)
    (x,) = LinearMap(
        lambda *flat: (_up(flat, levels, axes, polyphase),),
        lambda g: _up_adjoint(g, levels, axes, polyphase),
    )(*data)
    return cast(x, dtype)


def plan_of(
    low: Tensor | None, details: Sequence[Bands], axes: Axes, trim_first: bool
) -> list[Level]:
    """The levels to go up; checks every shape before anything is computed."""
    levels: list[Level] = []
    incoming = None if low is None else tuple(low.shape)
    for bands in details:
        if incoming is None and not bands:
            continue
        shapes = [tuple(band.shape) for band in bands.values()]
        if any(shape != shapes[0] for shape in shapes):  # no set: a symbolic size has no hash
            raise ValueError(
                f"All detail shapes of one level must be the same, got {sorted(set(shapes))}"
            )
        shape = shapes[0] if shapes else incoming
        assert shape is not None
        if incoming is not None:
            _check_fit(incoming, shape, axes if trim_first or levels else ())
        levels.append(Level(tuple(bands), shape, incoming))
        incoming = _shape_above(shape, axes)
    if not levels:
        raise ValueError("At least one coefficient parameter must be specified.")
    return levels


def _check_fit(low: tuple[int, ...], details: tuple[int, ...], axes: Axes) -> None:
    if len(low) != len(details):
        raise ValueError(
            "All coefficients must have a matching number of dimensions, got an approximation "
            f"of {low} beside details of {details}"
        )
    may_be_longer = {dim % len(low) for dim, _, _ in axes}
    for dim, (have, want) in enumerate(zip(low, details, strict=True)):
        if have != want and not (have == want + 1 and dim in may_be_longer):
            raise ValueError(
                f"coefficient shape mismatch: an approximation of {low} beside details of "
                f"{details}, along dimension {dim}"
            )


def _shape_above(shape: tuple[int, ...], axes: Axes) -> tuple[int, ...]:
    above = list(shape)
    for dim, wavelet, mode in axes:
        length, taps = above[dim], wavelet.rec_len
        above[dim] = 2 * length - (0 if mode == "periodization" else taps - 2)
        if length < 1 or above[dim] < 1:
            raise ValueError(
                f"Invalid coefficient arrays length {length} for a wavelet of {taps} taps in "
                f"mode {mode!r}. Wavelet and mode must be the same as used for decomposition."
            )
    return tuple(above)


def _by_kernel(data: list[Tensor], levels: Sequence[Level], axes: Axes, key: Any) -> Tensor:
    low = levels[0].low
    if low is not None and low != levels[0].shape:
        data, key = _trimmed(data, levels), None
    if torch.compiler.is_compiling():
        uncached = native_of.__wrapped__  # a compiler warns of caches
        kernel: Native = uncached(tuple(axes), tuple(levels), data[0].is_complex())
        return kernel.up(data, native.recorded_up)
    kernel = native_of(tuple(axes), tuple(levels), data[0].is_complex())
    remember(key, kernel)
    note("kernel")
    if not any(derivatives(band) for band in data):
        return kernel.up(data)
    (x,) = linear_of(kernel, axes, levels)(*data)
    return x


def linear_of(kernel: Native, axes: Axes, levels: Sequence[Level]) -> LinearMap:
    """The reconstruction and its adjoint, by the kernel where that serves; the approximation that
    comes in is as long as the details beside it."""
    levels = [replace(levels[0], low=levels[0].low and levels[0].shape), *levels[1:]]
    return LinearMap(
        lambda *flat: (kernel.up(flat) if takes(flat[0]) else _up(flat, levels, axes, polyphase),),
        lambda g: kernel.down(g) if takes(g) else _up_adjoint(g, levels, axes, polyphase),
    )


def _trimmed(data: Sequence[Tensor], levels: Sequence[Level]) -> list[Tensor]:
    """The bands, the approximation as long as the details beside it."""
    if levels[0].low is None:
        return list(data)
    return [data[0][tuple(slice(n) for n in levels[0].shape)], *data[1:]]


@lru_cache(maxsize=256)
def native_of(axes: Axes, levels: Sequence[Level], complex_: bool) -> Native:
    """The kernel for these levels."""
    lengths = []
    for level in reversed(levels):
        above = _shape_above(level.shape, axes)
        lengths.append([(above[dim], level.shape[dim]) for dim, _, _ in axes])
    keys = [level.keys for level in reversed(levels)]
    if levels[0].low is not None:
        keys[-1] = ("a" * len(axes), *keys[-1])
    return Native(
        [native.synthesis_axis(dim, mode, *w.filters_as_floats(False)) for dim, w, mode in axes],
        lengths,
        keys,
        complex_,
    )


def _up(flat: Sequence[Tensor], levels: Sequence[Level], axes: Axes, kernel: Any) -> Tensor:
    rest = iter(flat)
    low = None if levels[0].low is None else next(rest)
    for level in levels:
        bands: Bands = {}
        if low is not None:
            for dim, _, _ in axes:
                low = low.narrow(dim, 0, level.shape[dim])
            bands["a" * len(axes)] = low
        bands.update((key, next(rest)) for key in level.keys)
        low = synthesise(bands, axes, kernel)
    assert low is not None
    return low


def _up_adjoint(g: Tensor, levels: Sequence[Level], axes: Axes, kernel: Any) -> tuple[Tensor, ...]:
    flat: list[Tensor] = []
    for level in reversed(levels):
        bands = synthesise_adjoint(g, axes, kernel)
        flat = [bands[key] for key in level.keys] + flat
        if level.low is None:
            return tuple(flat)
        g = bands["a" * len(axes)]
        for dim, _, _ in axes:
            if level.low[dim] > g.shape[dim]:
                g = torch.cat((g, torch.zeros_like(g.narrow(dim, 0, 1))), dim)
    return (g, *flat)
