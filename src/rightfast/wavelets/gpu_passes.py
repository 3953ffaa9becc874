"""One pass of a level on a GPU: along one axis, or along the last two at once."""

from collections.abc import Sequence
from functools import lru_cache
from math import gcd
from typing import Any

import torch
import triton.language as tl
from rightfast_kernels.dwt import fold_triton, line_triton, plane_triton, plane_up_triton
from rightfast_kernels.dwt.transforms import Axis
from torch import Tensor

from rightfast.runtime import cdiv, launchable
from rightfast.wavelets.gpu_cuts import cut_for
from rightfast.wavelets.gpu_recipe import Tape

ZERO, SYMMETRIC, PERIODIC, PERIODIZATION, REFLECT, ANTISYMMETRIC = 0, 1, 4, 5, 6, 7
ONCE = (SYMMETRIC, PERIODIC, REFLECT, ANTISYMMETRIC)  # a sample stands for one missing at each end
Parts = Sequence[Tensor | None]

LINE_BLOCK = 256
MOST_TAPS = 12  # of which a thread computes two coefficients at a time
MOST_LINES = 4  # tensors in one launch along an axis


def lines_down(
    tape: Tape, xs: Sequence[Tensor], lows: Parts, highs: Parts, axis: Axis, length: int
) -> None:
    """Both bands of up to MOST_LINES tensors of one shape, along one axis."""
    x = xs[0]
    n, (outer, inner) = x.shape[axis.dim], _lines(x, axis.dim)
    launch = launch_of(
        line_triton.line_down_kernel,
        LOW=_sorted(axis.lo),
        HIGH=_sorted(axis.hi),
        TAPS=len(axis.lo),
        MODE=axis.mode,
        COUNT=len(xs),
        **_line_meta(x, n, length, inner, axis),
    )
    blocks = cdiv(length * inner, launch.fixed["BLOCK"])
    programs, tensors = blocks * outer, [*_four(xs), *_four(lows), *_four(highs)]
    numbers = (n, length, inner, axis.before, blocks, programs)
    tape.launch(launch, programs * len(xs), tensors, *numbers)


def lines_up(
    tape: Tape, lows: Parts, highs: Parts, xs: Sequence[Tensor], axis: Axis, length: int
) -> None:
    """Up to MOST_LINES signals from both bands along one axis; either bands are None for all of
    them, which are zeros."""
    x = xs[0]
    n, (outer, inner) = x.shape[axis.dim], _lines(x, axis.dim)
    launch = launch_of(
        line_triton.line_up_kernel,
        **_phases(axis),
        HAS_LOW=lows[0] is not None,
        HAS_HIGH=highs[0] is not None,
        MODE=axis.mode,
        ONCE=reads_once(axis, n),
        COUNT=len(xs),
        **_line_meta(x, length, n, inner, axis, n),
    )
    blocks = cdiv(n * inner, launch.fixed["BLOCK"])
    programs = blocks * outer
    tensors = [*_given(_four(lows), x), *_given(_four(highs), x), *_four(xs)]
    numbers = (n, length, inner, axis.before, _after(axis, n, length), blocks, programs)
    tape.launch(launch, programs * len(xs), tensors, *numbers)


def plane_down(
    tape: Tape, x: Tensor, parts: Sequence[Tensor], axes: Sequence[Axis], lengths: Sequence[int]
) -> None:
    """All four bands along the last two axes."""
    first, second = axes
    l1, l2 = lengths
    n1, n2 = x.shape[-2:]
    pitch, low = _pitch(x), _pitch(parts[0])
    cut = cut_for(x, second, True, tape.cut)
    each = _each(x, second, gcd(l2, low) % 2 == 0)
    margin = cut.margin * 4 // parts[-1].itemsize
    step = 32 * each - margin
    launch = launch_of(
        plane_triton.plane_down_kernel,
        LOW1=_sorted(first.lo),
        HIGH1=_sorted(first.hi),
        TAPS1=len(first.lo),
        MODE1=first.mode,
        SHORT1=n1 < len(first.lo),
        LOW2=_sorted(second.lo),
        HIGH2=_sorted(second.hi),
        TAPS2=len(second.lo),
        MODE2=second.mode,
        SHORT2=n2 < len(second.lo),
        BEFORE2=second.before,
        WIDTH=gcd(pitch, 2 * each),
        EACH=each,
        WHOLE=each > 1,
        ACC=_acc(x),
        WIDE=n1 * pitch >= 1 << 30,
        STEP=step,
        MARGIN=margin,
        BATCH=cut.batch,
        AHEAD=cut.ahead if x.is_cuda else 0,
        num_warps=1,
    )
    tiles = cdiv(l1, cut.rows), cdiv(l2 + margin - 1, step)
    numbers = (n1, n2, l1, l2, pitch, low, first.before, *tiles, cut.rows)
    blocks = tiles[0] * tiles[1] * (x.numel() // (n1 * n2))
    tape.launch(launch, blocks, [x, *parts], *numbers)


def plane_up(
    tape: Tape,
    parts: Parts,
    x: Tensor,
    axes: Sequence[Axis],
    lengths: Sequence[int],
    repeats: Sequence[bool],
) -> None:
    """The signal from four bands along the last two axes, which repeat, or end in zeros; bands
    that are None are zeros."""
    first, second = axes
    l1, l2 = lengths
    n1, n2 = x.shape[-2:]
    pitch, low = _pitch(x), l2 if parts[0] is None else _pitch(parts[0])
    even = second.before % 2 == 0
    cut = cut_for(x, second, False, tape.cut)
    each = _each(x, second, even and pitch % 4 == 0)
    launch = launch_of(
        plane_up_triton.plane_up_kernel,
        **_phases(first, "1"),
        HALF1=len(first.lo) // 2,
        MODE1=PERIODIC if repeats[0] else ZERO,
        SHORT1=l1 < len(first.lo),
        **_phases(second, "2"),
        HALF2=len(second.lo) // 2,
        MODE2=PERIODIC if repeats[1] else ZERO,
        SHORT2=l2 < len(second.lo),
        BEFORE2=second.before,
        **{f"HAS_{k}": p is not None for k, p in zip(("AA", "AD", "DA", "DD"), parts, strict=True)},
        WIDTH=gcd(l2, low, each),
        EACH=each,
        WHOLE=even and pitch % (2 * each) == 0,
        ACC=_acc(x),
        WIDE=n1 * pitch >= 1 << 30,
        COLUMNS=32 * each,
        BATCH=cut.batch,
        num_warps=1,
    )
    pairs1 = (n1 + first.before + 1) // 2 - first.before // 2
    tiles = cdiv(pairs1, cut.rows), cdiv((n2 + second.before % 2 + 1) // 2, 32 * each)
    numbers = (n1, n2, l1, l2, pitch, low, first.before, *tiles, cut.rows)
    blocks = tiles[0] * tiles[1] * (x.numel() // (n1 * n2))
    tape.launch(launch, blocks, [*_given(parts, x), x], *numbers)


def plane_fold(
    tape: Tape, parts: Parts, x: Tensor, axes: Sequence[Axis], lengths: Sequence[int]
) -> None:
    """Adds what lies past the ends of the last two axes to a signal by `plane_up` in mode zero."""
    n1, n2 = x.shape[-2:]
    meta: dict[str, Any] = {}
    numbers = [n1, n2, *lengths]
    for number, axis, n, length in zip("12", axes, (n1, n2), lengths, strict=True):
        meta |= {f"LOW{number}": axis.lo, f"HIGH{number}": axis.hi, f"MODE{number}": axis.mode}
        meta[f"HALF{number}"] = len(axis.lo) // 2
        numbers += [axis.before, _after(axis, n, length), near(axis, n, length)]
    near1, near2 = near(axes[0], n1, lengths[0]), near(axes[1], n2, lengths[1])
    count = 2 * near1 * n2 + (n1 - 2 * near1) * 2 * near2
    launch = launch_of(fold_triton.plane_fold_kernel, **meta, ACC=_acc(x), BLOCK=64, num_warps=2)
    blocks, planes = cdiv(count, 64), x.numel() // (n1 * n2)
    tape.launch(launch, blocks * planes, [*parts, x], *numbers, count, blocks)


def reads_once(axis: Axis, n: int) -> bool:
    """Whether each sample is read at most once in front of the signal, and once behind it."""
    even = axis.mode == PERIODIZATION and n % 2 == 0
    return n >= len(axis.lo) and (axis.mode in ONCE or even)


def near(axis: Axis, n: int, length: int) -> int:
    """How many samples at either end may be read past the ends, too."""
    return 0 if axis.mode == ZERO else max(axis.before, _after(axis, n, length)) + 1


def _after(axis: Axis, n: int, length: int) -> int:
    """How many samples behind the last one are read."""
    return max(0, 2 * length + len(axis.lo) - 2 - axis.before - n)


def _lines(x: Tensor, dim: int) -> tuple[int, int]:
    """(outer, inner): how many lines there are behind one another, and side by side."""
    outer, inner = x.shape[: x.ndim + dim].numel(), x.shape[x.ndim + dim + 1 :].numel()
    return outer, inner


def _line_meta(
    x: Tensor, n: int, count: int, inner: int, axis: Axis, samples: int | None = None
) -> dict[str, Any]:
    """What both kernels along lines have; ``count`` results a line."""
    block = min(LINE_BLOCK, max(32, 1 << (count * inner - 1).bit_length()))
    return {
        "SHORT": (n if samples is None else samples) < len(axis.lo),
        "WIDE": max(n, count) * inner >= 1 << 30,
        "ACC": _acc(x),
        "BLOCK": block,
        "num_warps": max(1, block // 64),
    }


def _four(tensors: Parts) -> Parts:
    """The tensors, and the first of them where a kernel takes more."""
    return [*tensors, *[tensors[0]] * (MOST_LINES - len(tensors))]


def _given(parts: Parts, x: Tensor) -> list[Tensor]:
    """The bands; where one is not there, some tensor that is not read."""
    return [x if part is None else part for part in parts]


@lru_cache(maxsize=4096)
def _sorted(taps: tuple[float, ...]) -> tuple[tuple[int, float], ...]:
    """(place, tap), the smallest first, without zeros."""
    pairs = [(place, tap) for place, tap in enumerate(taps) if tap != 0]
    return tuple(sorted(pairs, key=lambda pair: abs(pair[1])))


def _phases(axis: Axis, number: str = "") -> dict[str, Any]:
    """The same of both filters, those of even places apart from those of odd ones."""
    return {
        f"{name}{number}{letter}": tuple(pair for pair in _sorted(taps) if pair[0] % 2 == parity)
        for name, taps in (("LOW", axis.lo), ("HIGH", axis.hi))
        for parity, letter in enumerate("EO")
    }


def _pitch(x: Tensor) -> int:
    """From one row to the next: more than its length where rows are padded."""
    return x.shape[-1] if x.is_contiguous() else x.stride(-2)


def _each(x: Tensor, axis: Axis, whole: bool) -> int:
    """How many coefficients in a row a thread computes: two, if registers hold what it needs, and
    if a thread writes both in one store."""
    few = x.dtype != torch.float64 and len(axis.lo) <= MOST_TAPS
    return 2 if few and whole else 1


def _acc(x: Tensor) -> Any:
    return tl.float64 if x.dtype == torch.float64 else tl.float32


@lru_cache(maxsize=4096)
def launch_of(kernel: Any, **meta: Any) -> Any:
    """The launch of a kernel with these meta-parameters, made once."""
    return launchable(kernel, **meta)
