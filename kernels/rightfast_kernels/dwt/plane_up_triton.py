"""One level up along the last two axes in one pass, by a Triton kernel: plane_triton.py's inverse.

A program goes down COLUMNS pairs of columns of the signal: each row of the four bands is read once
and spread along itself; as many rows as a sample needs stay in registers and are spread across. For
what an inverse needs past the ends: zeros, or a period. Taps as in line_triton.py, those of even
places (LOW1E, say) apart from those of odd ones (LOW1O).
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.dwt.border_triton import ZERO, place
from rightfast_kernels.dwt.line_triton import call_for


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
def row(
    band, k, c, valid, l1, l2, pitch, HALF2: tl.constexpr, MODE1: tl.constexpr,
    SHORT1: tl.constexpr, MODE2: tl.constexpr, SHORT2: tl.constexpr, HAS: tl.constexpr,
    INSIDE: tl.constexpr, zero,
):  # fmt: skip
    """The samples of row ``k`` of a band, as many as a sample of the signal needs."""
    values = ()
    if HAS:
        ok = valid
        if MODE1 == ZERO:
            lanes = c * 0 + k  # the interpreter makes numbers of a scalar's truth
            ok = valid & (lanes >= 0) & (lanes < l1)
        else:
            k = place(k, l1, MODE1, SHORT1)
        here = band + k * pitch
        ends = here + (c - (HALF2 - 1))
        for m in tl.static_range(HALF2):
            j = c - (HALF2 - 1 - m)
            if INSIDE:  # all of them at constant distances from one address
                value = tl.load(ends + m, mask=ok, other=0)
            elif MODE2 == ZERO:
                value = tl.load(here + j, mask=ok & (j >= 0) & (j < l2), other=0)
            else:
                j = place(tl.where(valid, j, 0), l2, MODE2, SHORT2)
                value = tl.load(here + j, mask=ok, other=0)
            values = values + (value.to(zero.dtype),)
    return values


@triton.jit
def rows(
    aa, ad, da, dd, k, c, valid, l1, l2, pitch, HALF2: tl.constexpr, MODE1: tl.constexpr,
    SHORT1: tl.constexpr, MODE2: tl.constexpr, SHORT2: tl.constexpr, HAS_AA: tl.constexpr,
    HAS_AD: tl.constexpr, HAS_DA: tl.constexpr, HAS_DD: tl.constexpr, INSIDE: tl.constexpr, zero,
):  # fmt: skip
    """`row` of each band."""
    return (
        row(
            aa, k, c, valid, l1, l2, pitch, HALF2, MODE1, SHORT1, MODE2, SHORT2, HAS_AA, INSIDE,
            zero,
        ),
        row(
            ad, k, c, valid, l1, l2, pitch, HALF2, MODE1, SHORT1, MODE2, SHORT2, HAS_AD, INSIDE,
            zero,
        ),
        row(
            da, k, c, valid, l1, l2, pitch, HALF2, MODE1, SHORT1, MODE2, SHORT2, HAS_DA, INSIDE,
            zero,
        ),
        row(
            dd, k, c, valid, l1, l2, pitch, HALF2, MODE1, SHORT1, MODE2, SHORT2, HAS_DD, INSIDE,
            zero,
        ),
    )  # fmt: skip


@triton.jit
def along(
    low, high, LOW: tl.constexpr, HIGH: tl.constexpr, HAS_LOW: tl.constexpr,
    HAS_HIGH: tl.constexpr, HALF: tl.constexpr, zero,
):  # fmt: skip
    """The samples of one phase, from a row of the low and of the high band."""
    total = zero
    if HAS_LOW:
        total = phase(low, LOW, HALF, zero)
    if HAS_HIGH:
        rest = phase(high, HIGH, HALF, zero)
        total = total + rest if HAS_LOW else rest
    return total


@triton.jit
def put(
    x, n, two, ok, n1, n2, pitch, a_even, a_odd, d_even, d_odd, LOW1: tl.constexpr,
    HIGH1: tl.constexpr, HALF1: tl.constexpr, zero,
):  # fmt: skip
    """Spreads rows across, for row ``n`` of the signal, and writes it."""
    even = phase(a_even, LOW1, HALF1, zero) + phase(d_even, HIGH1, HALF1, zero)
    odd = phase(a_odd, LOW1, HALF1, zero) + phase(d_odd, HIGH1, HALF1, zero)
    value = tl.join(even, odd).to(x.dtype.element_ty)
    lanes = two * 0 + n
    tl.store(x + n * pitch + two, value, mask=ok & (lanes >= 0) & (lanes < n1))


@triton.jit
def strip(
    aa, ad, da, dd, x, c, to, start, stop, n1, n2, l1, l2, pitch, pitch_band, before1, zero,
    LOW1E: tl.constexpr, LOW1O: tl.constexpr, HIGH1E: tl.constexpr, HIGH1O: tl.constexpr,
    HALF1: tl.constexpr, MODE1: tl.constexpr, SHORT1: tl.constexpr, LOW2E: tl.constexpr,
    LOW2O: tl.constexpr, HIGH2E: tl.constexpr, HIGH2O: tl.constexpr, HALF2: tl.constexpr,
    MODE2: tl.constexpr, SHORT2: tl.constexpr, HAS_AA: tl.constexpr, HAS_AD: tl.constexpr,
    HAS_DA: tl.constexpr, HAS_DD: tl.constexpr, INSIDE: tl.constexpr, BATCH: tl.constexpr,
    AHEAD: tl.constexpr,
):  # fmt: skip
    """Pairs ``start`` to ``stop`` of rows of the signal, BATCH of them a round."""
    FILL: tl.constexpr = (HALF1 - 1 + BATCH - 1) // BATCH * BATCH
    valid = to < n2
    two = to[:, None] + tl.arange(0, 2)[None, :]
    here = (two >= 0) & (two < n2)
    a_even, a_odd, d_even, d_odd = (), (), (), ()
    for _ in tl.static_range(HALF1 - 1):
        a_even, a_odd = a_even + (zero,), a_odd + (zero,)
        d_even, d_odd = d_even + (zero,), d_odd + (zero,)
    # The first rounds fill the window. All that a round reads is on its way before it writes.
    for m in range(start - FILL, stop, BATCH):
        if AHEAD > 0:
            for r in tl.static_range(BATCH):
                later = tl.minimum(tl.maximum(m + BATCH * AHEAD + r, 0), l1 - 1) * pitch_band
                later += tl.minimum(tl.maximum(c, 0), l2 - 1)
                if HAS_AA:
                    call_for(aa + later)
                if HAS_AD:
                    call_for(ad + later)
                if HAS_DA:
                    call_for(da + later)
                if HAS_DD:
                    call_for(dd + later)
        bands = ()
        for r in tl.static_range(BATCH):
            # A round may begin before the first row that is needed, and end after the last.
            needed = tl.minimum(tl.maximum(m + r, start - (HALF1 - 1)), stop - 1)
            bands = bands + rows(
                aa, ad, da, dd, needed, c, valid, l1, l2, pitch_band, HALF2, MODE1, SHORT1, MODE2,
                SHORT2, HAS_AA, HAS_AD, HAS_DA, HAS_DD, INSIDE, zero,
            )  # fmt: skip
        for r in tl.static_range(BATCH):
            low, high = bands[4 * r], bands[4 * r + 1]
            a_even = a_even + (along(low, high, LOW2E, HIGH2E, HAS_AA, HAS_AD, HALF2, zero),)
            a_odd = a_odd + (along(low, high, LOW2O, HIGH2O, HAS_AA, HAS_AD, HALF2, zero),)
            low, high = bands[4 * r + 2], bands[4 * r + 3]
            d_even = d_even + (along(low, high, LOW2E, HIGH2E, HAS_DA, HAS_DD, HALF2, zero),)
            d_odd = d_odd + (along(low, high, LOW2O, HIGH2O, HAS_DA, HAS_DD, HALF2, zero),)
            n = 2 * (m + r) - before1
            lanes = two * 0 + (m + r)
            ok = here & (lanes >= start) & (lanes < stop)
            put(
                x, n, two, ok, n1, n2, pitch, a_even, a_odd, d_even, d_odd, LOW1E, HIGH1E, HALF1,
                zero,
            )  # fmt: skip
            put(
                x, n + 1, two, ok, n1, n2, pitch, a_even, a_odd, d_even, d_odd, LOW1O, HIGH1O,
                HALF1, zero,
            )  # fmt: skip
            a_even, a_odd, d_even, d_odd = a_even[1:], a_odd[1:], d_even[1:], d_odd[1:]


@triton.jit(do_not_specialize=["n1", "l1", "before1", "half2", "tiles1", "tiles2", "run"])
def plane_up_kernel(
    aa, ad, da, dd, x, n1, n2, l1, l2, before1, half2, tiles1, tiles2, run,
    LOW1E: tl.constexpr, LOW1O: tl.constexpr, HIGH1E: tl.constexpr, HIGH1O: tl.constexpr,
    HALF1: tl.constexpr, MODE1: tl.constexpr, SHORT1: tl.constexpr, LOW2E: tl.constexpr,
    LOW2O: tl.constexpr, HIGH2E: tl.constexpr, HIGH2O: tl.constexpr, HALF2: tl.constexpr,
    MODE2: tl.constexpr, SHORT2: tl.constexpr, ODD2: tl.constexpr, EVEN: tl.constexpr,
    HAS_AA: tl.constexpr, HAS_AD: tl.constexpr, HAS_DA: tl.constexpr, HAS_DD: tl.constexpr,
    WIDE: tl.constexpr, ACC: tl.constexpr, COLUMNS: tl.constexpr, BATCH: tl.constexpr,
    AHEAD: tl.constexpr,
):  # fmt: skip
    """Pair m along an axis is the samples 2m - before and 2m + 1 - before; the first pair that
    holds a sample is before // 2. ``half2``, ODD2: before2 // 2, and the rest. WIDE: a plane has
    2^30 samples or more. AHEAD: how many rounds before they are read rows are asked for; 0: not."""
    program = tl.program_id(0)
    tile2, others = program % tiles2, program // tiles2
    start = (others % tiles1) * run + before1 // 2
    stop = tl.minimum(start + run, (n1 + before1 + 1) // 2)
    block = (others // tiles1).to(tl.int64)
    x += block * n1 * n2
    aa += block * l1 * l2
    ad += block * l1 * l2
    da += block * l1 * l2
    dd += block * l1 * l2
    c = half2 + tile2 * COLUMNS + tl.arange(0, COLUMNS)
    to = 2 * (c - half2) - ODD2
    zero = tl.zeros((COLUMNS,), ACC)
    if EVEN:
        n2 = tl.multiple_of(n2, 2)
    pitch, pitch_band = n2, l2
    if WIDE:
        pitch, pitch_band = n2 * tl.full((), 1, tl.int64), l2 * tl.full((), 1, tl.int64)
    begin = half2 + tile2 * COLUMNS
    if (begin >= HALF2 - 1) & (begin + COLUMNS <= l2):
        strip(
            aa, ad, da, dd, x, c, to, start, stop, n1, n2, l1, l2, pitch, pitch_band, before1, zero,
            LOW1E, LOW1O, HIGH1E, HIGH1O, HALF1, MODE1, SHORT1, LOW2E, LOW2O, HIGH2E, HIGH2O, HALF2,
            MODE2, SHORT2, HAS_AA, HAS_AD, HAS_DA, HAS_DD, True, BATCH, AHEAD,
        )  # fmt: skip
    else:
        strip(
            aa, ad, da, dd, x, c, to, start, stop, n1, n2, l1, l2, pitch, pitch_band, before1, zero,
            LOW1E, LOW1O, HIGH1E, HIGH1O, HALF1, MODE1, SHORT1, LOW2E, LOW2O, HIGH2E, HIGH2O, HALF2,
            MODE2, SHORT2, HAS_AA, HAS_AD, HAS_DA, HAS_DD, False, BATCH, AHEAD,
        )  # fmt: skip
