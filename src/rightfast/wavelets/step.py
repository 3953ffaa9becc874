"""One level over some axes, and its adjoint, on checked arguments.

Dimensions are counted from the end (-1 is the last), so that vmap may add some in front. The
functions take the kernel as an argument: a module with `analysis` and `synthesis`, and the two
adjoints where those are asked for.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from rightfast.wavelets.wavelet import Wavelet

Axes = Sequence[tuple[int, Wavelet, str]]  # (dimension, wavelet, mode)
Bands = dict[str, Tensor]


def plain_ops(axes: Axes) -> bool:
    """Whether to run the reference: a compiler traces (and fuses it), or filters may learn."""
    traced = torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
    return traced or any(wavelet.learnable for _, wavelet, _ in axes)


def derivatives(x: Tensor) -> bool:
    """Whether autograd or torch.func may ask for a derivative of what is done to ``x``."""
    return (
        (x.requires_grad and torch.is_grad_enabled())
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
    )


def inner_first(axes: Axes) -> list[int]:
    """The order in which to filter: last dimension first.

    The filters of different axes commute. Along the last dimension samples must be split into
    phases first; this way that is done once a level, on the whole, and not on every band.
    """
    return sorted(range(len(axes)), key=lambda i: -axes[i][0])


def analyse(x: Tensor, axes: Axes, kernel: Any) -> Bands:
    """One level over ``axes``: the 2^d bands by key, "aa...a" to "dd...d"."""
    bands, scales = {" " * len(axes): x}, {" " * len(axes): 1.0}
    for i in inner_first(axes):
        dim, wavelet, mode = axes[i]
        filters = wavelet.filters(x, decompose=True)
        halves: Bands = {}
        for key in list(bands):
            pair = [_defer(taps, scales[key], len(axes)) for taps in filters]
            # Let go of each band once read: its memory, warm, serves the next one.
            both = kernel.analysis(bands.pop(key), pair[0][0], pair[1][0], mode, dim % x.ndim)
            for letter, band, (_, scale) in zip("ad", both, pair, strict=True):
                halves[_put(key, i, letter)] = band
                scales[_put(key, i, letter)] = scale
        bands = halves
    for key, scale in scales.items():
        if key in bands and scale != 1:
            bands[key].mul_(scale)
    return {key: bands[key] for key in band_keys(len(axes))}


def analyse_stacked(x: Tensor, axes: Axes, kernel: Any) -> Bands:
    """`analyse`, of few samples over several axes: all bands so far in one tensor, so that an
    axis is one call of the kernel in place of one for each band."""
    stack, scale, keys = x[None], 1.0, [" " * len(axes)]
    for i in inner_first(axes):
        dim, wavelet, mode = axes[i]
        (lo, low_scale), (hi, high_scale) = (
            _defer(taps, 1.0, len(axes)) for taps in wavelet.filters(x, decompose=True)
        )
        if low_scale != high_scale:
            (lo, hi), low_scale = wavelet.filters(x, decompose=True), 1.0
        stack = torch.cat(kernel.analysis(stack, lo, hi, mode, dim % stack.ndim))
        keys = [_put(key, i, letter) for letter in "ad" for key in keys]
        scale *= low_scale
    # A product or a copy of each: a band must not pin the memory of the others.
    bands = [band * scale if scale != 1 else band.clone() for band in stack.unbind()]
    found = dict(zip(keys, bands, strict=True))
    return {key: found[key] for key in band_keys(len(axes))}


def band_keys(count: int) -> list[str]:
    """The keys of ``count`` axes, "aa...a" first."""
    return ["".join(key) for key in product("ad", repeat=count)]


def _defer(taps: Any, scale: float, axes: int) -> tuple[Any, float]:
    """Taps for one axis of several, and the factor that they leave to a later axis or the end.

    Two taps of one size become 1 or -1, which the kernel need not multiply by: sums and
    differences, and one scaling at the end. That is a third of the work of Haar in three
    dimensions. Longer filters would gain little, and over one axis the product after
    the sum would round more than the two before it.
    """
    even = len(taps) == 2 and isinstance(taps, tuple) and abs(taps[0]) == abs(taps[1]) > 0
    if even and axes > 1:
        size = abs(taps[0])
        return (taps[0] / size, taps[1] / size), scale * size
    if scale == 1:
        return taps, 1.0
    return (taps * scale if isinstance(taps, Tensor) else tuple(t * scale for t in taps)), 1.0


def analyse_adjoint(bands: Bands, axes: Axes, shape: Sequence[int], kernel: Any) -> Tensor:
    """The adjoint of `analyse` on data of this ``shape``: gradients of all bands -> of the data."""
    for i in reversed(inner_first(axes)):
        dim, wavelet, mode = axes[i]
        like = next(iter(bands.values()))
        filters = wavelet.filters(like, decompose=True)
        bands = {
            key: kernel.analysis_adjoint(*halves, *filters, mode, dim % like.ndim, shape[dim])
            for key, halves in _pairs(bands, i)
        }
    return bands[" " * len(axes)]


def synthesise(bands: Bands, axes: Axes, kernel: Any) -> Tensor:
    """The inverse of `analyse`; missing bands are zeros."""
    for i in reversed(inner_first(axes)):
        dim, wavelet, mode = axes[i]
        like = next(iter(bands.values()))
        filters = wavelet.filters(like, decompose=False)
        bands = {
            key: kernel.synthesis(*halves, *filters, mode, dim % like.ndim)
            for key, halves in _pairs(bands, i)
        }
    return bands[" " * len(axes)]


def synthesise_adjoint(g: Tensor, axes: Axes, kernel: Any) -> Bands:
    """The adjoint of `synthesise`: the gradient of the data -> of all 2^d bands."""
    bands = {" " * len(axes): g}
    for i in inner_first(axes):
        dim, wavelet, mode = axes[i]
        filters = wavelet.filters(g, decompose=False)
        halves: Bands = {}
        for key in list(bands):
            low, high = kernel.synthesis_adjoint(bands.pop(key), *filters, mode, dim % g.ndim)
            halves.update(((_put(key, i, "a"), low), (_put(key, i, "d"), high)))
        bands = halves
    return bands


def _put(key: str, i: int, letter: str) -> str:
    return key[:i] + letter + key[i + 1 :]


def _pairs(bands: Bands, i: int) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    """The (low, high) bands that merge along axis number i; zeros for one that is missing."""
    for key in dict.fromkeys(_put(key, i, " ") for key in bands):
        low, high = bands.pop(_put(key, i, "a"), None), bands.pop(_put(key, i, "d"), None)
        if low is None:
            assert high is not None
            low = torch.zeros_like(high)
        yield key, (low, torch.zeros_like(low) if high is None else high)
