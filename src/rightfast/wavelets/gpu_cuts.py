"""How the kernels over two axes are cut into programs."""

from dataclasses import dataclass

from rightfast_kernels.dwt.transforms import Axis
from torch import Tensor

LARGE = 1 << 23  # samples; smaller signals are in the L2 cache anyway
MIDDLE = 1 << 20
SECTOR = 8  # float32 numbers in a sector of memory
CHEAP_TAPS = 8


@dataclass(frozen=True)
class Cut:
    """A program goes down ``columns`` columns of the bands, one a thread.

    Attributes:
        rows: of the bands, or pairs of rows of the signal, that it computes.
        batch: of them in a round, all of whose loads are under way at once; 0: four on the way
            down, two on the way up.
        ahead: rounds in which rows are asked for to be in the L2 cache, before they are loaded.
        columns: a multiple of 32.
        margin: columns that the program beside it computes, too, so that each writes whole sectors.
    """

    rows: int
    batch: int = 0
    ahead: int = 0
    columns: int = 32
    margin: int = 0


def cut_for(x: Tensor, axis: Axis, length: int, given: Cut | None = None) -> Cut:
    """The cut for a signal ``x``, ``length`` coefficients in a row along the last ``axis``: the
    one ``given``, if any, unless the signal is small.

    Long strips read fewer rows twice, short ones keep more of the GPU at work.
    """
    size = x.numel()
    if size < MIDDLE:
        return Cut(4)
    if given:
        return given
    if size < LARGE:
        return Cut(8)
    ahead = int(x.is_cuda)
    if length % SECTOR and len(axis.lo) <= CHEAP_TAPS:
        # Worth it where a column is cheap: with 6 taps 382 us in place of 493
        # (docs/wavelets/gpu.md), with 10 taps 450 in place of 418.
        return Cut(16, ahead=ahead, columns=64, margin=SECTOR)
    return Cut(16, ahead=ahead)
