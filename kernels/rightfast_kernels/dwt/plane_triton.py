"""One level along the last two axes in one pass, by one Triton kernel.

A program goes down COLUMNS columns of the four bands: each row of the signal is read once and
filtered along itself; as many rows as there are taps stay in registers and are filtered across. For
modes that need one sample for each that is missing (those not in border_triton.WEIGHTED), and at
least four taps. Taps as in line_triton.py.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import triton
import triton.language as tl

from rightfast_kernels.dwt.border_triton import ZERO, place
from rightfast_kernels.dwt.line_triton import weighted


@triton.jit
def row_inside(x, first, ok, TAPS: tl.constexpr, zero):
    """The samples of one row for each tap, of columns that need nothing past its ends."""
    values = ()
    for k in tl.static_range(TAPS // 2):
        # Neighbours in one wide load.
        two = first[:, None] + 2 * k + tl.arange(0, 2)[None, :]
        even, odd = tl.split(tl.load(x + two, mask=ok[:, None], other=0).to(zero.dtype))
        values = values + (even, odd)
    return values


@triton.jit
def row_anywhere(
    x, first, n, ok, TAPS: tl.constexpr, MODE: tl.constexpr, SHORT: tl.constexpr, zero
):
    """The same of any columns."""
    values = ()
    for t in tl.static_range(TAPS):
        j = first + t
        if MODE == ZERO:
            value = tl.load(x + j, mask=ok & (j >= 0) & (j < n), other=0)
        else:
            j = tl.where(ok, j, 0)
            value = tl.load(x + place(j, n, MODE, SHORT), mask=ok, other=0)
        values = values + (value.to(zero.dtype),)
    return values


@triton.jit
def row(
    x, j, first, valid, n1, n2, pitch, LOW2: tl.constexpr, HIGH2: tl.constexpr, TAPS2: tl.constexpr,
    MODE1: tl.constexpr, SHORT1: tl.constexpr, MODE2: tl.constexpr, SHORT2: tl.constexpr,
    INSIDE: tl.constexpr, zero,
):  # fmt: skip
    """(low, high) along row ``j`` of the extended signal."""
    ok = valid
    if MODE1 == ZERO:
        lanes = first * 0 + j  # the interpreter makes numbers of a scalar's truth
        ok = valid & (lanes >= 0) & (lanes < n1)
    else:
        j = place(j, n1, MODE1, SHORT1)
    here = x + j * pitch
    if INSIDE:
        values = row_inside(here, first, ok, TAPS2, zero)
    else:
        values = row_anywhere(here, first, n2, ok, TAPS2, MODE2, SHORT2, zero)
    return weighted(values, LOW2, zero), weighted(values, HIGH2, zero)


@triton.jit
def strip(
    x, aa, ad, da, dd, first, valid, where, start, stop, n1, n2, l2, before1, zero,
    LOW1: tl.constexpr, HIGH1: tl.constexpr, TAPS1: tl.constexpr, MODE1: tl.constexpr,
    SHORT1: tl.constexpr, LOW2: tl.constexpr, HIGH2: tl.constexpr, TAPS2: tl.constexpr,
    MODE2: tl.constexpr, SHORT2: tl.constexpr, INSIDE: tl.constexpr,
):  # fmt: skip
    """Rows ``start`` to ``stop`` of the bands, one after another."""
    pitch = n2 * tl.full((), 1, tl.int64)
    lows, highs = (), ()
    for _ in tl.static_range(TAPS1 - 2):
        lows, highs = lows + (zero,), highs + (zero,)
    # The first rounds fill the window.
    for o in range(start - (TAPS1 // 2 - 1), stop):
        for t in tl.static_range(2):
            low, high = row(
                x, 2 * o + TAPS1 - 2 + t - before1, first, valid, n1, n2, pitch, LOW2, HIGH2,
                TAPS2, MODE1, SHORT1, MODE2, SHORT2, INSIDE, zero,
            )  # fmt: skip
            lows, highs = lows + (low,), highs + (high,)
        at = where + (o - start) * l2
        ok = valid & (first * 0 + o >= start)
        tl.store(aa + at, weighted(lows, LOW1, zero).to(aa.dtype.element_ty), mask=ok)
        tl.store(ad + at, weighted(highs, LOW1, zero).to(ad.dtype.element_ty), mask=ok)
        tl.store(da + at, weighted(lows, HIGH1, zero).to(da.dtype.element_ty), mask=ok)
        tl.store(dd + at, weighted(highs, HIGH1, zero).to(dd.dtype.element_ty), mask=ok)
        lows, highs = lows[2:], highs[2:]


@triton.jit(do_not_specialize=["n1", "l1", "before1", "half2", "tiles1", "tiles2", "rows"])
def plane_down_kernel(
    x, aa, ad, da, dd, n1, n2, l1, l2, before1, half2, tiles1, tiles2, rows,
    LOW1: tl.constexpr, HIGH1: tl.constexpr, TAPS1: tl.constexpr, MODE1: tl.constexpr,
    SHORT1: tl.constexpr, LOW2: tl.constexpr, HIGH2: tl.constexpr, TAPS2: tl.constexpr,
    MODE2: tl.constexpr, SHORT2: tl.constexpr, ODD2: tl.constexpr, EVEN: tl.constexpr,
    ACC: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """``half2``, ODD2: half the samples in front of a row, and the rest. EVEN: n2 is even."""
    program = tl.program_id(0)
    tile2, others = program % tiles2, program // tiles2
    start = (others % tiles1) * rows
    stop = tl.minimum(start + rows, l1)
    block = (others // tiles1).to(tl.int64)
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
        strip(
            x, aa, ad, da, dd, first, valid, where, start, stop, n1, n2, l2, before1, zero,
            LOW1, HIGH1, TAPS1, MODE1, SHORT1, LOW2, HIGH2, TAPS2, MODE2, SHORT2, True,
        )  # fmt: skip
    else:
        strip(
            x, aa, ad, da, dd, first, valid, where, start, stop, n1, n2, l2, before1, zero,
            LOW1, HIGH1, TAPS1, MODE1, SHORT1, LOW2, HIGH2, TAPS2, MODE2, SHORT2, False,
        )  # fmt: skip
