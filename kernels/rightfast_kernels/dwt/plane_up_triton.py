"""One level up along the last two axes in one pass, by one Triton kernel: plane_triton.py's inverse.

A program makes ROWS pairs of rows by COLUMNS pairs of columns: each row of the four bands is read
once and spread along itself, into registers, then those rows are spread across. For what an inverse
needs past the ends: zeros, or a period. Taps as in line_triton.py, by parity of the sample.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import triton
import triton.language as tl

from rightfast_kernels.dwt.border_triton import ZERO, place


@triton.jit
def phase(values, TAPS: tl.constexpr, LENGTH: tl.constexpr, zero):
    """The sum of tap * sample for one phase; values[LENGTH - 1 - m] is m samples back."""
    total = zero
    for k in tl.static_range(len(TAPS)):
        total += TAPS[k][1] * values[LENGTH - 1 - TAPS[k][0] // 2]
    return total


@triton.jit
def along(
    band, c, ok, length, TAPS: tl.constexpr, HALF: tl.constexpr, MODE: tl.constexpr,
    SHORT: tl.constexpr, zero,
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
    return phase(values, TAPS[0], HALF, zero), phase(values, TAPS[1], HALF, zero)


@triton.jit
def both_along(
    low, high, row, c, ok, length, LOW: tl.constexpr, HIGH: tl.constexpr, HAS_LOW: tl.constexpr,
    HAS_HIGH: tl.constexpr, HALF: tl.constexpr, MODE: tl.constexpr, SHORT: tl.constexpr, zero,
):  # fmt: skip
    """(even, odd) samples of one row from its low and its high band."""
    even, odd = zero, zero
    if HAS_LOW:
        even, odd = along(low + row, c, ok, length, LOW, HALF, MODE, SHORT, zero)
    if HAS_HIGH:
        even_high, odd_high = along(high + row, c, ok, length, HIGH, HALF, MODE, SHORT, zero)
        even, odd = even + even_high, odd + odd_high
    return even, odd


@triton.jit(do_not_specialize=["n1", "l1", "before1", "half2", "tiles1", "tiles2"])
def plane_up_kernel(
    aa, ad, da, dd, x, n1, n2, l1, l2, before1, half2, tiles1, tiles2,
    LOW1: tl.constexpr, HIGH1: tl.constexpr, HALF1: tl.constexpr, MODE1: tl.constexpr,
    SHORT1: tl.constexpr, LOW2: tl.constexpr, HIGH2: tl.constexpr, HALF2: tl.constexpr,
    MODE2: tl.constexpr, SHORT2: tl.constexpr, ODD2: tl.constexpr, EVEN: tl.constexpr,
    HAS_AA: tl.constexpr, HAS_AD: tl.constexpr, HAS_DA: tl.constexpr, HAS_DD: tl.constexpr,
    ACC: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Pair m along an axis is the samples 2m - before and 2m + 1 - before; the first pair that
    holds a sample is before // 2. ``half2``, ODD2: before2 // 2, and the rest."""
    program = tl.program_id(0)
    tile2, rest = program % tiles2, program // tiles2
    start = (rest % tiles1) * ROWS + before1 // 2
    block = (rest // tiles1).to(tl.int64)
    x += block * n1 * n2
    bands = block * l1 * l2
    c = half2 + tile2 * COLUMNS + tl.arange(0, COLUMNS)
    to = 2 * (c - half2) - ODD2
    valid = to < n2
    zero = tl.zeros((COLUMNS,), ACC)
    a_even, a_odd, d_even, d_odd = (), (), (), ()
    for r in tl.static_range(ROWS + HALF1 - 1):
        k = start + r - (HALF1 - 1)
        ok = valid
        if MODE1 == ZERO:
            lanes = c * 0 + k  # the interpreter makes numbers of a scalar's truth
            ok = valid & (lanes >= 0) & (lanes < l1)
        else:
            k = place(tl.minimum(k, l1 + HALF1), l1, MODE1, SHORT1)
        row = bands + k.to(tl.int64) * l2
        even, odd = both_along(
            aa, ad, row, c, ok, l2, LOW2, HIGH2, HAS_AA, HAS_AD, HALF2, MODE2, SHORT2, zero
        )
        a_even, a_odd = a_even + (even,), a_odd + (odd,)
        even, odd = both_along(
            da, dd, row, c, ok, l2, LOW2, HIGH2, HAS_DA, HAS_DD, HALF2, MODE2, SHORT2, zero
        )
        d_even, d_odd = d_even + (even,), d_odd + (odd,)
    if EVEN:
        n2 = tl.multiple_of(n2, 2)
    two = to[:, None] + tl.arange(0, 2)[None, :]
    inside = (two >= 0) & (two < n2)
    for o in tl.static_range(ROWS):
        for p in tl.static_range(2):
            n = 2 * (start + o) + p - before1
            even = phase(a_even[o : o + HALF1], LOW1[p], HALF1, zero)
            even += phase(d_even[o : o + HALF1], HIGH1[p], HALF1, zero)
            odd = phase(a_odd[o : o + HALF1], LOW1[p], HALF1, zero)
            odd += phase(d_odd[o : o + HALF1], HIGH1[p], HALF1, zero)
            value = tl.join(even, odd).to(x.dtype.element_ty)
            here = x + n.to(tl.int64) * n2 + two
            lanes = two * 0 + n
            tl.store(here, value, mask=inside & (lanes >= 0) & (lanes < n1))
