"""One level of a transform on a GPU, as passes along its axes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from rightfast_kernels.dwt.border_triton import WEIGHTED
from rightfast_kernels.dwt.transforms import Axis, Level, Transform, shape_at
from torch import Tensor

from rightfast.wavelets.gpu_passes import (
    MOST_LINES,
    Parts,
    lines_down,
    lines_up,
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
        passed, lengths = slice(left - count, left), level.lengths[left - count : left]
        left -= count
        made: Bands = {}
        for code, band in bands.items():
            shape = shape_at(tuple(band.shape), axes[passed], lengths)
            codes = [code + (part << len(axes) - left - count) for part in range(1 << count)]
            for code in codes:
                known = not left and code in wanted
                # Planes alone read what planes write: rows may be padded.
                empty = tape.padded if count == len(axes) == 2 else tape.empty
                made[code] = wanted[code] if known else empty(shape, sums)
            if count == 2:
                plane_down(tape, band, [made[code] for code in codes], axes[passed], lengths)
        if count == 1:
            _lines_down(tape, bands, made, axes[left], lengths[0], 1 << len(axes) - left - 1)
        bands = made
    return bands[0]


def _lines_down(tape: Tape, bands: Bands, made: Bands, axis: Axis, length: int, high: int) -> None:
    """Along one axis, ``high`` its bit in the codes."""
    for codes in _alike(bands, lambda code: (made[code].dtype, made[code + high].dtype)):
        lows, highs = [made[code] for code in codes], [made[code + high] for code in codes]
        lines_down(tape, [bands[code] for code in codes], lows, highs, axis, length)


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
        for code in sorted({code % (1 << left) for code in bands}):
            last = out if not left else None
            # All levels of these modes go in one pass: rows may be padded.
            plain = count == len(axes) == 2 and all(axis.mode == ZERO for axis in axes)
            empty = tape.padded if plain else tape.empty
            made[code] = empty(shape, full(like.dtype)) if last is None else last
        if count == 2:
            parts = [bands.get(part) for part in range(4)]
            _plane_up(tape, parts, made[0], axes[passed], level.lengths[passed])
        else:
            _lines_up(tape, bands, made, axes[done - 1], level.lengths[done - 1], 1 << left)
        bands = made
    return bands[0]


def _lines_up(tape: Tape, bands: Bands, made: Bands, axis: Axis, length: int, high: int) -> None:
    """Along one axis, ``high`` its bit in the codes."""

    def kind(code: int) -> torch.dtype | None:
        return None if code not in bands else bands[code].dtype

    for codes in _alike(made, lambda code: (kind(code), kind(code + high))):
        lows = [bands.get(code) for code in codes]
        highs = [bands.get(code + high) for code in codes]
        lines_up(tape, lows, highs, [made[code] for code in codes], axis, length)


def fitted(tape: Tape, x: Tensor, axes: Sequence[Axis], sizes: Sequence[int]) -> Tensor:
    """``x`` with these sizes along the axes: cut off, or followed by zeros."""
    want = shape_at(tuple(x.shape), axes, sizes)
    if list(x.shape) == want:
        return x
    found = tape.empty(want, x.dtype)
    tape.launch(_fit, 0, [x, found], *x.shape)
    return found


def _fit(_: tuple[int], x: Tensor, found: Tensor, *shape: int) -> None:
    both = tuple(slice(min(a, b)) for a, b in zip(shape, found.shape, strict=True))
    found.zero_()
    found[both] = x[both]


def between(transform: Transform, dtype: torch.dtype) -> float:
    """About how much memory what lies between two passes takes, in that of the signal."""
    axes = transform.axes
    passes = len(axes) - _fused_down(axes)
    smaller = 2.0 ** -len(axes) if len(transform.levels) > 1 else 0.0  # one level than the last
    wider = full(dtype).itemsize / dtype.itemsize
    return wider * (passes - 1 + smaller) / (1 - smaller)


def full(dtype: torch.dtype) -> torch.dtype:
    """The dtype of sums."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def _alike(codes: Iterable[int], kind: Callable[[int], Any]) -> Iterator[list[int]]:
    """Those of one kind, as many as one launch takes at a time."""
    found: dict[Any, list[int]] = {}
    for code in codes:
        found.setdefault(kind(code), []).append(code)
    for some in found.values():
        for first in range(0, len(some), MOST_LINES):
            yield some[first : first + MOST_LINES]


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
