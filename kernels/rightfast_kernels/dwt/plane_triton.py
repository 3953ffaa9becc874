"""One level along the last two axes in one pass, by one Triton kernel.

A program makes ROWS rows by COLUMNS columns of the four bands: each row of the signal that it
needs is read once and filtered along itself, into registers, and those rows are filtered across.
For modes that need one sample for each that is missing (those not in border_triton.WEIGHTED).
Taps as in line_triton.py.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import triton
import triton.language as tl

from rightfast_kernels.dwt.border_triton import ZERO, place
from rightfast_kernels.dwt.line_triton import weighted


@triton.jit
def row_inside(x, first, ok, LOW: tl.constexpr, HIGH: tl.constexpr, TAPS: tl.constexpr, zero):
    """(low, high) along one row, of columns that need nothing past its ends; ``first`` is even."""
    values = ()
    for k in tl.static_range(TAPS // 2):
        # Neighbours in one wide load.
        two = first[:, None] + 2 * k + tl.arange(0, 2)[None, :]
        even, odd = tl.split(tl.load(x + two, mask=ok[:, None], other=0).to(zero.dtype))
        values = values + (even, odd)
    return weighted(values, LOW, zero), weighted(values, HIGH, zero)


@triton.jit
def row_anywhere(
    x, first, n, ok, LOW: tl.constexpr, HIGH: tl.constexpr, TAPS: tl.constexpr,
    MODE: tl.constexpr, SHORT: tl.constexpr, zero,
):  # fmt: skip
    """(low, high) along one row, of any columns; zeros where not ``ok``."""
    values = ()
    for t in tl.static_range(TAPS):
        j = first + t
        if MODE == ZERO:
            value = tl.load(x + j, mask=ok & (j >= 0) & (j < n), other=0)
        else:
            j = tl.where(ok, j, 0)
            value = tl.load(x + place(j, n, MODE, SHORT), mask=ok, other=0)
        values = values + (value.to(zero.dtype),)
    return weighted(values, LOW, zero), weighted(values, HIGH, zero)


@triton.jit
def tile(
    x, aa, ad, da, dd, first, valid, where, start, n1, n2, l1, pitch, before1, zero,
    LOW1: tl.constexpr, HIGH1: tl.constexpr, TAPS1: tl.constexpr, MODE1: tl.constexpr,
    SHORT1: tl.constexpr, LOW2: tl.constexpr, HIGH2: tl.constexpr, TAPS2: tl.constexpr,
    MODE2: tl.constexpr, SHORT2: tl.constexpr, INSIDE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """All rows of one tile: along themselves, then across."""
    lows, highs = (), ()
    for r in tl.static_range(2 * ROWS + TAPS1 - 2):
        j = 2 * start + r - before1
        ok = valid
        if MODE1 == ZERO:
            lanes = first * 0 + j  # the interpreter makes numbers of a scalar's truth
            ok = valid & (lanes >= 0) & (lanes < n1)
        else:
            # Rows past the last one that is written may be anywhere.
            j = place(tl.minimum(j, n1 + TAPS1 - 1), n1, MODE1, SHORT1)
        row = x + j.to(tl.int64) * n2
        if INSIDE:
            low, high = row_inside(row, first, ok, LOW2, HIGH2, TAPS2, zero)
        else:
            low, high = row_anywhere(row, first, n2, ok, LOW2, HIGH2, TAPS2, MODE2, SHORT2, zero)
        lows, highs = lows + (low,), highs + (high,)
    for o in tl.static_range(ROWS):
        low, high = lows[2 * o : 2 * o + TAPS1], highs[2 * o : 2 * o + TAPS1]
        ok = valid & (first * 0 + (start + o) < l1)
        at = where + o * pitch
        tl.store(aa + at, weighted(low, LOW1, zero).to(aa.dtype.element_ty), mask=ok)
        tl.store(ad + at, weighted(high, LOW1, zero).to(ad.dtype.element_ty), mask=ok)
        tl.store(da + at, weighted(low, HIGH1, zero).to(da.dtype.element_ty), mask=ok)
        tl.store(dd + at, weighted(high, HIGH1, zero).to(dd.dtype.element_ty), mask=ok)


@triton.jit(do_not_specialize=["n1", "l1", "before1", "half2", "tiles1", "tiles2"])
def plane_down_kernel(
    x, aa, ad, da, dd, n1, n2, l1, l2, before1, half2, tiles1, tiles2,
    LOW1: tl.constexpr, HIGH1: tl.constexpr, TAPS1: tl.constexpr, MODE1: tl.constexpr,
    SHORT1: tl.constexpr, LOW2: tl.constexpr, HIGH2: tl.constexpr, TAPS2: tl.constexpr,
    MODE2: tl.constexpr, SHORT2: tl.constexpr, ODD2: tl.constexpr, EVEN: tl.constexpr,
    ACC: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """``half2``, ODD2: half the samples in front of a row, and the rest. EVEN: n2 is even."""
    program = tl.program_id(0)
    tile2, rest = program % tiles2, program // tiles2
    start = (rest % tiles1) * ROWS
    block = (rest // tiles1).to(tl.int64)
    x += block * n1 * n2
    c = tile2 * COLUMNS + tl.arange(0, COLUMNS)
    valid = c < l2
    first = 2 * (c - half2) - ODD2
    zero = tl.zeros((COLUMNS,), ACC)
    where = (block * l1 + start) * l2 + c
    if EVEN:
        n2 = tl.multiple_of(n2, 2)
    begin = 2 * (tile2 * COLUMNS - half2) - ODD2
    if (begin >= 0) & (begin + 2 * (COLUMNS - 1) + TAPS2 <= n2):
        tile(
            x, aa, ad, da, dd, first, valid, where, start, n1, n2, l1, l2, before1, zero,
            LOW1, HIGH1, TAPS1, MODE1, SHORT1, LOW2, HIGH2, TAPS2, MODE2, SHORT2, True, ROWS,
        )  # fmt: skip
    else:
        tile(
            x, aa, ad, da, dd, first, valid, where, start, n1, n2, l1, l2, before1, zero,
            LOW1, HIGH1, TAPS1, MODE1, SHORT1, LOW2, HIGH2, TAPS2, MODE2, SHORT2, False, ROWS,
        )  # fmt: skip
