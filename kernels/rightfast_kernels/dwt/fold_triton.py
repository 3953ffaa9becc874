"""What plane_up_triton.py leaves out of the adjoint of an analysis: the ends, folded back.

The adjoint of an analysis spreads bands onto the extended signal e, and adds what lies past the
ends to the samples that it was read from. The fused kernel writes what lies inside; this one adds
the rest to the samples near the ends, which are few. Each of them is read at most once in front and
once behind along an axis (line_triton.py's `partners`).
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.dwt.border_triton import ANTISYMMETRIC, ZERO
from rightfast_kernels.dwt.line_triton import partners


@triton.jit
def tap(odd, EVEN: tl.constexpr, ODD: tl.constexpr, zero):
    """Either tap, as exact as the sums are."""
    return tl.where(odd, zero + ODD, zero + EVEN)


@triton.jit
def spread_here(
    aa, ad, da, dd, i1, i2, l1, l2, ok, LOW1: tl.constexpr, HIGH1: tl.constexpr,
    LOW2: tl.constexpr, HIGH2: tl.constexpr, HALF1: tl.constexpr, HALF2: tl.constexpr, zero,
):  # fmt: skip
    """e at the places (i1, i2). Taps in order, zeros too."""
    total = zero
    odd1, odd2 = i1 % 2 == 1, i2 % 2 == 1
    for j1 in tl.static_range(HALF1):
        k1 = i1 // 2 - j1
        row = ok & (k1 >= 0) & (k1 < l1)
        low, high = zero, zero
        for j2 in tl.static_range(HALF2):
            k2 = i2 // 2 - j2
            here = row & (k2 >= 0) & (k2 < l2)
            at = k1 * l2 + k2
            lo = tap(odd2, LOW2[2 * j2], LOW2[2 * j2 + 1], zero)
            hi = tap(odd2, HIGH2[2 * j2], HIGH2[2 * j2 + 1], zero)
            low += lo * tl.load(aa + at, mask=here & (lo != 0), other=0).to(zero.dtype)
            low += hi * tl.load(ad + at, mask=here & (hi != 0), other=0).to(zero.dtype)
            high += lo * tl.load(da + at, mask=here & (lo != 0), other=0).to(zero.dtype)
            high += hi * tl.load(dd + at, mask=here & (hi != 0), other=0).to(zero.dtype)
        lo = tap(odd1, LOW1[2 * j1], LOW1[2 * j1 + 1], zero)
        hi = tap(odd1, HIGH1[2 * j1], HIGH1[2 * j1 + 1], zero)
        total += tl.where(lo != 0, lo * low, 0.0) + tl.where(hi != 0, hi * high, 0.0)
    return total


@triton.jit
def choice(which, m, n, before, after, MODE: tl.constexpr):
    """Place of sample m in e (which = 0), or of its partner in front (1) or behind (2); whether
    there is one; its sign."""
    place, there, sign = m + before, m >= 0, 1
    if MODE == ZERO:
        there = (m >= 0) & (m * 0 + which == 0)
    else:
        left, right = partners(m, n, MODE)
        there = tl.where(
            m * 0 + which == 1,
            (left >= -before) & (left < 0),
            (right >= n) & (right < n + after) | (m * 0 + which == 0),
        )
        place = tl.where(which == 0, m, tl.where(which == 1, left, right)) + before
        if MODE == ANTISYMMETRIC:
            sign = tl.where(which == 0, 1, -1)
    return place, there, sign


@triton.jit(
    do_not_specialize=[
        "n1", "l1", "before1", "after1", "near1", "before2", "after2", "near2", "count", "blocks",
    ]
)  # fmt: skip
def plane_fold_kernel(
    aa, ad, da, dd, x, n1, n2, l1, l2, before1, after1, near1, before2, after2, near2, count,
    blocks,
    LOW1: tl.constexpr, HIGH1: tl.constexpr, HALF1: tl.constexpr, MODE1: tl.constexpr,
    LOW2: tl.constexpr, HIGH2: tl.constexpr, HALF2: tl.constexpr, MODE2: tl.constexpr,
    ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """``near1``, ``near2``: how many samples at each end may have partners; ``count``: all of them
    in a plane, first whole rows, then the ends of the other rows."""
    program = tl.program_id(0)
    plane = (program // blocks).to(tl.int64)
    p = (program % blocks) * BLOCK + tl.arange(0, BLOCK)
    valid = p < count
    rows = 2 * near1 * n2
    whole = p < rows
    q = tl.where(whole, p, p - rows)
    m1 = tl.where(whole, q // n2, near1 + q // (2 * near2))
    m2 = tl.where(whole, q % n2, q % (2 * near2))
    m1 = tl.where(whole & (m1 >= near1), m1 + n1 - 2 * near1, m1)
    m2 = tl.where((q >= 0) & (p >= rows) & (m2 >= near2), m2 + n2 - 2 * near2, m2)
    bands = plane * l1 * l2
    zero = tl.zeros((BLOCK,), ACC)
    total = zero
    for pair in range(1, 9):
        i1, there1, sign1 = choice(pair // 3, m1, n1, before1, after1, MODE1)
        i2, there2, sign2 = choice(pair % 3, m2, n2, before2, after2, MODE2)
        ok = valid & there1 & there2
        if tl.max(ok.to(tl.int32), 0) > 0:
            more = spread_here(
                aa + bands, ad + bands, da + bands, dd + bands, i1, i2, l1, l2, ok, LOW1, HIGH1,
                LOW2, HIGH2, HALF1, HALF2, zero,
            )  # fmt: skip
            total += tl.where(ok, (sign1 * sign2) * more, 0.0)
    at = x + plane * n1 * n2 + (m1.to(tl.int64) * n2 + m2)
    value = tl.load(at, mask=valid, other=0).to(ACC) + total
    tl.store(at, value.to(x.dtype.element_ty), mask=valid)
