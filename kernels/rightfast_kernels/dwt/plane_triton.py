"""One level along the last two axes in one pass, by one Triton kernel.

A program goes down COLUMNS columns of the four bands: each row of the signal is read once and
filtered along itself; as many rows as there are taps stay in registers and are filtered across. For
modes that need one sample for each that is missing (those not in border_triton.WEIGHTED), and at
least four taps. Taps as in line_triton.py.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.dwt.border_triton import ZERO, place
from rightfast_kernels.dwt.line_triton import call_for, weighted


@triton.jit
def row(
    x, j, first, valid, n1, n2, pitch, TAPS2: tl.constexpr, MODE1: tl.constexpr,
    SHORT1: tl.constexpr, MODE2: tl.constexpr, SHORT2: tl.constexpr, INSIDE: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """The samples of row ``j`` of the extended signal, for each tap. INSIDE: of columns that need
    nothing past the ends of a row."""
    ok = valid
    if MODE1 == ZERO:
        lanes = first * 0 + j  # the interpreter makes numbers of a scalar's truth
        ok = valid & (lanes >= 0) & (lanes < n1)
    else:
        j = place(j, n1, MODE1, SHORT1)
    here = x + j * pitch
    values = ()
    if INSIDE:
        # Neighbours in one wide load, all of them at constant distances from one address.
        two = here + (first[:, None] + tl.arange(0, 2)[None, :])
        for k in tl.static_range(TAPS2 // 2):
            if MODE1 == ZERO:
                both = tl.load(two + 2 * k, mask=ok[:, None], other=0)
            else:
                both = tl.load(two + 2 * k)
            even, odd = tl.split(both.to(ACC))
            values = values + (even, odd)
    else:
        for t in tl.static_range(TAPS2):
            i = first + t
            if MODE2 == ZERO:
                value = tl.load(here + i, mask=ok & (i >= 0) & (i < n2), other=0)
            else:
                i = place(tl.where(valid, i, 0), n2, MODE2, SHORT2)
                value = tl.load(here + i, mask=ok, other=0)
            values = values + (value.to(ACC),)
    return values


@triton.jit
def strip(
    x, aa, ad, da, dd, c, first, valid, shift, phase, where,
            start, stop, n1, n2, l2, pitch, before1, zero,
    LOW1: tl.constexpr, HIGH1: tl.constexpr, TAPS1: tl.constexpr, MODE1: tl.constexpr,
    SHORT1: tl.constexpr, LOW2: tl.constexpr, HIGH2: tl.constexpr, TAPS2: tl.constexpr,
    MODE2: tl.constexpr, SHORT2: tl.constexpr, INSIDE: tl.constexpr, BATCH: tl.constexpr,
    AHEAD: tl.constexpr, MARGIN: tl.constexpr, COLUMNS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Rows ``start`` to ``stop`` of the bands, BATCH of them a round."""
    FILL: tl.constexpr = (TAPS1 // 2 - 1 + BATCH - 1) // BATCH * BATCH
    last = 2 * stop - 2 + TAPS1 - 1 - before1
    lows, highs = (), ()
    for _ in tl.static_range(TAPS1 - 2):
        lows, highs = lows + (zero,), highs + (zero,)
    # The first rounds fill the window. All that a round reads is on its way before it writes.
    for o in range(start - FILL, stop, BATCH):
        j = 2 * o + TAPS1 - 2 - before1
        if AHEAD > 0:
            for r in tl.static_range(2 * BATCH):
                later = tl.minimum(tl.maximum(j + 2 * BATCH * AHEAD + r, 0), n1 - 1) * pitch
                call_for(x + later + tl.minimum(tl.maximum(first, 0), n2 - 1))
        rows = ()
        for r in tl.static_range(2 * BATCH):
            # A round may begin before the first row that is needed, and end after the last.
            needed = tl.minimum(tl.maximum(j + r, 2 * start - before1), last)
            rows = rows + row(
                x, needed, first, valid, n1, n2, pitch, TAPS2, MODE1, SHORT1, MODE2, SHORT2,
                INSIDE, ACC,
            )  # fmt: skip
        for b in tl.static_range(BATCH):
            even = rows[2 * b * TAPS2 : (2 * b + 1) * TAPS2]
            odd = rows[(2 * b + 1) * TAPS2 : (2 * b + 2) * TAPS2]
            lows = lows + (weighted(even, LOW2, zero), weighted(odd, LOW2, zero))
            highs = highs + (weighted(even, HIGH2, zero), weighted(odd, HIGH2, zero))
            at = where + (o + b - start) * l2
            lanes = first * 0 + (o + b)
            ok = valid & (lanes >= start) & (lanes < stop)
            if MARGIN > 0:
                mine = shift - ((phase + (o + b) * l2 + c) & (MARGIN - 1))
                ok = ok & (mine >= 0) & (mine < COLUMNS - MARGIN)
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
    WIDE: tl.constexpr, ACC: tl.constexpr, COLUMNS: tl.constexpr, BATCH: tl.constexpr,
    AHEAD: tl.constexpr, MARGIN: tl.constexpr,
):  # fmt: skip
    """``half2``, ODD2: half the samples in front of a row, and the rest. EVEN: n2 is even. WIDE:
    a plane has 2^30 samples or more. AHEAD: how many rounds before they are read rows are asked
    for; 0: not. MARGIN: columns that two programs compute."""
    program = tl.program_id(0)
    tile2, others = program % tiles2, program // tiles2
    start = (others % tiles1) * rows
    stop = tl.minimum(start + rows, l1)
    block = (others // tiles1).to(tl.int64)
    x += block * n1 * n2
    aa += block * l1 * l2
    ad += block * l1 * l2
    da += block * l1 * l2
    dd += block * l1 * l2
    own = tile2 * (COLUMNS - MARGIN)
    c = own - MARGIN + tl.arange(0, COLUMNS)
    valid = (c >= 0) & (c < l2)
    # Where a row of a band begins is rarely where a sector of memory does; what two programs write
    # to one sector is slow. So each writes whole sectors, which begin a little earlier or later in
    # each row, and a few columns are computed by two programs.
    shift = c + (MARGIN - 1) - own
    phase = (block * l1 * l2 % MARGIN).to(tl.int32) if MARGIN > 0 else 0
    first = 2 * (c - half2) - ODD2
    zero = tl.zeros((COLUMNS,), ACC)
    if EVEN:
        n2 = tl.multiple_of(n2, 2)
    pitch = n2
    where = start * l2 + c
    if WIDE:  # twice a length may not fit 32 bits
        n1, n2 = n1 * tl.full((), 1, tl.int64), n2 * tl.full((), 1, tl.int64)
        pitch = n2
        where = start * (l2 * tl.full((), 1, tl.int64)) + c
    begin = 2 * (own - MARGIN - half2) - ODD2
    if (begin >= 0) & (begin + 2 * (COLUMNS - 1) + TAPS2 <= n2):
        strip(
            x, aa, ad, da, dd, c, first, valid, shift, phase, where,
            start, stop, n1, n2, l2, pitch, before1, zero,
            LOW1, HIGH1, TAPS1, MODE1, SHORT1, LOW2, HIGH2, TAPS2, MODE2, SHORT2, True,
            BATCH, AHEAD, MARGIN, COLUMNS, ACC,
        )  # fmt: skip
    else:
        strip(
            x, aa, ad, da, dd, c, first, valid, shift, phase, where,
            start, stop, n1, n2, l2, pitch, before1, zero,
            LOW1, HIGH1, TAPS1, MODE1, SHORT1, LOW2, HIGH2, TAPS2, MODE2, SHORT2, False,
            BATCH, AHEAD, MARGIN, COLUMNS, ACC,
        )  # fmt: skip
