"""Haar on a GPU: all levels and axes in one launch, where the border allows it."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from rightfast_kernels.dwt import haar_triton
from rightfast_kernels.dwt.native import MODES
from rightfast_kernels.dwt.transforms import Transform
from torch import Tensor

from rightfast.wavelets.gpu_passes import launch_of
from rightfast.wavelets.gpu_recipe import Tape

Found = Mapping[tuple[int, int], Tensor]  # by level and code


def suits(transform: Transform) -> bool:
    """Whether haar_triton.py computes this transform."""
    axes = transform.axes
    first, alike = axes[0], {(axis.mode, axis.before, axis.lo, axis.hi) for axis in axes}
    lengths = [list(zip(level.samples, level.lengths, strict=True)) for level in transform.levels]
    return (
        len(alike) == 1
        and first.before == 0
        and [axis.dim for axis in axes] == list(range(-len(axes), 0))
        and haar_triton.suits(MODES[first.mode], first.lo, first.hi, lengths)
    )


def down(tape: Tape, x: Tensor, found: Found, transform: Transform) -> None:
    """All bands that are wanted."""
    flat, low, details, scale, sign = _arguments(tape, x, found, transform)
    if low is None:
        deepest = transform.levels[-1].lengths
        shape = (*x.shape[: x.ndim - len(transform.axes)], *deepest)
        low = _blocks(tape, tape.empty(shape, x.dtype), len(transform.axes))
    haar_triton.down(flat, low, details, scale, sign, through=_through(tape), empty=_made(tape))


def up(tape: Tape, found: Found, x: Tensor, transform: Transform) -> None:
    """The signal from the bands that are there."""
    flat, low, details, scale, sign = _arguments(tape, x, found, transform)
    haar_triton.up(low, details, flat, scale, sign, through=_through(tape), empty=_made(tape))


def _arguments(tape: Tape, x: Tensor, found: Found, transform: Transform) -> Any:
    axes, first = len(transform.axes), transform.axes[0]

    def band(level: int, code: int) -> Tensor | None:
        known = found.get((level, code))
        return None if known is None else _blocks(tape, known, axes)

    deepest = len(transform.levels) - 1
    details = [
        [band(level, code) for code in range(1, 1 << axes)] for level in range(deepest, -1, -1)
    ]
    sign = 1.0 if (first.hi[0] > 0) == (first.lo[0] > 0) else -1.0
    return _blocks(tape, x, axes), band(deepest, 0), details, first.lo[0], sign


def _blocks(tape: Tape, x: Tensor, axes: int) -> Tensor:
    """``x`` with one dimension in front of those that are transformed."""
    view = x.reshape(-1, *x.shape[x.ndim - axes :])
    return tape.seen_as(view, x)


def _through(tape: Tape) -> Any:
    def launch(kernel: Any, grid: tuple[int], *arguments: Any, **meta: Any) -> None:
        tensors = [x for x in arguments if x is None or isinstance(x, Tensor)]
        tape.launch(launch_of(kernel, **meta), grid[0], tensors, *arguments[len(tensors) :])

    return launch


def _made(tape: Tape) -> Any:
    def empty(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
        return tape.empty(shape, dtype)

    return empty
