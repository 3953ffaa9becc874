"""The step of reference.py and its adjoint, on contiguous polyphase parts. Not differentiable
by itself: linear.py wraps each pair.

A filter with F taps and stride 2 reads its (extended) input e as two phases, e[2i] and e[2i+1].
Split once, every tap of the convolution is one multiply-add over a long contiguous run, which
the CPU vectorises; taps on stride-2 slices are not vectorised, and a convolution call with one
input channel is several times slower than either. Two primitives do everything:

    correlate   band[o] = sum_t taps[t] e[2o + t]       e has 2L + F - 2 samples, the band L
    weave       e[i]    = sum_k taps[i + F - 2 - 2k] band[k],   summed over bands; 2L - F + 2

Each is the other's adjoint up to zero padding, so

    analysis  = correlate . extend          its adjoint = fold . weave . pad
    synthesis = weave                       its adjoint = correlate . pad

(periodization extends the bands periodically first). Tensors are (rows, length, inner) here,
the transformed axis in the middle. A tap of exactly 0 is skipped.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from rightfast_kernels.dwt.extension import extend, fold, fold_strips, schedule, strips
from rightfast_kernels.dwt.reference import borders, coeff_len

Taps = Sequence[float]


def analysis(x: Tensor, dec_lo: Taps, dec_hi: Taps, mode: str, dim: int) -> tuple[Tensor, Tensor]:
    """`reference.analysis`, for float taps."""
    taps, n = len(dec_lo), x.shape[dim]
    phases = _phases(_as3(x, dim), *borders(n, taps, mode), mode)
    length = coeff_len(n, taps, mode)
    lo, hi = (_correlate(phases, t[::-1], length) for t in (dec_lo, dec_hi))
    return _back(lo, x, dim), _back(hi, x, dim)


def analysis_adjoint(
    lo: Tensor, hi: Tensor, dec_lo: Taps, dec_hi: Taps, mode: str, dim: int, n: int
) -> Tensor:
    """The adjoint of `analysis`: gradients of the bands -> gradient of the n samples."""
    taps = len(dec_lo)
    before, after = borders(n, taps, mode)
    phases = _scatter((_as3(lo, dim), _as3(hi, dim)), (dec_lo[::-1], dec_hi[::-1]))
    return _back(_folded(phases, before, n, after, mode), lo, dim)


def synthesis(lo: Tensor, hi: Tensor, rec_lo: Taps, rec_hi: Taps, mode: str, dim: int) -> Tensor:
    """`reference.synthesis`, for float taps."""
    taps, length = len(rec_lo), lo.shape[dim]
    bands = (_as3(lo, dim), _as3(hi, dim))
    phases = _scatter(bands, (rec_lo, rec_hi))
    if mode == "periodization":
        side = taps // 2 - 1
        out = _folded(phases, side, 2 * length, side, "periodic")
    else:
        out = _folded(phases, taps - 2, 2 * length - taps + 2, taps - 2, "zero")
    return _back(out, lo, dim)


def synthesis_adjoint(
    g: Tensor, rec_lo: Taps, rec_hi: Taps, mode: str, dim: int
) -> tuple[Tensor, Tensor]:
    """The adjoint of `synthesis`: gradient of the samples -> gradients of the bands."""
    taps, n = len(rec_lo), g.shape[dim]
    side, mode = (taps // 2 - 1, "periodic") if mode == "periodization" else (taps - 2, "zero")
    phases = _phases(_as3(g, dim), side, side, mode)
    length = (n + 2 * side - taps + 2) // 2
    lo, hi = (_correlate(phases, t, length) for t in (rec_lo, rec_hi))
    return _back(lo, g, dim), _back(hi, g, dim)


def _as3(x: Tensor, dim: int) -> Tensor:
    """(..., n, ...) -> (rows, n, inner); a view wherever the strides allow one."""
    shape = x.shape
    return x.reshape(_product(shape[:dim]), shape[dim], _product(shape[dim + 1 :]))


def _back(y: Tensor, like: Tensor, dim: int) -> Tensor:
    return y.view([*like.shape[:dim], y.shape[1], *like.shape[dim + 1 :]])


def _product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def _phases(x: Tensor, before: int, after: int, mode: str) -> list[Tensor]:
    """The even and the odd samples of the extended x, each contiguous."""
    n = x.shape[1]
    if mode == "periodization" or len(schedule(n, before, after, mode)) > 1:
        x, before, after = extend(x, before, after, mode, 1), 0, 0
        n = x.shape[1]
    left, right = strips(x, before, after, mode, 1)
    phases = []
    for p in (0, 1):
        # The first sample of phase p in each part, by its place in the whole.
        parts = ((left, p), (x, (p - before) % 2), (right, (p - before - n) % 2))
        phases.append(torch.cat([t[:, s::2] for t, s in parts if t is not None], 1))
    return phases


def _correlate(phases: Sequence[Tensor], taps: Taps, length: int) -> Tensor:
    total: Tensor | None = None
    for t, tap in enumerate(taps):
        if tap == 0:
            continue
        window = phases[t % 2].narrow(1, t // 2, length)
        total = window * tap if total is None else total.add_(window, alpha=tap)
    return torch.zeros_like(phases[0].narrow(1, 0, length)) if total is None else total


def _scatter(bands: Sequence[Tensor], taps: Sequence[Taps]) -> list[Tensor]:
    """The phases of e[i] = sum_k taps[i - 2k] band[k], i < 2L + F - 2, summed over the bands."""
    rows, length, inner = bands[0].shape
    count = length + len(taps[0]) // 2 - 1
    phases = []
    for p in (0, 1):
        phase = bands[0].new_zeros((rows, count, inner))
        for band, filter_ in zip(bands, taps, strict=True):
            for m, tap in enumerate(filter_[p::2]):
                if tap != 0:
                    phase.narrow(1, m, length).add_(band, alpha=tap)
        phases.append(phase)
    return phases


def _folded(phases: Sequence[Tensor], before: int, n: int, after: int, mode: str) -> Tensor:
    """Interleaves the phases of before + n + after samples and folds the borders back into n."""
    rows, _, inner = phases[0].shape
    rounds = schedule(n, before, after, mode) if mode != "periodization" else [(0, 0)] * 2
    if len(rounds) > 1:
        return fold(_woven(phases, 0, before + n + after), before, n, mode, 1)
    middle = _woven(phases, before, n)
    if mode != "zero" and rounds:
        left, right = _woven(phases, 0, before), _woven(phases, before + n, after)
        fold_strips(middle, left, right, mode, 1)
    return middle


def _woven(phases: Sequence[Tensor], start: int, count: int) -> Tensor:
    """Samples start .. start + count - 1 of the signal whose phases these are."""
    rows, _, inner = phases[0].shape
    out = phases[0].new_empty((rows, count, inner))
    for p in (0, 1):
        first = (p - start) % 2
        here = out[:, first::2]
        here.copy_(phases[p].narrow(1, (start + first) // 2, here.shape[1]))
    return out
