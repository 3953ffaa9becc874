"""One level up along the last two axes in one pass, by a Triton kernel: plane_triton.py's inverse.

A program goes down COLUMNS pairs of columns of the signal, EACH a thread: each row of the four
bands is read once and spread along itself; as many rows as a sample needs stay in registers and are
spread across. For what an inverse needs past the ends: zeros, or a period. Taps as in
line_triton.py, those of even places (LOW1E, say) apart from those of odd ones (LOW1O).
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.dwt.plane_triton import put, window


@triton.jit
def phase(values, TAPS: tl.constexpr, HALF: tl.constexpr, zero):
    """The sum of tap * sample for one phase; values[HALF - 1 - m] is m samples back."""
    total = zero
    if len(TAPS) > 0:
        total = TAPS[0][1] * values[HALF - 1 - TAPS[0][0] // 2]
        for k in tl.static_range(1, len(TAPS)):
            total += TAPS[k][1] * values[HALF - 1 - TAPS[k][0] // 2]
    return total


@triton.jit
def sums(
    low, high, LOW: tl.constexpr, HIGH: tl.constexpr, HAS_LOW: tl.constexpr,
    HAS_HIGH: tl.constexpr, HALF: tl.constexpr, zero,
):  # fmt: skip
    """`phase` of both bands."""
    total = zero
    if HAS_LOW:
        total = phase(low, LOW, HALF, zero)
    if HAS_HIGH:
        rest = phase(high, HIGH, HALF, zero)
        total = total + rest if HAS_LOW else rest
    return total


@triton.jit
def spread(
    low, high, LOWE: tl.constexpr, LOWO: tl.constexpr, HIGHE: tl.constexpr, HIGHO: tl.constexpr,
    HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr, HALF: tl.constexpr, EACH: tl.constexpr, zero,
):  # fmt: skip
    """EACH pairs of samples, from a row of the low and of the high band."""
    values = ()
    for k in tl.static_range(EACH):
        values = values + (
            sums(low[k:], high[k:], LOWE, HIGHE, HAS_LOW, HAS_HIGH, HALF, zero),
            sums(low[k:], high[k:], LOWO, HIGHO, HAS_LOW, HAS_HIGH, HALF, zero),
        )
    return values


@triton.jit
def across(
    a, d, LOW: tl.constexpr, HIGH: tl.constexpr, HALF: tl.constexpr, COUNT: tl.constexpr, zero
):  # fmt: skip
    """One row of the signal, from the spread rows of COUNT columns."""
    values = ()
    for k in tl.static_range(COUNT):
        values = values + (phase(a[k], LOW, HALF, zero) + phase(d[k], HIGH, HALF, zero),)
    return values


@triton.jit
def read(
    band, j, at, valid, l1, l2, pitch, LEAD: tl.constexpr, COUNT: tl.constexpr, WIDTH: tl.constexpr,
    MODE1: tl.constexpr, SHORT1: tl.constexpr, MODE2: tl.constexpr, SHORT2: tl.constexpr,
    HAS: tl.constexpr, INSIDE: tl.constexpr, zero,
):  # fmt: skip
    """COUNT coefficients of row ``j`` of a band, for each thread."""
    values = ()
    if HAS:
        values = window(
            band, j, at, valid, l1, l2, pitch, LEAD, COUNT, WIDTH, MODE1, SHORT1, MODE2, SHORT2,
            INSIDE, zero.dtype,
        )  # fmt: skip
    return values


@triton.jit
def strip(
    aa, ad, da, dd, x, at, to, start, stop, n1, n2, l1, l2, pitch, pitch_low, pitch_band, before1,
    zero, LOW1E: tl.constexpr, LOW1O: tl.constexpr, HIGH1E: tl.constexpr, HIGH1O: tl.constexpr,
    HALF1: tl.constexpr, MODE1: tl.constexpr, SHORT1: tl.constexpr, LOW2E: tl.constexpr,
    LOW2O: tl.constexpr, HIGH2E: tl.constexpr, HIGH2O: tl.constexpr, HALF2: tl.constexpr,
    MODE2: tl.constexpr, SHORT2: tl.constexpr, HAS_AA: tl.constexpr, HAS_AD: tl.constexpr,
    HAS_DA: tl.constexpr, HAS_DD: tl.constexpr, LEAD: tl.constexpr, WIDTH: tl.constexpr,
    EACH: tl.constexpr, WHOLE: tl.constexpr, BATCH: tl.constexpr, INSIDE: tl.constexpr,
):  # fmt: skip
    """Pairs ``start`` to ``stop`` of rows of the signal, BATCH of them a round."""
    FILL: tl.constexpr = (HALF1 - 1 + BATCH - 1) // BATCH * BATCH
    COUNT: tl.constexpr = HALF2 + EACH - 1
    valid = (to + (2 * EACH - 1) >= 0) & (to < n2)
    a, d = (), ()  # spread rows, of each column
    for _ in tl.static_range(2 * EACH):
        none = ()
        for _ in tl.static_range(HALF1 - 1):
            none = none + (zero,)
        a, d = a + (none,), d + (none,)
    # The first rounds fill the window. All that a round reads is on its way before it writes.
    for m in range(start - FILL, stop, BATCH):
        rows = ()
        for r in tl.static_range(BATCH):
            # A round may begin before the first row that is needed, and end after the last.
            j = tl.minimum(tl.maximum(m + r, start - (HALF1 - 1)), stop - 1)
            rows = rows + (
                read(
                    aa, j, at, valid, l1, l2, pitch_low, LEAD, COUNT, WIDTH, MODE1, SHORT1, MODE2,
                    SHORT2, HAS_AA, INSIDE, zero,
                ),
                read(
                    ad, j, at, valid, l1, l2, pitch_band, LEAD, COUNT, WIDTH, MODE1, SHORT1, MODE2,
                    SHORT2, HAS_AD, INSIDE, zero,
                ),
                read(
                    da, j, at, valid, l1, l2, pitch_band, LEAD, COUNT, WIDTH, MODE1, SHORT1, MODE2,
                    SHORT2, HAS_DA, INSIDE, zero,
                ),
                read(
                    dd, j, at, valid, l1, l2, pitch_band, LEAD, COUNT, WIDTH, MODE1, SHORT1, MODE2,
                    SHORT2, HAS_DD, INSIDE, zero,
                ),
            )  # fmt: skip
        for b in tl.static_range(BATCH):
            more_a = spread(
                rows[4 * b], rows[4 * b + 1], LOW2E, LOW2O, HIGH2E, HIGH2O, HAS_AA, HAS_AD, HALF2,
                EACH, zero,
            )  # fmt: skip
            more_d = spread(
                rows[4 * b + 2], rows[4 * b + 3], LOW2E, LOW2O, HIGH2E, HIGH2O, HAS_DA, HAS_DD,
                HALF2, EACH, zero,
            )  # fmt: skip
            later_a, later_d = (), ()
            for k in tl.static_range(2 * EACH):
                later_a = later_a + (a[k] + (more_a[k],),)
                later_d = later_d + (d[k] + (more_d[k],),)
            n = 2 * (m + b) - before1
            lanes = to * 0 + (m + b)
            ok = (lanes >= start) & (lanes < stop)
            even = across(later_a, later_d, LOW1E, HIGH1E, HALF1, 2 * EACH, zero)
            odd = across(later_a, later_d, LOW1O, HIGH1O, HALF1, 2 * EACH, zero)
            lanes = to * 0 + n
            here = x + n * pitch
            put(here, even, to, ok & (lanes >= 0) & (lanes < n1), n2, 2 * EACH, WHOLE)
            ok = ok & (lanes + 1 >= 0) & (lanes + 1 < n1)
            put(here + pitch, odd, to, ok, n2, 2 * EACH, WHOLE)
            a, d = (), ()
            for k in tl.static_range(2 * EACH):
                a, d = a + (later_a[k][1:],), d + (later_d[k][1:],)


@triton.jit(do_not_specialize=["n1", "l1", "before1", "tiles1", "tiles2", "run"])
def plane_up_kernel(
    aa, ad, da, dd, x, n1, n2, l1, l2, pitch, pitch_low, before1, tiles1, tiles2, run,
    LOW1E: tl.constexpr, LOW1O: tl.constexpr, HIGH1E: tl.constexpr, HIGH1O: tl.constexpr,
    HALF1: tl.constexpr, MODE1: tl.constexpr, SHORT1: tl.constexpr, LOW2E: tl.constexpr,
    LOW2O: tl.constexpr, HIGH2E: tl.constexpr, HIGH2O: tl.constexpr, HALF2: tl.constexpr,
    MODE2: tl.constexpr, SHORT2: tl.constexpr, BEFORE2: tl.constexpr, HAS_AA: tl.constexpr,
    HAS_AD: tl.constexpr, HAS_DA: tl.constexpr, HAS_DD: tl.constexpr, WIDTH: tl.constexpr,
    EACH: tl.constexpr, WHOLE: tl.constexpr, WIDE: tl.constexpr, ACC: tl.constexpr,
    COLUMNS: tl.constexpr, BATCH: tl.constexpr,
):  # fmt: skip
    """Pair m along an axis is the samples 2m - before and 2m + 1 - before; the first pair that
    holds a sample is before // 2. ``pitch``: from one row of x to the next; ``pitch_low``: of aa.
    WIDTH: of a load, divides l2 and pitch_low. WHOLE: twice EACH divides ``pitch``, and BEFORE2 is
    even. WIDE: a plane has 2^30 samples or more."""
    program = tl.program_id(0)
    tile2, others = program % tiles2, program // tiles2
    start = (others % tiles1) * run + before1 // 2
    stop = tl.minimum(start + run, (n1 + before1 + 1) // 2)
    block = (others // tiles1).to(tl.int64)
    # The same numbers; the compiler now knows how loads and stores are aligned.
    l2, pitch_low = l2 // WIDTH * WIDTH, pitch_low // WIDTH * WIDTH
    if WHOLE:
        pitch = pitch // (2 * EACH) * (2 * EACH)
    x += block * n1 * pitch
    aa += block * l1 * pitch_low
    ad += block * l1 * l2
    da += block * l1 * l2
    dd += block * l1 * l2
    own = tile2 * COLUMNS
    pair = own + EACH * tl.arange(0, COLUMNS // EACH)
    FIRST: tl.constexpr = BEFORE2 // 2 - (HALF2 - 1)  # coefficient that the first pair needs
    LEAD: tl.constexpr = FIRST % WIDTH  # from where a wide load begins to the first of them
    begin = own + (FIRST - LEAD)
    at = pair + (FIRST - LEAD)
    to = 2 * pair - BEFORE2 % 2
    zero = tl.zeros((COLUMNS // EACH,), ACC)
    pitch_band = l2
    if WIDE:
        one = tl.full((), 1, tl.int64)
        pitch, pitch_low, pitch_band = pitch * one, pitch_low * one, l2 * one
    END: tl.constexpr = LEAD + HALF2 + EACH - 1  # of a thread's coefficients
    if (begin >= 0) & (begin + COLUMNS - EACH + (END + WIDTH - 1) // WIDTH * WIDTH <= l2):
        strip(
            aa, ad, da, dd, x, at, to, start, stop, n1, n2, l1, l2, pitch, pitch_low,
            pitch_band, before1, zero, LOW1E, LOW1O, HIGH1E, HIGH1O, HALF1, MODE1, SHORT1, LOW2E,
            LOW2O, HIGH2E, HIGH2O, HALF2, MODE2, SHORT2, HAS_AA, HAS_AD, HAS_DA, HAS_DD, LEAD,
            WIDTH, EACH, WHOLE, BATCH, True,
        )  # fmt: skip
    else:
        strip(
            aa, ad, da, dd, x, at, to, start, stop, n1, n2, l1, l2, pitch, pitch_low,
            pitch_band, before1, zero, LOW1E, LOW1O, HIGH1E, HIGH1O, HALF1, MODE1, SHORT1, LOW2E,
            LOW2O, HIGH2E, HIGH2O, HALF2, MODE2, SHORT2, HAS_AA, HAS_AD, HAS_DA, HAS_DD, LEAD,
            WIDTH, EACH, WHOLE, BATCH, False,
        )  # fmt: skip
