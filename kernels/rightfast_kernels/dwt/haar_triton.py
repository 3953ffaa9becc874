"""Haar's transform on a GPU: up to three levels over one, two or three axes in one launch.

    down(x, low, details, scale, sign)      signal -> bands, written into tensors of the caller
    up(low, details, x, scale, sign)        its adjoint

The kernels are memory bound and have next to nothing to do, so a sample is read once and written
once, through registers (haar_triton_tile.py says how the work is cut). Deeper transforms chain
launches through a scratch tensor of the low band, which is in the precision of the arithmetic.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rightfast_kernels.dwt.haar_triton_down import haar_down_kernel
from rightfast_kernels.dwt.haar_triton_up import haar_up_kernel

MOST_LEVELS = 3  # in one launch
MOST_AXES = 3
Lengths = Sequence[Sequence[tuple[int, int]]]
Bands = Sequence[Sequence[Tensor | None]]


class Config(NamedTuple):
    """How a launch is cut up."""

    across: int  # 1: the deepest level is shared by threads, 0: each does all of them
    run: int  # a thread has 2^run of the deepest coefficients in a line
    warps: int


def launch(kernel: Any, grid: tuple[int], *arguments: Any, **meta: Any) -> Any:
    """The usual way; constexpr parameters come by name."""
    return kernel[grid](*arguments, **meta)


Launch = Callable[..., Any]
Empty = Callable[..., Tensor]


def suits(mode: str, lo: Sequence[float], hi: Sequence[float], lengths: Lengths) -> bool:
    """Whether these kernels compute this transform.

    Args:
        mode: PyWavelets' name of the border.
        lo, hi: one axis's taps in reading order: low[o] = lo[0] x[2o] + lo[1] x[2o + 1].
        lengths: for each level, the finest first, (samples, coefficients) of each axis.
    """
    if len(lo) != 2 or len(hi) != 2 or lo[0] != lo[1] or lo[0] == 0:
        return False
    if hi[0] != -hi[1] or abs(hi[0]) != abs(lo[0]):
        return False
    if not lengths or not 1 <= len(lengths[0]) <= MOST_AXES:
        return False
    pairs = [pair for level in lengths for pair in level]
    if any(coefficients != (samples + 1) // 2 for samples, coefficients in pairs):
        return False
    for level, deeper in pairwise(lengths):
        if [c for _, c in level] != [n for n, _ in deeper]:
            return False
    return mode == "zero" or all(samples % 2 == 0 for samples, _ in pairs)


def down(
    x: Tensor,
    low: Tensor,
    details: Bands,
    scale: float,
    sign: float,
    config: Config | None = None,
    through: Launch | None = None,
    empty: Empty = torch.empty,
) -> None:
    """Writes the bands of x, all tensors contiguous.

    Args:
        x: (blocks, n1[, n2[, n3]]), every axis but the first transformed.
        low: the deepest low band, (blocks, m1[, m2[, m3]]), each m half its n, rounded up, a level.
        details: the deepest level first; of each level the 2^d - 1 bands by their code, the first
            axis its highest bit. None: not wanted.
        scale, sign: the low-pass taps are (scale, scale), the others sign * (scale, -scale).
        config: for whoever times them; by default `pick` chooses.
        through, empty: how kernels are launched (by default as `launch` does), and how memory
            between launches is made.
    """
    if low.numel() == 0:
        return
    levels = list(reversed(details))  # the finest first
    while levels:
        now, levels = levels[:MOST_LEVELS], levels[MOST_LEVELS:]
        out = _scratch(empty, x, len(now), [x, low]) if levels else low
        _run(through or launch, haar_down_kernel, x, out, now, scale, sign, config)
        x = out


def up(
    low: Tensor | None,
    details: Bands,
    x: Tensor,
    scale: float,
    sign: float,
    config: Config | None = None,
    through: Launch | None = None,
    empty: Empty = torch.empty,
) -> None:
    """Writes the signal of these bands into x: the adjoint of `down`, None standing for zeros."""
    if x.numel() == 0:
        return
    levels = list(reversed(details))
    while len(levels) > MOST_LEVELS:
        rest = (len(levels) - 1) // MOST_LEVELS * MOST_LEVELS  # as `down` splits them
        now, levels = levels[rest:], levels[:rest]
        signal = _scratch(empty, x, rest, [x, low])
        _run(through or launch, haar_up_kernel, signal, low, now, scale, sign, config)
        low = signal
    _run(through or launch, haar_up_kernel, x, low, levels, scale, sign, config)


def pick(axes: int, levels: int, itemsize: int, elements: int, upwards: bool = False) -> Config:
    """At most 64 samples a thread, in lines of at most two 16-byte pieces, as far as that goes;
    upwards half of that, since what a thread writes is not gathered on the way as its reads are.
    """
    small = elements < 1 << 22
    most = 6 if itemsize < 8 else 4  # samples a thread and
    line = 5 - itemsize.bit_length() + 1 - upwards  # in a line, as powers of two
    deep = levels * axes > most or levels > line
    across = 1 if deep or (small and levels == MOST_LEVELS and axes == 2) else 0
    inner = levels - across
    run = 0 if across else max(0, min(line - inner, most - inner * axes))
    return Config(across, run, 4 if across or not small else 1)


def _scratch(empty: Empty, x: Tensor, levels: int, precise: Sequence[Tensor | None]) -> Tensor:
    """For the low band of x after some levels, as precise as these tensors and the arithmetic."""
    shape = [_halved(n, levels) for n in x.shape[1:]]
    return empty((x.shape[0], *shape), dtype=_kind(precise), device=x.device)


def _kind(tensors: Sequence[Tensor | None]) -> torch.dtype:
    double = any(t is not None and t.dtype == torch.float64 for t in tensors)
    return torch.float64 if double else torch.float32


def _halved(n: int, times: int) -> int:
    return -(-n // (1 << times))


def _run(
    through: Launch,
    kernel: Any,
    x: Tensor,
    low: Tensor | None,
    levels: Bands,
    scale: float,
    sign: float,
    config: Config | None,
) -> None:
    """One launch: levels has the finest first."""
    lengths, depth = x.shape[1:], len(levels)
    axes = len(lengths)
    across, run, warps = config or pick(
        axes, depth, x.itemsize, x.numel(), kernel is haar_up_kernel
    )
    last = lengths[-1] % (1 << depth) == 0
    even = 2 if not any(n % (1 << depth) for n in lengths) else int(last)
    while last and lengths[-1] % (1 << depth + run):
        run -= 1
    shifts = [depth] * (axes - 1) + [depth + run]
    front = [n >> depth if even == 2 else n for n in lengths[:-1]]
    # Sites are counted by their coefficient at the last level that is done by threads alone, except
    # where `down` goes on to one that groups of them share.
    inner, apart = depth - across, kernel is haar_down_kernel and across
    patch = [shift if apart else shift - across for shift in shifts]
    count = x.shape[0] * prod(map(_halved, lengths, patch))
    sites = 32 * warps
    programs = -(-count // (sites >> axes if apart else sites))
    bands = [band for level in levels for band in (*level, *[None] * (7 - len(level)))]
    bands += [None] * (7 * (MOST_LEVELS - depth))
    through(
        kernel,
        (programs,),
        x,
        low,
        *bands,
        count,
        *[1] * (MOST_AXES - axes),
        *front,
        lengths[-1] >> shifts[-1] if last else lengths[-1],
        AXES=axes,
        LEVELS=depth,
        ACROSS=across,
        RUN=run,
        SITES=sites,
        TWO=x.itemsize << inner + run > 16,
        GAIN=scale**axes,
        SIGN=1 if sign > 0 else -1,
        EVEN=even,
        WIDE=programs * sites << inner * axes + run >= 1 << 31,
        DOUBLE=_kind([x, low, *bands]) == torch.float64,
        num_warps=warps,
    )
