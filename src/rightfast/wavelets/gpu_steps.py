"""One level of a transform on a GPU, as passes along its axes."""

from collections.abc import Sequence

import torch
from rightfast_kernels.dwt.border_triton import WEIGHTED
from rightfast_kernels.dwt.transforms import Axis, Level, shape_at
from torch import Tensor

from rightfast.wavelets.gpu_passes import (
    Parts,
    line_down,
    line_up,
    near,
    plane_down,
    plane_fold,
    plane_up,
    reads_once,
)
from rightfast.wavelets.gpu_recipe import Tape

ZERO, PERIODIC, PERIODIZATION = 0, 4, 5
Bands = dict[int, Tensor]  # by code: the first axis is the highest bit, "d" is 1

# Two taps leave no window to fill, more than twenty hold too much in registers.
FUSED_TAPS = range(4, 21)


def down(
    tape: Tape, x: Tensor, axes: Sequence[Axis], level: Level, wanted: Bands, deepest: bool
) -> Tensor:
    """One level: fills the bands that are wanted, and returns the low one. Of all levels but the
    deepest it is made here, in full precision, for the levels to come."""
    wanted = wanted if deepest else {code: band for code, band in wanted.items() if code}
    sums, bands, left = full(x.dtype), {0: x}, len(axes)
    while left:
        count = 2 if _fused_down(axes[:left]) else 1
        passed = slice(left - count, left)
        left -= count
        made: Bands = {}
        for code, band in bands.items():
            shape = shape_at(tuple(band.shape), axes[passed], level.lengths[passed])
            codes = [code + (part << len(axes) - left - count) for part in range(1 << count)]
            parts = [
                wanted[code] if not left and code in wanted else tape.empty(shape, sums)
                for code in codes
            ]
            if count == 2:
                plane_down(tape, band, parts, axes[passed], level.lengths[passed])
            else:
                line_down(tape, band, parts, axes[left], level.lengths[left])
            made.update(zip(codes, parts, strict=True))
        bands = made
    return bands[0]


def up(tape: Tape, given: Bands, axes: Sequence[Axis], level: Level, out: Tensor | None) -> Tensor:
    """One level back: the signal, in ``out`` if given, else made in full precision."""
    like = next(iter(given.values()))
    bands, done = dict(given), 0
    shape = tuple(like.shape)
    while done < len(axes):
        count = 2 if _fused_up(axes[done:], level, done, bands, out) else 1
        passed = slice(done, done + count)
        done += count
        shape = tuple(shape_at(shape, axes[passed], level.samples[passed]))
        left = len(axes) - done
        made: Bands = {}
        for rest in range(1 << left):
            parts = [bands.get((part << left) + rest) for part in range(1 << count)]
            if left and all(part is None for part in parts):
                continue
            to = out if out is not None and not left else tape.empty(shape, full(like.dtype))
            if count == 2:
                _plane_up(tape, parts, to, axes[passed], level.lengths[passed])
            else:
                line_up(tape, parts, to, axes[done - 1], level.lengths[done - 1])
            made[rest] = to
        bands = made
    return bands[0]


def fitted(tape: Tape, x: Tensor, axes: Sequence[Axis], sizes: Sequence[int]) -> Tensor:
    """``x`` with these sizes along the axes: cut off, or followed by zeros."""
    want = shape_at(tuple(x.shape), axes, sizes)
    if list(x.shape) == want:
        return x
    found = tape.empty(want, x.dtype)
    tape.launch(_fit, 0, [x, found])
    return found


def _fit(_: tuple[int], x: Tensor, found: Tensor) -> None:
    both = tuple(slice(min(a, b)) for a, b in zip(x.shape, found.shape, strict=True))
    found.zero_()
    found[both] = x[both]


def full(dtype: torch.dtype) -> torch.dtype:
    """The dtype of sums."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def _fused_down(axes: Sequence[Axis]) -> bool:
    """Whether the last two of the axes go in one pass."""
    return [axis.dim for axis in axes[-2:]] == [-2, -1] and all(
        axis.mode not in WEIGHTED and len(axis.lo) in FUSED_TAPS for axis in axes[-2:]
    )


def _fused_up(
    axes: Sequence[Axis], level: Level, first: int, bands: Bands, out: Tensor | None
) -> bool:
    """Whether the two axes that are left go in one pass."""
    if [axis.dim for axis in axes] != [-2, -1]:
        return False
    sizes = list(zip(axes, level.samples[first:], level.lengths[first:], strict=True))
    if not all(len(axis.lo) in FUSED_TAPS for axis in axes):
        return False
    if all(size[0].mode == ZERO or repeats(*size) for size in sizes):
        return True
    # Two passes write the ends, which rounds a half twice.
    rounds = out is not None and out.dtype != full(out.dtype)
    return (
        not rounds
        and len(bands) == 4
        and all(
            axis.mode == ZERO or (reads_once(axis, n) and n >= 2 * near(axis, n, length))
            for axis, n, length in sizes
        )
    )


def _plane_up(
    tape: Tape, parts: Parts, to: Tensor, axes: Sequence[Axis], lengths: Sequence[int]
) -> None:
    sizes = list(zip(axes, to.shape[-2:], lengths, strict=True))
    repeated = [repeats(*size) for size in sizes]
    whole = all(axis.mode == ZERO or ends for axis, ends in zip(axes, repeated, strict=True))
    plane_up(tape, parts, to, axes, lengths, repeated if whole else (False, False))
    if not whole:
        plane_fold(tape, parts, to, axes, lengths)


def repeats(axis: Axis, n: int, length: int) -> bool:
    """Whether folding the ends back is the same as repeating the bands."""
    return axis.mode in (PERIODIC, PERIODIZATION) and n == 2 * length
