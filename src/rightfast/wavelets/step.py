"""One level over some axes, on checked arguments: picks the kernel, and filters axis by axis."""

from collections.abc import Sequence

import torch
from rightfast_kernels.dwt import polyphase, reference
from rightfast_kernels.dwt.linear import LinearMap
from torch import Tensor

from rightfast.wavelets.inputs import check_length
from rightfast.wavelets.wavelet import Wavelet

Axes = Sequence[tuple[int, Wavelet, str]]  # (dimension, wavelet, mode)


def _use_reference(wavelet: Wavelet) -> bool:
    """Plain ops when a compiler traces (it fuses them) and when filters may learn."""
    return wavelet.learnable or torch.compiler.is_compiling() or torch.jit.is_tracing()


def analyse_axis(x: Tensor, dim: int, wavelet: Wavelet, mode: str) -> tuple[Tensor, Tensor]:
    """One level along one axis: (low, high)."""
    n = x.shape[dim]
    check_length(n, mode)
    lo, hi = wavelet.filters(x, decompose=True)
    if _use_reference(wavelet):
        return reference.analysis(x, lo, hi, mode, dim)
    if not x.requires_grad:
        return polyphase.analysis(x, lo, hi, mode, dim)
    back = dim - x.ndim  # from the end: vmap adds dimensions in front
    low, high = LinearMap(
        lambda x: polyphase.analysis(x, lo, hi, mode, back % x.ndim),
        lambda a, d: (polyphase.analysis_adjoint(a, d, lo, hi, mode, back % a.ndim, n),),
    )(x)
    return low, high


def synthesise_axis(lo: Tensor, hi: Tensor, dim: int, wavelet: Wavelet, mode: str) -> Tensor:
    """One level back along one axis, from bands of one shape."""
    rec_lo, rec_hi = wavelet.filters(lo, decompose=False)
    length = lo.shape[dim]
    if length < 1 or (mode != "periodization" and 2 * length - wavelet.rec_len + 2 < 1):
        raise ValueError(
            f"Invalid coefficient arrays length {length} for a wavelet of {wavelet.rec_len} taps "
            f"in mode {mode!r}. Wavelet and mode must be the same as used for decomposition."
        )
    if _use_reference(wavelet):
        return reference.synthesis(lo, hi, rec_lo, rec_hi, mode, dim)
    if not (lo.requires_grad or hi.requires_grad):
        return polyphase.synthesis(lo, hi, rec_lo, rec_hi, mode, dim)
    back = dim - lo.ndim
    (x,) = LinearMap(
        lambda a, d: (polyphase.synthesis(a, d, rec_lo, rec_hi, mode, back % a.ndim),),
        lambda g: polyphase.synthesis_adjoint(g, rec_lo, rec_hi, mode, back % g.ndim),
    )(lo, hi)
    return x


def analyse(x: Tensor, axes: Axes) -> dict[str, Tensor]:
    """One level over ``axes``, the first one first: the 2^d bands by key, "aa...a" to "dd...d"."""
    bands = {"": x}
    for dim, wavelet, mode in axes:
        halves = {key: analyse_axis(band, dim, wavelet, mode) for key, band in bands.items()}
        bands = {key + "ad"[i]: half[i] for key, half in halves.items() for i in (0, 1)}
    return bands


def synthesise(bands: dict[str, Tensor | None], axes: Axes) -> Tensor:
    """The inverse of `analyse`, last axis first; None or missing bands are zeros."""
    todo = dict(bands)
    for dim, wavelet, mode in reversed(axes):
        merged: dict[str, Tensor | None] = {}
        for key in dict.fromkeys(key[:-1] for key in todo):
            lo, hi = todo.get(key + "a"), todo.get(key + "d")
            if lo is None and hi is None:
                continue
            lo = torch.zeros_like(hi) if lo is None else lo  # type: ignore[arg-type]
            hi = torch.zeros_like(lo) if hi is None else hi
            merged[key] = synthesise_axis(lo, hi, dim, wavelet, mode)
        todo = merged
    result = todo[""]
    assert result is not None
    return result
