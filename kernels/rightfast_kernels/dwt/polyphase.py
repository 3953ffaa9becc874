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

where a synthesis step "folds" by cropping (or periodically, in periodization). A tap of exactly
0 is skipped. Small signals go to few_calls.py.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

from torch import Tensor

from rightfast_kernels.dwt import few_calls, phases
from rightfast_kernels.dwt.extension import extend, fold, fold_strips, schedule
from rightfast_kernels.dwt.reference import borders, coeff_len

Taps = tuple[float, ...]
Step = Callable[[list[Tensor], int], list[Tensor]]

# Samples per block of a large signal: what one block makes should stay in the caches, and the
# calls should be few.
BLOCK = 1 << 19


def analysis(x: Tensor, dec_lo: Taps, dec_hi: Taps, mode: str, dim: int) -> tuple[Tensor, Tensor]:
    """`reference.analysis`, for float taps."""
    taps, n = (dec_lo[::-1], dec_hi[::-1]), x.shape[dim]
    before, after = borders(n, len(dec_lo), mode)
    length = coeff_len(n, len(dec_lo), mode)

    def step(block: list[Tensor], d: int) -> list[Tensor]:
        return _correlated(block[0], taps, before, after, mode, d)

    lo, hi = _blockwise(step, [x], [length, length], dim)
    return lo, hi


def analysis_adjoint(
    lo: Tensor, hi: Tensor, dec_lo: Taps, dec_hi: Taps, mode: str, dim: int, n: int
) -> Tensor:
    """The adjoint of `analysis`: gradients of the bands -> gradient of the n samples."""
    taps = (dec_lo[::-1], dec_hi[::-1])
    before, after = borders(n, len(dec_lo), mode)

    def step(block: list[Tensor], d: int) -> list[Tensor]:
        return [_scattered(block, taps, before, n, after, mode, d)]

    return _blockwise(step, [lo, hi], [n], dim)[0]


def synthesis(lo: Tensor, hi: Tensor, rec_lo: Taps, rec_hi: Taps, mode: str, dim: int) -> Tensor:
    """`reference.synthesis`, for float taps."""
    side, how = _synthesis_border(len(rec_lo), mode)
    n = 2 * lo.shape[dim] + len(rec_lo) - 2 - 2 * side

    def step(block: list[Tensor], d: int) -> list[Tensor]:
        return [_scattered(block, (rec_lo, rec_hi), side, n, side, how, d)]

    return _blockwise(step, [lo, hi], [n], dim)[0]


def synthesis_adjoint(
    g: Tensor, rec_lo: Taps, rec_hi: Taps, mode: str, dim: int
) -> tuple[Tensor, Tensor]:
    """The adjoint of `synthesis`: gradient of the samples -> gradients of the bands."""
    side, how = _synthesis_border(len(rec_lo), mode)
    length = (g.shape[dim] + 2 * side - len(rec_lo) + 2) // 2

    def step(block: list[Tensor], d: int) -> list[Tensor]:
        return _correlated(block[0], (rec_lo, rec_hi), side, side, how, d)

    lo, hi = _blockwise(step, [g], [length, length], dim)
    return lo, hi


def _synthesis_border(taps: int, mode: str) -> tuple[int, str]:
    return (taps // 2 - 1, "periodic") if mode == "periodization" else (taps - 2, "zero")


def _blockwise(step: Step, inputs: list[Tensor], lengths: list[int], dim: int) -> list[Tensor]:
    """``step(inputs, dim)``; of a large signal block by block, into outputs of these lengths."""
    blocks = -(-max(x.numel() for x in inputs) // BLOCK)
    if blocks <= 1:
        return step(inputs, dim)
    before, after = inputs[0].shape[:dim], inputs[0].shape[dim + 1 :]
    outputs = [inputs[0].new_empty((*before, length, *after)) for length in lengths]
    rows, inner = before.numel(), after.numel()
    sources, targets = (
        [t.reshape(rows, t.shape[dim], inner) for t in some] for some in (inputs, outputs)
    )
    # By rows, or by runs of at least a few cache lines.
    axis, size, least = (0, rows, 1) if rows >= blocks or inner < 64 else (2, inner, 64)
    width = max(least, -(-size // blocks))
    for start in range(0, size, width):
        count = min(width, size - start)
        results = step([t.narrow(axis, start, count) for t in sources], 1)
        for target, result in zip(targets, results, strict=True):
            target.narrow(axis, start, count).copy_(result)
    return outputs


def _correlated(
    x: Tensor, taps: tuple[Taps, Taps], before: int, after: int, mode: str, dim: int
) -> list[Tensor]:
    if few_calls.suits([x], taps):
        return few_calls.correlate(x, taps, before, after, mode, dim)
    e = extend(x, before, after, mode, dim)
    length = (e.shape[dim] - len(taps[0]) + 2) // 2
    parts = phases.split(e, len(taps[0]), dim)
    found = []
    for filter_ in taps:
        terms = []
        for t, tap in _smallest_first(filter_):
            part = parts[t % 2]
            whole = part.shape[dim] == length
            terms.append((part if whole else part.narrow(dim, t // 2, length), tap))
        found.append(phases.weighted(terms or [(parts[0].narrow(dim, 0, length), 0.0)]))
    return found


@lru_cache(maxsize=1024)
def _smallest_first(filter_: Taps) -> list[tuple[int, float]]:
    """(place, tap) of the taps that are not 0. An addition rounds by the size of the sum so far,
    so the large taps come last: half the error of the order in which they stand. Of equals the
    positive one goes first: the 1 of Haar's pair (1, -1) takes no multiplication there."""
    taps = [(t, tap) for t, tap in enumerate(filter_) if tap != 0]
    return sorted(taps, key=lambda item: (abs(item[1]), item[1] < 0))


def _scattered(
    bands: Sequence[Tensor],
    taps: tuple[Taps, Taps],
    before: int,
    n: int,
    after: int,
    mode: str,
    dim: int,
) -> Tensor:
    like = bands[0]
    if few_calls.suits(bands, taps):
        return few_calls.scatter(bands, taps, before, n, after, mode, dim)
    out = like.new_empty((*like.shape[:dim], n, *like.shape[dim + 1 :]))
    if mode == "zero" or not (before or after):
        _scatter_crop(bands, taps, before, out, dim)
    else:
        _scatter_fold(bands, taps, before, after, mode, out, dim)
    return out


def _scatter(
    bands: Sequence[Tensor], taps: Sequence[Taps], p: int, first: int, out: Tensor, dim: int
) -> None:
    """out[q] = e[2 (first + q) + p], e as in the head of this file, summed over the bands."""
    if len(bands) > 1 and len(taps[0]) > 2:
        # Each band in a sum of its own: a fifth less rounding error than one running sum.
        rest = out.new_empty(out.shape)
        _scatter(bands[:1], taps[:1], p, first, out, dim)
        _scatter(bands[1:], taps[1:], p, first, rest, dim)
        out.add_(rest)
        return
    length, count, empty = bands[0].shape[dim], out.shape[dim], True
    for band, filter_ in zip(bands, taps, strict=True):
        for m, tap in _smallest_first(filter_[p::2]):
            start, stop = max(first, m), min(first + count, m + length)
            if start >= stop:
                continue
            width = stop - start
            source = band if width == length else band.narrow(dim, start - m, width)
            target = out if width == count else out.narrow(dim, start - first, width)
            if empty and width == count:
                phases.scale(source, tap, out)
            else:
                if empty:
                    out.zero_()
                target.add_(source, alpha=tap)
            empty = False
    if empty:
        out.zero_()


def _scatter_crop(
    bands: Sequence[Tensor], taps: Sequence[Taps], before: int, out: Tensor, dim: int
) -> None:
    """out = e without its first ``before`` samples and what is past the end of out."""
    in_place = phases.strides_are_cheap(out, len(taps[0]), dim)
    parts = []
    for j in (0, 1):  # out[j::2] is phase (before + j) % 2
        part = phases.every_other(out, j, dim)
        part = part if in_place else part.new_empty(part.shape)
        _scatter(bands, taps, (before + j) % 2, (before + j) // 2, part, dim)
        parts.append(part)
    if not in_place:
        phases.weave(parts, 0, out, dim)


def _scatter_fold(
    bands: Sequence[Tensor],
    taps: Sequence[Taps],
    before: int,
    after: int,
    mode: str,
    out: Tensor,
    dim: int,
) -> None:
    """out = the fold of e: what lies outside is added where the extension had read it."""
    n = out.shape[dim]

    def piece(size: int) -> Tensor:
        return out.new_empty((*out.shape[:dim], size, *out.shape[dim + 1 :]))

    parts = [piece(bands[0].shape[dim] + len(taps[0]) // 2 - 1) for _ in (0, 1)]
    for p in (0, 1):
        _scatter(bands, taps, p, 0, parts[p], dim)
    if mode == "periodization" or len(schedule(n, before, after, mode)) > 1:
        e = piece(before + n + after)
        phases.weave(parts, 0, e, dim)
        out.copy_(fold(e, before, n, mode, dim))
        return
    left, right = piece(before), piece(after)
    phases.weave(parts, before, out, dim)
    phases.weave(parts, 0, left, dim)
    phases.weave(parts, before + n, right, dim)
    fold_strips(out, left, right, mode, dim)
