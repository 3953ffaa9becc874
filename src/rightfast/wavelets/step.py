"""One level over some axes, and its adjoint, on checked arguments.

Dimensions are counted from the end (-1 is the last), so that vmap may add some in front. The
functions take the kernel as an argument: a module with `analysis` and `synthesis`, and the two
adjoints where those are asked for.
"""

from collections.abc import Sequence
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


def analyse(x: Tensor, axes: Axes, kernel: Any) -> Bands:
    """One level over ``axes``, the first one first: the 2^d bands by key, "aa...a" to "dd...d"."""
    bands = {"": x}
    for dim, wavelet, mode in axes:
        filters = wavelet.filters(x, decompose=True)
        halves: Bands = {}
        for key, band in bands.items():
            halves[key + "a"], halves[key + "d"] = kernel.analysis(
                band, *filters, mode, dim % x.ndim
            )
        bands = halves
    return bands


def analyse_adjoint(bands: Bands, axes: Axes, shape: Sequence[int], kernel: Any) -> Tensor:
    """The adjoint of `analyse` on data of this ``shape``: gradients of all bands -> of the data."""
    for dim, wavelet, mode in reversed(axes):
        ndim, n = next(iter(bands.values())).ndim, shape[dim]
        filters = wavelet.filters(next(iter(bands.values())), decompose=True)
        bands = {
            key: kernel.analysis_adjoint(
                bands[key + "a"], bands[key + "d"], *filters, mode, dim % ndim, n
            )
            for key in _parents(bands)
        }
    return bands[""]


def synthesise(bands: Bands, axes: Axes, kernel: Any) -> Tensor:
    """The inverse of `analyse`, last axis first; missing bands are zeros."""
    for dim, wavelet, mode in reversed(axes):
        like = next(iter(bands.values()))
        filters = wavelet.filters(like, decompose=False)
        merged: Bands = {}
        for key in _parents(bands):
            lo, hi = bands.get(key + "a"), bands.get(key + "d")
            lo = torch.zeros_like(hi) if lo is None and hi is not None else lo
            hi = torch.zeros_like(lo) if hi is None and lo is not None else hi
            merged[key] = kernel.synthesis(lo, hi, *filters, mode, dim % like.ndim)
        bands = merged
    return bands[""]


def synthesise_adjoint(g: Tensor, axes: Axes, kernel: Any) -> Bands:
    """The adjoint of `synthesise`: the gradient of the data -> of all 2^d bands."""
    bands = {"": g}
    for dim, wavelet, mode in axes:
        filters = wavelet.filters(g, decompose=False)
        halves: Bands = {}
        for key, band in bands.items():
            halves[key + "a"], halves[key + "d"] = kernel.synthesis_adjoint(
                band, *filters, mode, dim % g.ndim
            )
        bands = halves
    return bands


def _parents(bands: Bands) -> list[str]:
    """The keys without their last character, each once, in order."""
    return list(dict.fromkeys(key[:-1] for key in bands))
