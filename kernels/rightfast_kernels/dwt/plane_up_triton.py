"""One level up along the last two axes in one pass, by one Triton kernel: plane_triton.py's inverse.

A program goes down COLUMNS pairs of columns of the signal: each row of the four bands is read once
and spread along itself; as many rows as a sample needs stay in registers and are spread across. For
what an inverse needs past the ends: zeros, or a period. Taps as in line_triton.py, those of even
places (LOW1E, say) apart from those of odd ones (LOW1O).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import triton
import triton.language as tl

from rightfast_kernels.dwt.border_triton import ZERO, place


@triton.jit
def phase(values, TAPS: tl.constexpr, HALF: tl.constexpr, zero):
    """The sum of tap * sample for one phase; values[HALF - 1 - m] is m samples back."""
    total = zero
    for k in tl.static_range(len(TAPS)):
        total += TAPS[k][1] * values[HALF - 1 - TAPS[k][0] // 2]
    return total


@triton.jit
def along(
    band, c, ok, length, EVENS: tl.constexpr, ODDS: tl.constexpr, HALF: tl.constexpr,
    MODE: tl.constexpr, SHORT: tl.constexpr, zero,
):  # fmt: skip
    """(even, odd) samples of one row of a band spread along itself."""
    values = ()
    for m in tl.static_range(HALF):
        j = c - (HALF - 1 - m)
        if MODE == ZERO:
            value = tl.load(band + j, mask=ok & (j >= 0) & (j < length), other=0)
        else:
            j = tl.where(ok, j, 0)
            value = tl.load(band + place(j, length, MODE, SHORT), mask=ok, other=0)
        values = values + (value.to(zero.dtype),)
    return phase(values, EVENS, HALF, zero), phase(values, ODDS, HALF, zero)


@triton.jit
def both_along(
    low, high, c, ok, length, LOWE: tl.constexpr, LOWO: tl.constexpr, HIGHE: tl.constexpr,
    HIGHO: tl.constexpr, HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr, HALF: tl.constexpr,
    MODE: tl.constexpr, SHORT: tl.constexpr, zero,
):  # fmt: skip
    """(even, odd) samples of one row from its low and its high band."""
    even, odd = zero, zero
    if HAS_LOW:
        even, odd = along(low, c, ok, length, LOWE, LOWO, HALF, MODE, SHORT, zero)
    if HAS_HIGH:
        more, rest = along(high, c, ok, length, HIGHE, HIGHO, HALF, MODE, SHORT, zero)
        even, odd = even + more, odd + rest
    return even, odd


@triton.jit
def rows_along(
    aa, ad, da, dd, k, c, valid, l1, l2,
    HALF1: tl.constexpr, MODE1: tl.constexpr, SHORT1: tl.constexpr, LOW2E: tl.constexpr,
    LOW2O: tl.constexpr, HIGH2E: tl.constexpr, HIGH2O: tl.constexpr, HALF2: tl.constexpr,
    MODE2: tl.constexpr, SHORT2: tl.constexpr, HAS_AA: tl.constexpr, HAS_AD: tl.constexpr,
    HAS_DA: tl.constexpr, HAS_DD: tl.constexpr, zero,
):  # fmt: skip
    """(even, odd) samples of row ``k`` of the low bands, and of the high ones, side by side."""
    ok = valid
    if MODE1 == ZERO:
        lanes = c * 0 + k  # the interpreter makes numbers of a scalar's truth
        ok = valid & (lanes >= 0) & (lanes < l1)
    else:
        k = place(k, l1, MODE1, SHORT1)
    at = k * (l2 * tl.full((), 1, tl.int64))
    even, odd = both_along(
        aa + at, ad + at, c, ok, l2, LOW2E, LOW2O, HIGH2E, HIGH2O, HAS_AA, HAS_AD, HALF2, MODE2,
        SHORT2, zero,
    )  # fmt: skip
    more, rest = both_along(
        da + at, dd + at, c, ok, l2, LOW2E, LOW2O, HIGH2E, HIGH2O, HAS_DA, HAS_DD, HALF2, MODE2,
        SHORT2, zero,
    )  # fmt: skip
    return even, odd, more, rest


@triton.jit
def put(
    x, n, two, ok, n1, n2, a_even, a_odd, d_even, d_odd, LOW1: tl.constexpr, HIGH1: tl.constexpr,
    HALF1: tl.constexpr, zero,
):  # fmt: skip
    """Spreads rows across, for row ``n`` of the signal, and writes it."""
    even = phase(a_even, LOW1, HALF1, zero) + phase(d_even, HIGH1, HALF1, zero)
    odd = phase(a_odd, LOW1, HALF1, zero) + phase(d_odd, HIGH1, HALF1, zero)
    value = tl.join(even, odd).to(x.dtype.element_ty)
    lanes = two * 0 + n
    ok = ok[:, None] & (two >= 0) & (two < n2) & (lanes >= 0) & (lanes < n1)
    tl.store(x + n * (n2 * tl.full((), 1, tl.int64)) + two, value, mask=ok)


@triton.jit(do_not_specialize=["n1", "l1", "before1", "half2", "tiles1", "tiles2", "rows"])
def plane_up_kernel(
    aa, ad, da, dd, x, n1, n2, l1, l2, before1, half2, tiles1, tiles2, rows,
    LOW1E: tl.constexpr, LOW1O: tl.constexpr, HIGH1E: tl.constexpr, HIGH1O: tl.constexpr,
    HALF1: tl.constexpr, MODE1: tl.constexpr, SHORT1: tl.constexpr, LOW2E: tl.constexpr,
    LOW2O: tl.constexpr, HIGH2E: tl.constexpr, HIGH2O: tl.constexpr, HALF2: tl.constexpr,
    MODE2: tl.constexpr, SHORT2: tl.constexpr, ODD2: tl.constexpr, EVEN: tl.constexpr,
    HAS_AA: tl.constexpr, HAS_AD: tl.constexpr, HAS_DA: tl.constexpr, HAS_DD: tl.constexpr,
    ACC: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Pair m along an axis is the samples 2m - before and 2m + 1 - before; the first pair that
    holds a sample is before // 2. ``half2``, ODD2: before2 // 2, and the rest."""
    program = tl.program_id(0)
    tile2, others = program % tiles2, program // tiles2
    start = (others % tiles1) * rows + before1 // 2
    stop = tl.minimum(start + rows, (n1 + before1 + 1) // 2)
    block = (others // tiles1).to(tl.int64)
    x += block * n1 * n2
    aa += block * l1 * l2
    ad += block * l1 * l2
    da += block * l1 * l2
    dd += block * l1 * l2
    c = half2 + tile2 * COLUMNS + tl.arange(0, COLUMNS)
    to = 2 * (c - half2) - ODD2
    valid = to < n2
    zero = tl.zeros((COLUMNS,), ACC)
    if EVEN:
        n2 = tl.multiple_of(n2, 2)
    two = to[:, None] + tl.arange(0, 2)[None, :]
    a_even, a_odd, d_even, d_odd = (), (), (), ()
    for _ in tl.static_range(HALF1 - 1):
        a_even, a_odd = a_even + (zero,), a_odd + (zero,)
        d_even, d_odd = d_even + (zero,), d_odd + (zero,)
    # The first rounds fill the window.
    for m in range(start - (HALF1 - 1), stop):
        even, odd, more, rest = rows_along(
            aa, ad, da, dd, m, c, valid, l1, l2, HALF1, MODE1, SHORT1,
            LOW2E, LOW2O, HIGH2E, HIGH2O, HALF2, MODE2, SHORT2, HAS_AA, HAS_AD, HAS_DA, HAS_DD,
            zero,
        )  # fmt: skip
        a_even, a_odd = a_even + (even,), a_odd + (odd,)
        d_even, d_odd = d_even + (more,), d_odd + (rest,)
        n = 2 * m - before1
        ok = valid & (c * 0 + m >= start)
        put(x, n, two, ok, n1, n2, a_even, a_odd, d_even, d_odd, LOW1E, HIGH1E, HALF1, zero)
        put(x, n + 1, two, ok, n1, n2, a_even, a_odd, d_even, d_odd, LOW1O, HIGH1O, HALF1, zero)
        a_even, a_odd, d_even, d_odd = a_even[1:], a_odd[1:], d_even[1:], d_odd[1:]
