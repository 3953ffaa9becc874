"""One level of a transform on a GPU, as launches of Triton kernels."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
import triton.language as tl
from rightfast_kernels.dwt import line_triton, plane_triton, plane_up_triton
from rightfast_kernels.dwt.border_triton import WEIGHTED
from rightfast_kernels.dwt.transforms import Axis, Level, shape_at
from torch import Tensor

from rightfast.runtime import cdiv, launchable

ZERO, PERIODIC, PERIODIZATION = 0, 4, 5
Bands = dict[int, Tensor]  # by code: the first axis is the highest bit, "d" is 1

# (rows, columns, warps) of a tile of the fused kernels: for small tensors, and for large ones.
DOWN_TILES = ((4, 32, 1), (8, 64, 2))
UP_TILES = ((4, 32, 1), (8, 64, 2))
LARGE = 1 << 21  # elements
LINE_BLOCK = 256
# Longer filters would hold too much in registers.
PLANE_TAPS = 20


def down(x: Tensor, axes: Sequence[Axis], level: Level, wanted: Bands, deepest: bool) -> Tensor:
    """One level: fills the bands that are wanted, and returns the low one, which further levels
    are made of and which is made in full precision for them."""
    low = wanted.get(0) if deepest else None
    sums = torch.float64 if x.dtype == torch.float64 else torch.float32
    bands = {0: x}
    rest = list(range(len(axes)))
    while rest:
        fused = _fused_down(axes, level, rest, x)
        passed, rest = rest[-fused:], rest[:-fused]
        made: Bands = {}
        for code, band in bands.items():
            sizes = shape_at(
                tuple(band.shape), [axes[i] for i in passed], [level.lengths[i] for i in passed]
            )
            parts = []
            for part in range(1 << fused):
                full = code + (part << len(axes) - 1 - passed[-1])
                if rest:
                    to = band.new_empty(sizes, dtype=sums)
                elif full == 0:
                    to = band.new_empty(sizes, dtype=sums) if low is None else low
                else:
                    to = wanted[full] if full in wanted else band.new_empty(sizes, dtype=sums)
                made[full] = to
                parts.append(to)
            if fused == 2:
                _plane_down(band, parts, axes, level, passed)
            else:
                _line_down(band, parts, axes[passed[0]], level.lengths[passed[0]])
        bands = made
    return bands[0]


def up(
    given: Bands, axes: Sequence[Axis], level: Level, out: Tensor | None, like: Tensor
) -> Tensor:
    """One level back: the signal, in ``out`` if given, else made in full precision."""
    sums = torch.float64 if like.dtype == torch.float64 else torch.float32
    bands: dict[int, Tensor] = dict(given)
    shape = tuple(like.shape)
    shape = tuple(shape_at(shape, axes, level.lengths))
    done = 0
    while done < len(axes):
        fused = _fused_up(axes, level, done, like)
        passed = list(range(done, done + fused))
        done += fused
        shape = tuple(shape_at(shape, [axes[i] for i in passed], [level.samples[i] for i in passed]))
        shift = len(axes) - done  # bits of the axes that are left
        made: Bands = {}
        for rest in range(1 << shift):
            parts = [bands.get((part << shift) + rest) for part in range(1 << fused)]
            if all(part is None for part in parts) and done != len(axes):
                continue
            last = done == len(axes) and out is not None
            to = out if last else like.new_empty(shape, dtype=sums)
            assert to is not None
            if fused == 2:
                _plane_up(parts, to, axes, level, passed)
            else:
                _line_up(parts, to, axes[passed[0]], level.lengths[passed[0]])
            made[rest] = to
        bands = made
    return bands[0]


def fitted(x: Tensor, axes: Sequence[Axis], sizes: Sequence[int]) -> Tensor:
    """``x`` with these sizes along the axes: cut off, or followed by zeros."""
    want = shape_at(tuple(x.shape), axes, sizes)
    if list(x.shape) == want:
        return x
    found = x.new_zeros(want)
    both = tuple(slice(min(a, b)) for a, b in zip(x.shape, want, strict=True))
    found[both] = x[both]
    return found


def _fused_down(axes: Sequence[Axis], level: Level, rest: Sequence[int], x: Tensor) -> int:
    """How many axes the next pass takes: 2 where plane_triton.py serves, else 1."""
    if len(rest) < 2 or [axes[i].dim for i in rest[-2:]] != [-2, -1]:
        return 1
    fits = all(axes[i].mode not in WEIGHTED and len(axes[i].lo) <= PLANE_TAPS for i in rest[-2:])
    return 2 if fits else 1


def _fused_up(axes: Sequence[Axis], level: Level, done: int, x: Tensor) -> int:
    if len(axes) - done != 2 or [axis.dim for axis in axes[done:]] != [-2, -1]:
        return 1
    fits = all(
        len(axes[i].lo) <= PLANE_TAPS
        and (
            axes[i].mode == ZERO
            or (
                axes[i].mode in (PERIODIC, PERIODIZATION)
                and level.samples[i] == 2 * level.lengths[i]
            )
        )
        for i in (done, done + 1)
    )
    return 2 if fits else 1


def _lines(x: Tensor, dim: int) -> tuple[int, int]:
    """(outer, inner): how many lines there are behind one another, and side by side."""
    shape = x.shape
    outer = inner = 1
    for size in shape[: len(shape) + dim]:
        outer *= size
    for size in shape[len(shape) + dim + 1 :]:
        inner *= size
    return outer, inner


def _line_down(x: Tensor, parts: Sequence[Tensor], axis: Axis, length: int) -> None:
    n, (outer, inner) = x.shape[axis.dim], _lines(x, axis.dim)
    block = min(LINE_BLOCK, max(32, _power(length * inner)))
    launch = _launch(
        "line_down",
        LOW=_sorted(axis.lo),
        HIGH=_sorted(axis.hi),
        TAPS=len(axis.lo),
        MODE=axis.mode,
        SHORT=n < len(axis.lo),
        WIDE=max(n, length) * inner >= 1 << 30,
        ACC=_acc(x),
        BLOCK=block,
        num_warps=max(1, block // 64),
    )
    blocks = cdiv(length * inner, block)
    launch((blocks * outer,), x, *parts, n, length, inner, axis.before, blocks)


def _line_up(parts: Sequence[Tensor | None], x: Tensor, axis: Axis, length: int) -> None:
    n, (outer, inner) = x.shape[axis.dim], _lines(x, axis.dim)
    block = min(LINE_BLOCK, max(32, _power(n * inner)))
    launch = _launch(
        "line_up",
        LOW=_phases(axis.lo),
        HIGH=_phases(axis.hi),
        HAS_LOW=parts[0] is not None,
        HAS_HIGH=parts[1] is not None,
        MODE=axis.mode,
        SHORT=n < len(axis.lo),
        WIDE=max(n, length) * inner >= 1 << 30,
        ACC=_acc(x),
        BLOCK=block,
        num_warps=max(1, block // 64),
    )
    blocks = cdiv(n * inner, block)
    after = 2 * length + len(axis.lo) - 2 - axis.before - n
    given = [x if part is None else part for part in parts]
    launch((blocks * outer,), *given, x, n, length, inner, axis.before, max(after, 0), blocks)


def _plane_down(
    x: Tensor, parts: Sequence[Tensor], axes: Sequence[Axis], level: Level, passed: Sequence[int]
) -> None:
    first, second = (axes[i] for i in passed)
    l1, l2 = (level.lengths[i] for i in passed)
    n1, n2 = x.shape[-2:]
    rows, columns, warps = DOWN_TILES[x.numel() >= LARGE]
    launch = _launch(
        "plane_down",
        **_filters(first, second, _sorted, n1, n2, (first.mode, second.mode)),
        TAPS1=len(first.lo),
        TAPS2=len(second.lo),
        ODD2=second.before % 2,
        EVEN=n2 % 2 == 0,
        ACC=_acc(x),
        ROWS=rows,
        COLUMNS=columns,
        num_warps=warps,
    )
    tiles1, tiles2 = cdiv(l1, rows), cdiv(l2, columns)
    grid = (tiles1 * tiles2 * (x.numel() // (n1 * n2)),)
    launch(
        grid, x, *parts, n1, n2, l1, l2, first.before, second.before // 2, tiles1, tiles2
    )  # fmt: skip


def _plane_up(
    parts: Sequence[Tensor | None],
    x: Tensor,
    axes: Sequence[Axis],
    level: Level,
    passed: Sequence[int],
) -> None:
    first, second = (axes[i] for i in passed)
    l1, l2 = (level.lengths[i] for i in passed)
    n1, n2 = x.shape[-2:]
    rows, columns, warps = UP_TILES[x.numel() >= LARGE]
    # Bands repeat as they are, of an odd length, too.
    modes = [ZERO if axis.mode == ZERO else PERIODIC for axis in (first, second)]
    launch = _launch(
        "plane_up",
        **_filters(first, second, _phases, l1, l2, modes),
        HALF1=len(first.lo) // 2,
        HALF2=len(second.lo) // 2,
        ODD2=second.before % 2,
        EVEN=n2 % 2 == 0,
        **{f"HAS_{k}": p is not None for k, p in zip(("AA", "AD", "DA", "DD"), parts, strict=True)},
        ACC=_acc(x),
        ROWS=rows,
        COLUMNS=columns,
        num_warps=warps,
    )
    pairs1 = (n1 - 1 + first.before) // 2 - first.before // 2 + 1
    tiles1, tiles2 = cdiv(pairs1, rows), cdiv((n2 + second.before % 2 + 1) // 2, columns)
    given = [x if part is None else part for part in parts]
    grid = (tiles1 * tiles2 * (x.numel() // (n1 * n2)),)
    launch(
        grid, *given, x, n1, n2, l1, l2, first.before, second.before // 2, tiles1, tiles2
    )  # fmt: skip


def _filters(
    first: Axis, second: Axis, form: Any, size1: int, size2: int, modes: Sequence[int]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, axis, size, mode in ((1, first, size1, modes[0]), (2, second, size2, modes[1])):
        found |= {f"LOW{number}": form(axis.lo), f"HIGH{number}": form(axis.hi)}
        found |= {f"MODE{number}": mode, f"SHORT{number}": size < len(axis.lo)}
    return found


@lru_cache(maxsize=4096)
def _sorted(taps: tuple[float, ...]) -> tuple[tuple[int, float], ...]:
    """(place, tap), the smallest first, without zeros."""
    pairs = [(place, tap) for place, tap in enumerate(taps) if tap != 0]
    return tuple(sorted(pairs, key=lambda pair: abs(pair[1])))


@lru_cache(maxsize=4096)
def _phases(taps: tuple[float, ...]) -> tuple[tuple[tuple[int, float], ...], ...]:
    """The same, those of even places, then those of odd ones."""
    return tuple(tuple(pair for pair in _sorted(taps) if pair[0] % 2 == p) for p in (0, 1))


def _acc(x: Tensor) -> Any:
    return tl.float64 if x.dtype == torch.float64 else tl.float32


def _power(count: int) -> int:
    return 1 << (count - 1).bit_length()


_KERNELS = {
    "line_down": line_triton.line_down_kernel,
    "line_up": line_triton.line_up_kernel,
    "plane_down": plane_triton.plane_down_kernel,
    "plane_up": plane_up_triton.plane_up_kernel,
}
_launches: dict[Any, Any] = {}


def _launch(name: str, **meta: Any) -> Any:
    """The launch of one kernel with these meta-parameters, made once."""
    key = (name, *meta.values())
    known = _launches.get(key)
    if known is None:
        known = _launches[key] = launchable(_KERNELS[name], **meta)
    return known
