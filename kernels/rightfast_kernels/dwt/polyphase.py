"""The step of reference.py and its adjoint, on contiguous polyphase parts. Not differentiable
by itself: linear.py gives the pair its derivatives.

A filter with F taps and stride 2 reads its (extended) input e as two phases, e[2i] and e[2i+1].
Split once, every tap of the convolution is one multiply-add over a long contiguous run, which
the CPU vectorises; taps on stride-2 slices are not vectorised, and a convolution call with one
input channel is several times slower than either. Two primitives do everything:

    correlate   band[o] = sum_t taps[t] e[2o + t]          L samples from 2L + F - 2
    scatter     e[i]    = sum_k taps[i - 2k] band[k]       2L + F - 2 samples from L, its adjoint

    analysis  = correlate . extend                  its adjoint = fold . scatter
    synthesis = fold . scatter                      its adjoint = correlate . extend

where a synthesis step "folds" by cropping (or periodically, in periodization). Tensors are
(rows, length, inner) here, the transformed axis in the middle. A tap of exactly 0 is skipped.
"""

from collections.abc import Iterator, Sequence

from torch import Tensor

from rightfast_kernels.dwt import phases
from rightfast_kernels.dwt.extension import fold, fold_strips, schedule
from rightfast_kernels.dwt.reference import borders, coeff_len

Taps = Sequence[float]

# Samples per block, a compromise: the block, its phases and its bands in the caches, few calls.
BLOCK = 1 << 19


def analysis(x: Tensor, dec_lo: Taps, dec_hi: Taps, mode: str, dim: int) -> tuple[Tensor, Tensor]:
    """`reference.analysis`, for float taps."""
    taps, n = len(dec_lo), x.shape[dim]
    length = coeff_len(n, taps, mode)
    sides = borders(n, taps, mode)
    return _correlated(x, (dec_lo[::-1], dec_hi[::-1]), *sides, length, mode, dim)


def analysis_adjoint(
    lo: Tensor, hi: Tensor, dec_lo: Taps, dec_hi: Taps, mode: str, dim: int, n: int
) -> Tensor:
    """The adjoint of `analysis`: gradients of the bands -> gradient of the n samples."""
    before, after = borders(n, len(dec_lo), mode)
    return _scattered((lo, hi), (dec_lo[::-1], dec_hi[::-1]), before, n, after, mode, dim)


def synthesis(lo: Tensor, hi: Tensor, rec_lo: Taps, rec_hi: Taps, mode: str, dim: int) -> Tensor:
    """`reference.synthesis`, for float taps."""
    side, how = _synthesis_border(len(rec_lo), mode)
    n = 2 * lo.shape[dim] + len(rec_lo) - 2 - 2 * side
    return _scattered((lo, hi), (rec_lo, rec_hi), side, n, side, how, dim)


def synthesis_adjoint(
    g: Tensor, rec_lo: Taps, rec_hi: Taps, mode: str, dim: int
) -> tuple[Tensor, Tensor]:
    """The adjoint of `synthesis`: gradient of the samples -> gradients of the bands."""
    side, how = _synthesis_border(len(rec_lo), mode)
    length = (g.shape[dim] + 2 * side - len(rec_lo) + 2) // 2
    return _correlated(g, (rec_lo, rec_hi), side, side, length, how, dim)


def _synthesis_border(taps: int, mode: str) -> tuple[int, str]:
    return (taps // 2 - 1, "periodic") if mode == "periodization" else (taps - 2, "zero")


def _correlated(
    x: Tensor, taps: Sequence[Taps], before: int, after: int, length: int, mode: str, dim: int
) -> tuple[Tensor, Tensor]:
    shape = [*x.shape[:dim], length, *x.shape[dim + 1 :]]
    lo, hi = x.new_empty(shape), x.new_empty(shape)
    for x3, lo3, hi3 in _blocks([x, lo, hi], dim):
        parts = phases.split(x3, before, after, mode, len(taps[0]))
        for out, filter_ in ((lo3, taps[0]), (hi3, taps[1])):
            _correlate(parts, filter_, out)
    return lo, hi


def _scattered(
    bands: Sequence[Tensor],
    taps: Sequence[Taps],
    before: int,
    n: int,
    after: int,
    mode: str,
    dim: int,
) -> Tensor:
    like = bands[0]
    out = like.new_empty([*like.shape[:dim], n, *like.shape[dim + 1 :]])
    for lo3, hi3, out3 in _blocks([*bands, out], dim):
        if mode == "zero" or not (before or after):
            _scatter_crop((lo3, hi3), taps, before, out3)
        else:
            _scatter_fold((lo3, hi3), taps, before, after, mode, out3)
    return out


def _blocks(tensors: Sequence[Tensor], dim: int) -> Iterator[list[Tensor]]:
    """The tensors as (rows, length, inner), in blocks of rows, or of inner for a single row."""
    shape = tensors[0].shape
    rows, inner = _product(shape[:dim]), _product(shape[dim + 1 :])
    whole = [t.reshape(rows, t.shape[dim], inner) for t in tensors]
    count = -(-max(t.numel() for t in tensors) // BLOCK)
    if count <= 1:
        yield whole
        return
    axis, size = (0, rows) if rows > 1 else (2, inner)
    step = max(1 if axis == 0 else 64, -(-size // count))
    for start in range(0, size, step):
        yield [t.narrow(axis, start, min(step, size - start)) for t in whole]


def _product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def _correlate(parts: Sequence[Tensor], taps: Taps, out: Tensor) -> None:
    length = out.shape[1]
    terms = []
    for t, tap in enumerate(taps):
        if tap != 0:
            part = parts[t % 2]
            whole = part.shape[1] == length
            terms.append((part if whole else part.narrow(1, t // 2, length), tap))
    phases.weighted(terms, out)


def _scatter(
    bands: Sequence[Tensor], taps: Sequence[Taps], p: int, first: int, out: Tensor
) -> None:
    """out[q] = e[2 (first + q) + p], e as in the head of this file, summed over the bands."""
    length, count, empty = bands[0].shape[1], out.shape[1], True
    for band, filter_ in zip(bands, taps, strict=True):
        for m, tap in enumerate(filter_[p::2]):
            start, stop = max(first, m), min(first + count, m + length)
            if tap == 0 or start >= stop:
                continue
            width = stop - start
            source = band if width == length else band.narrow(1, start - m, width)
            target = out if width == count else out.narrow(1, start - first, width)
            if empty and width == count:
                phases.weighted([(source, tap)], out)
            else:
                if empty:
                    out.zero_()
                target.add_(source, alpha=tap)
            empty = False
    if empty:
        out.zero_()


def _scatter_crop(bands: Sequence[Tensor], taps: Sequence[Taps], before: int, out: Tensor) -> None:
    """out = e without its first ``before`` samples and what is past the end of out."""
    rows, n, inner = out.shape
    in_place = phases.strides_are_cheap(out, len(taps[0]))
    parts = []
    for j in (0, 1):  # out[j::2] is phase (before + j) % 2
        count, first = (n + 1 - j) // 2, (before + j) // 2
        part = out[:, j::2] if in_place else out.new_empty((rows, count, inner))
        _scatter(bands, taps, (before + j) % 2, first, part)
        parts.append(part)
    if not in_place:
        phases.weave(parts, 0, out)


def _scatter_fold(
    bands: Sequence[Tensor],
    taps: Sequence[Taps],
    before: int,
    after: int,
    mode: str,
    out: Tensor,
) -> None:
    """out = the fold of e: what lies outside is added where the extension had read it."""
    rows, n, inner = out.shape
    count = bands[0].shape[1] + len(taps[0]) // 2 - 1
    parts = [out.new_empty((rows, count, inner)) for _ in (0, 1)]
    for p in (0, 1):
        _scatter(bands, taps, p, 0, parts[p])
    if mode == "periodization" or len(schedule(n, before, after, mode)) > 1:
        e = out.new_empty((rows, before + n + after, inner))
        phases.weave(parts, 0, e)
        out.copy_(fold(e, before, n, mode, 1))
        return
    left, right = (out.new_empty((rows, width, inner)) for width in (before, after))
    phases.weave(parts, before, out)
    phases.weave(parts, 0, left)
    phases.weave(parts, before + n, right)
    fold_strips(out, left, right, mode, 1)
