"""A plan's text (plan.h) as it is read in Python: what a whole transform does, level by level."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class Axis:
    """One axis: dimension from the end, mode by number, samples before, taps in reading order."""

    dim: int
    mode: int
    before: int
    lo: tuple[float, ...]
    hi: tuple[float, ...]


@dataclass(frozen=True)
class Level:
    """Samples and coefficients along each axis, and which bands are there, as bits."""

    samples: tuple[int, ...]
    lengths: tuple[int, ...]
    present: int

    def has(self, band: int) -> bool:
        return bool(self.present >> band & 1)


@dataclass(frozen=True)
class Transform:
    """Axes in ascending order of dimension; levels with the finest first."""

    axes: tuple[Axis, ...]
    levels: tuple[Level, ...]

    def places(self) -> Iterator[tuple[int, int]]:
        """(level, band) of every band that is there, as the operators take and return them."""
        for number in reversed(range(len(self.levels))):
            for band in range(number + 1 < len(self.levels), 1 << len(self.axes)):
                if self.levels[number].has(band):
                    yield number, band


@lru_cache(maxsize=512)
def read(text: str) -> Transform:
    """The transform that `native.make_plan` has written."""
    numbers = map(int, text.split())
    count, depth = next(numbers), next(numbers)
    axes = []
    for _ in range(count):
        dim, mode, before, taps = (next(numbers) for _ in range(4))
        lo, hi = (_doubles([next(numbers) for _ in range(taps)]) for _ in range(2))
        axes.append(Axis(dim, mode, before, lo, hi))
    levels = []
    for _ in range(depth):
        pairs = [(next(numbers), next(numbers)) for _ in range(count)]
        samples, lengths = zip(*pairs, strict=True)
        levels.append(Level(samples, lengths, next(numbers)))
    return Transform(tuple(axes), tuple(levels))


def _doubles(bits: list[int]) -> tuple[float, ...]:
    return struct.unpack(f"{len(bits)}d", struct.pack(f"{len(bits)}q", *bits))


def shape_at(like: Sequence[int], axes: Sequence[Axis], sizes: Sequence[int]) -> list[int]:
    """The shape of ``like`` with these sizes along the axes."""
    shape = list(like)
    for axis, size in zip(axes, sizes, strict=True):
        shape[axis.dim] = size
    return shape
