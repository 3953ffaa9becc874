"""The oracle: one analysis and one synthesis step along one axis, as the formulas say.

F is the filter length (even), N the signal length, x~ the extended signal (extension.py).

    analysis    y[o] = sum_j dec[j] x~[2o + 1 - j],                 o < floor((N + F - 1) / 2)
                y[o] = sum_j dec[j] x~[2o + F/2 - j],               o < ceil(N / 2)   periodization
    synthesis   x[n] = sum_k lo[k] rec_lo[n + F - 2 - 2k] + hi[k] rec_hi[n + F - 2 - 2k],
                                                                    n < 2L - F + 2
                the same at 2k + t - (F/2 - 1) modulo 2L,           n < 2L            periodization

Source: S. Mallat, A Wavelet Tour of Signal Processing, ch. 7; the offsets are those that
PyWavelets uses. Filters are sequences of floats or 1-D tensors; a tensor receives gradients.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from rightfast_kernels.dwt.extension import extend

Filter = Sequence[float] | Tensor


def coeff_len(n: int, filter_len: int, mode: str) -> int:
    """Samples per band for n samples: floor((n + F - 1) / 2), or ceil(n / 2)."""
    return (n + 1) // 2 if mode == "periodization" else (n + filter_len - 1) // 2


def borders(n: int, filter_len: int, mode: str) -> tuple[int, int]:
    """How many samples an analysis step needs (before, after) the n of the signal."""
    before = filter_len // 2 - 1 if mode == "periodization" else filter_len - 2
    return before, 2 * coeff_len(n, filter_len, mode) + filter_len - 2 - before - n


def analysis(
    x: Tensor, dec_lo: Filter, dec_hi: Filter, mode: str, dim: int
) -> tuple[Tensor, Tensor]:
    """One level along ``dim`` (non-negative): N samples -> (lo, hi) of `coeff_len` each."""
    taps, n = len(dec_lo), x.shape[dim]
    length = coeff_len(n, taps, mode)
    extended = extend(x, *borders(n, taps, mode), mode, dim)
    windows = [_every_other(extended, k, length, dim) for k in range(taps)]
    return _weighted(windows, _flipped(dec_lo)), _weighted(windows, _flipped(dec_hi))


def synthesis(
    lo: Tensor, hi: Tensor, rec_lo: Filter, rec_hi: Filter, mode: str, dim: int
) -> Tensor:
    """One level back along ``dim``: L samples in each band -> 2L - F + 2 (2L, periodization)."""
    taps, length = len(rec_lo), lo.shape[dim]
    if mode == "periodization":
        lo, hi = (extend(band, taps // 4, taps // 4, "periodic", dim) for band in (lo, hi))
    half = taps // 2
    count = lo.shape[dim] - half + 1
    bands = [band.narrow(dim, half - 1 - m, count) for band in (lo, hi) for m in range(half)]
    phases = [_weighted(bands, [*_phase(rec_lo, p), *_phase(rec_hi, p)]) for p in (0, 1)]
    x = torch.stack(phases, dim + 1).flatten(dim, dim + 1)
    if mode == "periodization":
        x = x.narrow(dim, (half + 1) % 2, 2 * length)
    return x


def _every_other(x: Tensor, start: int, count: int, dim: int) -> Tensor:
    index = [slice(None)] * dim + [slice(start, start + 2 * count - 1, 2)]
    return x[tuple(index)]


def _flipped(taps: Filter) -> Sequence[float] | Sequence[Tensor]:
    return taps.flip(0).unbind() if isinstance(taps, Tensor) else tuple(reversed(taps))


def _phase(taps: Filter, p: int) -> Sequence[float] | Sequence[Tensor]:
    return taps[p::2].unbind() if isinstance(taps, Tensor) else tuple(taps[p::2])


def _weighted(terms: Sequence[Tensor], weights: Sequence[float | Tensor]) -> Tensor:
    """The sum of weights[i] * terms[i]; a float weight of exactly 0 is left out.

    Float weights in order of size: an addition rounds by the size of the sum so far.
    """
    total: Tensor | None = None
    pairs = list(zip(terms, weights, strict=True))
    if not any(isinstance(weight, Tensor) for weight in weights):
        pairs.sort(key=lambda pair: abs(float(pair[1])))
    for term, weight in pairs:
        if isinstance(weight, Tensor) or weight != 0:
            total = term * weight if total is None else total + term * weight
    return torch.zeros_like(terms[0]) if total is None else total
