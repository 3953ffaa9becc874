"""One level along the last two axes in one pass, by one Triton kernel.

A program goes down COLUMNS columns of the four bands, EACH a thread: each row of the signal is read
once, in loads of WIDTH samples, and filtered along itself; as many rows as there are taps stay in
registers and are filtered across. For modes that need one sample for each that is missing (those
not in border_triton.WEIGHTED), and at least four taps. Taps as in line_triton.py.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.dwt.border_triton import ZERO, place
from rightfast_kernels.dwt.line_triton import call_for, weighted


@triton.jit
def parted(block, COUNT: tl.constexpr):
    """The COUNT columns of a block."""
    if COUNT == 1:
        return (tl.reshape(block, (block.shape[0],)),)
    elif COUNT == 2:
        a, b = tl.split(block)
        return (a, b)
    else:
        a, b = tl.split(tl.reshape(block, (block.shape[0], COUNT // 2, 2)))
        a, b = parted(a, COUNT // 2), parted(b, COUNT // 2)
        values = ()
        for k in tl.static_range(COUNT // 2):
            values = values + (a[k], b[k])
        return values


@triton.jit
def joined(values, COUNT: tl.constexpr):
    """The block of which `parted` makes ``values``: two or four."""
    if COUNT == 2:
        return tl.join(values[0], values[1])
    else:
        a, b = tl.join(values[0], values[2]), tl.join(values[1], values[3])
        return tl.reshape(tl.join(a, b), (values[0].shape[0], 4))


@triton.jit
def window(
    x, j, at, valid, n1, n2, pitch, LEAD: tl.constexpr, COUNT: tl.constexpr, WIDTH: tl.constexpr,
    MODE1: tl.constexpr, SHORT1: tl.constexpr, MODE2: tl.constexpr, SHORT2: tl.constexpr,
    INSIDE: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """COUNT samples of row ``j`` of an extended plane, from column ``at`` + LEAD on. INSIDE: of
    columns that need nothing past the ends of a row."""
    ok = valid
    if MODE1 == ZERO:
        lanes = at * 0 + j  # the interpreter makes numbers of a scalar's truth
        ok = valid & (lanes >= 0) & (lanes < n1)
    else:
        j = place(j, n1, MODE1, SHORT1)
    here = x + j * pitch
    values = ()
    if INSIDE:
        # Wide loads at constant distances from one address; neighbours' overlap, in the L1 cache.
        wide = here + (at[:, None] + tl.arange(0, WIDTH)[None, :])
        for k in tl.static_range((LEAD + COUNT + WIDTH - 1) // WIDTH):
            if MODE1 == ZERO:
                block = tl.load(wide + WIDTH * k, mask=ok[:, None], other=0)
            else:
                block = tl.load(wide + WIDTH * k)
            values = values + parted(block.to(ACC), WIDTH)
        return values[LEAD : LEAD + COUNT]
    else:
        for t in tl.static_range(COUNT):
            i = at + (LEAD + t)
            if MODE2 == ZERO:
                value = tl.load(here + i, mask=ok & (i >= 0) & (i < n2), other=0)
            else:
                i = place(tl.where(valid, i, 0), n2, MODE2, SHORT2)
                value = tl.load(here + i, mask=ok, other=0)
            values = values + (value.to(ACC),)
        return values


@triton.jit
def put(to, values, c, ok, n2, COUNT: tl.constexpr, WHOLE: tl.constexpr):
    """Writes COUNT values side by side, from column ``c`` of a row of ``n2``. WHOLE: all of them
    are in the row, or none, and in one store."""
    if WHOLE:
        places = c[:, None] + tl.arange(0, COUNT)[None, :]
        mask = ok & (c >= 0) & (c < n2)
        tl.store(to + places, joined(values, COUNT).to(to.dtype.element_ty), mask=mask[:, None])
    else:
        for k in tl.static_range(COUNT):
            mask = ok & (c + k >= 0) & (c + k < n2)
            tl.store(to + (c + k), values[k].to(to.dtype.element_ty), mask=mask)


@triton.jit
def across(rows, TAPS: tl.constexpr, EACH: tl.constexpr, zero):
    """One row of a band, of the filtered rows of each column."""
    values = ()
    for k in tl.static_range(EACH):
        values = values + (weighted(rows[k], TAPS, zero),)
    return values


@triton.jit
def mine(c, shift, begin, STEP: tl.constexpr, MARGIN: tl.constexpr):
    """Whether this program writes column ``c`` of a row that begins at the element ``begin``: if
    the first of the MARGIN elements that are side by side in memory is among its STEP columns."""
    first = shift - ((begin + c) & (MARGIN - 1)).to(tl.int32)
    return (first >= 0) & (first < STEP)


@triton.jit
def strip(
    x, aa, ad, da, dd, c, at, shift, phase, phase_low, start, stop, n1, n2, l2, pitch, pitch_low,
    pitch_band, before1, zero,
    LOW1: tl.constexpr, HIGH1: tl.constexpr, TAPS1: tl.constexpr, MODE1: tl.constexpr,
    SHORT1: tl.constexpr, LOW2: tl.constexpr, HIGH2: tl.constexpr, TAPS2: tl.constexpr,
    MODE2: tl.constexpr, SHORT2: tl.constexpr, LEAD: tl.constexpr, WIDTH: tl.constexpr,
    EACH: tl.constexpr, WHOLE: tl.constexpr, STEP: tl.constexpr, MARGIN: tl.constexpr,
    BATCH: tl.constexpr, AHEAD: tl.constexpr, INSIDE: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Rows ``start`` to ``stop`` of the bands, BATCH of them a round."""
    FILL: tl.constexpr = (TAPS1 // 2 - 1 + BATCH - 1) // BATCH * BATCH
    last = 2 * stop - 2 + TAPS1 - 1 - before1
    valid = (c + (EACH - 1) >= 0) & (c < l2)
    lows, highs = (), ()  # filtered rows, of each column
    for _ in tl.static_range(EACH):
        none = ()
        for _ in tl.static_range(TAPS1 - 2):
            none = none + (zero,)
        lows, highs = lows + (none,), highs + (none,)
    # The first rounds fill the window. All that a round reads is on its way before it writes.
    for o in range(start - FILL, stop, BATCH):
        if AHEAD > 0:
            for r in tl.static_range(2 * BATCH):
                j = 2 * (o + BATCH * AHEAD) + TAPS1 - 2 - before1 + r
                later = x + tl.minimum(tl.maximum(j, 0), n1 - 1) * pitch
                call_for(later + tl.minimum(tl.maximum(at, 0), n2 - 1))
        rows = ()
        for r in tl.static_range(2 * BATCH):
            # A round may begin before the first row that is needed, and end after the last.
            j = tl.maximum(2 * o + TAPS1 - 2 - before1 + r, 2 * start - before1)
            rows = rows + (
                window(
                    x, tl.minimum(j, last), at, valid, n1, n2, pitch, LEAD,
                    2 * (EACH - 1) + TAPS2, WIDTH, MODE1, SHORT1, MODE2, SHORT2, INSIDE, ACC,
                ),
            )  # fmt: skip
        for b in tl.static_range(BATCH):
            even, odd = rows[2 * b], rows[2 * b + 1]
            low, high = (), ()
            for k in tl.static_range(EACH):
                a = weighted(even[2 * k :], LOW2, zero), weighted(odd[2 * k :], LOW2, zero)
                d = weighted(even[2 * k :], HIGH2, zero), weighted(odd[2 * k :], HIGH2, zero)
                low, high = low + (lows[k] + a,), high + (highs[k] + d,)
            lanes = c * 0 + (o + b)
            ok = (lanes >= start) & (lanes < stop)
            to = (o + b) * pitch_low
            own = ok & mine(c, shift, phase_low + to, STEP, MARGIN)
            put(aa + to, across(low, LOW1, EACH, zero), c, own, l2, EACH, WHOLE)
            to = (o + b) * pitch_band
            ok = ok & mine(c, shift, phase + to, STEP, MARGIN)
            put(ad + to, across(high, LOW1, EACH, zero), c, ok, l2, EACH, WHOLE)
            put(da + to, across(low, HIGH1, EACH, zero), c, ok, l2, EACH, WHOLE)
            put(dd + to, across(high, HIGH1, EACH, zero), c, ok, l2, EACH, WHOLE)
            lows, highs = (), ()
            for k in tl.static_range(EACH):
                lows, highs = lows + (low[k][2:],), highs + (high[k][2:],)


@triton.jit(do_not_specialize=["n1", "l1", "before1", "tiles1", "tiles2", "rows"])
def plane_down_kernel(
    x, aa, ad, da, dd, n1, n2, l1, l2, pitch, pitch_low, before1, tiles1, tiles2, rows,
    LOW1: tl.constexpr, HIGH1: tl.constexpr, TAPS1: tl.constexpr, MODE1: tl.constexpr,
    SHORT1: tl.constexpr, LOW2: tl.constexpr, HIGH2: tl.constexpr, TAPS2: tl.constexpr,
    MODE2: tl.constexpr, SHORT2: tl.constexpr, BEFORE2: tl.constexpr, WIDTH: tl.constexpr,
    EACH: tl.constexpr, WHOLE: tl.constexpr, WIDE: tl.constexpr, ACC: tl.constexpr,
    STEP: tl.constexpr, MARGIN: tl.constexpr, BATCH: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """``pitch``: from one row of x to the next, WIDTH divides it; ``pitch_low``: of aa. WHOLE: EACH
    divides l2 and pitch_low. WIDE: a plane has 2^30 samples or more. STEP: columns that a program
    writes, of the STEP + MARGIN that it computes. AHEAD: how many rounds before they are read rows
    are asked for; 0: not."""
    program = tl.program_id(0)
    tile2, others = program % tiles2, program // tiles2
    start = (others % tiles1) * rows
    stop = tl.minimum(start + rows, l1)
    block = (others // tiles1).to(tl.int64)
    # The same numbers; the compiler now knows how loads and stores are aligned.
    pitch = pitch // WIDTH * WIDTH
    if WHOLE:
        l2, pitch_low = l2 // EACH * EACH, pitch_low // EACH * EACH
    x += block * n1 * pitch
    aa += block * l1 * pitch_low
    ad += block * l1 * l2
    da += block * l1 * l2
    dd += block * l1 * l2
    # Where a row of a band begins is rarely where a sector of memory does, and what is written to a
    # part of a sector is slow. So each program writes whole ones, which begin a little earlier or
    # later in each row, and a few columns are computed by two programs.
    phase = (block * l1 * l2 % MARGIN).to(tl.int32)
    phase_low = (block * l1 * pitch_low % MARGIN).to(tl.int32)
    shift = EACH * tl.arange(0, (STEP + MARGIN) // EACH) - 1
    begin = tile2 * STEP - MARGIN
    c = begin + EACH * tl.arange(0, (STEP + MARGIN) // EACH)
    LEAD: tl.constexpr = -BEFORE2 % WIDTH  # from where a wide load begins to the first sample
    END: tl.constexpr = LEAD + 2 * (EACH - 1) + TAPS2  # of a thread's samples
    at = 2 * c - (BEFORE2 + LEAD)
    first = 2 * begin - (BEFORE2 + LEAD)
    last = first + 2 * (STEP + MARGIN - EACH) + (END + WIDTH - 1) // WIDTH * WIDTH
    zero = tl.zeros(((STEP + MARGIN) // EACH,), ACC)
    pitch_band = l2
    if WIDE:  # twice a length may not fit 32 bits
        one = tl.full((), 1, tl.int64)
        n1, n2, pitch, pitch_low, pitch_band = (
            n1 * one,
            n2 * one,
            pitch * one,
            pitch_low * one,
            l2 * one,
        )
    if (first >= 0) & (last <= n2):
        strip(
            x, aa, ad, da, dd, c, at, shift, phase, phase_low, start, stop, n1, n2, l2, pitch,
            pitch_low, pitch_band, before1, zero,
            LOW1, HIGH1, TAPS1, MODE1, SHORT1, LOW2, HIGH2, TAPS2, MODE2, SHORT2, LEAD, WIDTH,
            EACH, WHOLE, STEP, MARGIN, BATCH, AHEAD, True, ACC,
        )  # fmt: skip
    else:
        strip(
            x, aa, ad, da, dd, c, at, shift, phase, phase_low, start, stop, n1, n2, l2, pitch,
            pitch_low, pitch_band, before1, zero,
            LOW1, HIGH1, TAPS1, MODE1, SHORT1, LOW2, HIGH2, TAPS2, MODE2, SHORT2, LEAD, WIDTH,
            EACH, WHOLE, STEP, MARGIN, BATCH, AHEAD, False, ACC,
        )  # fmt: skip
