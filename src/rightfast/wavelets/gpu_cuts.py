"""How the kernels over two axes are cut into programs."""

from dataclasses import dataclass

from rightfast_kernels.dwt.transforms import Axis
from torch import Tensor

LARGE = 1 << 23  # samples; smaller signals are in the L2 cache anyway
MIDDLE = 1 << 20
SECTOR = 8  # float32 numbers in a sector of memory
FEW_TAPS = 8  # of which so many warps fit a multiprocessor that they need not look ahead


@dataclass(frozen=True)
class Cut:
    """A program goes down some columns of the bands, one warp of threads beside one another.

    Attributes:
        rows: of the bands, or pairs of rows of the signal, that it computes.
        batch: of them in a round, all of whose loads are under way at once.
        margin: columns that the program beside it computes, too, so that each writes whole blocks
            of so many numbers of float32: a power of two. On the way down only.
        ahead: rounds in which rows are asked for to be in the L2 cache, before they are loaded. On
            the way down only.
    """

    rows: int
    batch: int = 1
    margin: int = SECTOR
    ahead: int = 0


def cut_for(x: Tensor, axis: Axis, down: bool, given: Cut | None = None) -> Cut:
    """The cut for a signal ``x``, whose last axis is ``axis``: the one ``given``, if any, unless
    the signal is small.

    Long strips read fewer rows twice, short ones keep more of the GPU at work.
    """
    size = x.numel()
    if size < MIDDLE:
        return Cut(4)
    if given:
        return given
    few = len(axis.lo) <= FEW_TAPS
    rows = 8 if size < LARGE else 16 if few else 32
    if down:
        return Cut(rows, ahead=0 if few else 2)
    return Cut(rows, batch=2)
