"""One level along one axis of any tensor, and its adjoint, by one Triton kernel each.

Up to four contiguous tensors in one launch: a small one is done before the next is on its way. A
tensor is seen as [outer, n, inner], bands as [outer, length, inner]. With e the
signal extended by ``before`` samples in front (border_triton.py):

    down    low[o] = sum_t LOW[t] e[2o + t],      high the same
    up      e[i]   = sum_k LOW[i - 2k] low[k] + HIGH[i - 2k] high[k], folded back onto the signal

Every wavelet, mode, dtype and length; what lies along the last two axes goes to plane_triton.py
where that serves. Taps are compile-time constants. LOW and HIGH are pairs (place, tap), smallest
tap first, without zeros; for `up`, those of even places (LOWE) apart from those of odd ones (LOWO).
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.dwt.border_triton import (
    ANTIREFLECT,
    ANTISYMMETRIC,
    REFLECT,
    SMOOTH,
    SYMMETRIC,
    ZERO,
    place,
    weigh,
)


@triton.jit
def extended(x, i, n, inner, valid, MODE: tl.constexpr, SHORT: tl.constexpr, ACC: tl.constexpr):
    """e at the places ``i`` of lines that begin at the pointers ``x``."""
    if MODE == ZERO:
        return tl.load(x + i * inner, mask=valid & (i >= 0) & (i < n), other=0).to(ACC)
    # Lanes past the end may be anywhere; the formulas hold within one period only.
    i = tl.where(valid, i, 0)
    value = tl.load(x + place(i, n, MODE, SHORT) * inner, mask=valid, other=0).to(ACC)
    if (MODE == ANTISYMMETRIC) or (MODE == ANTIREFLECT) or (MODE == SMOOTH):
        s, a, b = weigh(i, n, MODE, SHORT)
        # 0 times inf is not 0: what has no weight is not multiplied.
        value = tl.where(s == 0, 0.0, s.to(ACC) * value)
        first = tl.load(x + i * 0, mask=valid & (a != 0), other=0).to(ACC)
        last = tl.load(x + (i * 0 + n - 1) * inner, mask=valid & (b != 0), other=0).to(ACC)
        value += a.to(ACC) * first + b.to(ACC) * last
    return value


@triton.jit
def call_for(x):
    """Asks for what lies at the pointers ``x`` to be in the L2 cache soon; no register waits."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;",
        "=r,l",
        [x.to(tl.int64)],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def weighted(values, TAPS: tl.constexpr, zero):
    """The sum of tap * values[place] over the pairs in ``TAPS``."""
    total = zero
    if len(TAPS) > 0:
        total = TAPS[0][1] * values[TAPS[0][0]]
        for k in tl.static_range(1, len(TAPS)):
            total += TAPS[k][1] * values[TAPS[k][0]]
    return total


@triton.jit
def chosen(number, a, b, c, d, COUNT: tl.constexpr):
    """The pointer of this number, of those that are there."""
    if COUNT > 1:
        a = tl.where(number == 1, b, a)
    if COUNT > 2:
        a = tl.where(number == 2, c, a)
    if COUNT > 3:
        a = tl.where(number == 3, d, a)
    return a


@triton.jit(do_not_specialize=["n", "length", "before", "blocks", "programs"])
def line_down_kernel(
    x0, x1, x2, x3, low0, low1, low2, low3, high0, high1, high2, high3, n, length, inner, before,
    blocks, programs,
    LOW: tl.constexpr, HIGH: tl.constexpr, TAPS: tl.constexpr, MODE: tl.constexpr,
    COUNT: tl.constexpr, SHORT: tl.constexpr, WIDE: tl.constexpr, ACC: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """``blocks`` a line, ``programs`` a tensor, COUNT tensors of one shape."""
    number, program = tl.program_id(0) // programs, tl.program_id(0) % programs
    x = chosen(number, x0, x1, x2, x3, COUNT)
    low = chosen(number, low0, low1, low2, low3, COUNT)
    high = chosen(number, high0, high1, high2, high3, COUNT)
    line = (program // blocks).to(tl.int64)
    start = (program % blocks) * BLOCK
    if WIDE:  # twice a length may not fit 32 bits
        n, inner = n * tl.full((), 1, tl.int64), inner * tl.full((), 1, tl.int64)
        start = (program % blocks).to(tl.int64) * BLOCK
    p = start + tl.arange(0, BLOCK)
    valid = p < length * inner
    first = 2 * (p // inner) - before
    x += line * n * inner + p % inner
    values = ()
    for t in tl.static_range(TAPS):
        values = values + (extended(x, first + t, n, inner, valid, MODE, SHORT, ACC),)
    zero = tl.zeros((BLOCK,), ACC)
    where = line * length * inner + p
    tl.store(low + where, weighted(values, LOW, zero).to(low.dtype.element_ty), mask=valid)
    tl.store(high + where, weighted(values, HIGH, zero).to(high.dtype.element_ty), mask=valid)


@triton.jit
def spread(band, i, length, inner, ok, TAPS: tl.constexpr, ACC: tl.constexpr):
    """What the taps of one parity add to e at the places ``i`` of that parity."""
    total = i.to(ACC) * 0
    for k in tl.static_range(len(TAPS)):
        at = (i - TAPS[k][0]) // 2  # exact, but for lanes that are not ok
        here = ok & (at >= 0) & (at < length)
        total += TAPS[k][1] * tl.load(band + at * inner, mask=here, other=0).to(ACC)
    return total


@triton.jit
def scattered(
    low, high, i, length, inner, valid,
    LOWE: tl.constexpr, LOWO: tl.constexpr, HIGHE: tl.constexpr, HIGHO: tl.constexpr,
    HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """e at the places ``i``, of bands whose lines begin at the pointers: a sum for each band,
    which rounds less than one running sum."""
    total = i.to(ACC) * 0
    even, odd = valid & (i % 2 == 0), valid & (i % 2 == 1)
    if HAS_LOW:
        total = spread(low, i, length, inner, even, LOWE, ACC)
        total += spread(low, i, length, inner, odd, LOWO, ACC)
    if HAS_HIGH:
        rest = spread(high, i, length, inner, even, HIGHE, ACC)
        total += rest + spread(high, i, length, inner, odd, HIGHO, ACC)
    return total


@triton.jit
def partners(m, n, MODE: tl.constexpr):
    """The places in front of the signal, and behind it, that sample m is read at."""
    if (MODE == SYMMETRIC) or (MODE == ANTISYMMETRIC):
        return -1 - m, 2 * n - 1 - m
    elif MODE == REFLECT:
        return -m, 2 * n - 2 - m
    else:
        return m - n, m + n


@triton.jit(do_not_specialize=["n", "length", "before", "after", "blocks", "programs"])
def line_up_kernel(
    low0, low1, low2, low3, high0, high1, high2, high3, x0, x1, x2, x3, n, length, inner, before,
    after, blocks, programs,
    LOWE: tl.constexpr, LOWO: tl.constexpr, HIGHE: tl.constexpr, HIGHO: tl.constexpr,
    HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr, MODE: tl.constexpr, ONCE: tl.constexpr,
    COUNT: tl.constexpr, SHORT: tl.constexpr, WIDE: tl.constexpr, ACC: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """ONCE: each sample is read at most once in front and once behind, see `partners`. The rest as
    in `line_down_kernel`."""
    number, program = tl.program_id(0) // programs, tl.program_id(0) % programs
    low = chosen(number, low0, low1, low2, low3, COUNT)
    high = chosen(number, high0, high1, high2, high3, COUNT)
    x = chosen(number, x0, x1, x2, x3, COUNT)
    line = (program // blocks).to(tl.int64)
    start = (program % blocks) * BLOCK
    if WIDE:  # twice a length may not fit 32 bits
        n, inner = n * tl.full((), 1, tl.int64), inner * tl.full((), 1, tl.int64)
        start = (program % blocks).to(tl.int64) * BLOCK
    p = start + tl.arange(0, BLOCK)
    valid = p < n * inner
    m = p // inner
    low += line * length * inner + p % inner
    high += line * length * inner + p % inner
    total = scattered(
        low, high, m + before, length, inner, valid, LOWE, LOWO, HIGHE, HIGHO, HAS_LOW, HAS_HIGH,
        ACC,
    )  # fmt: skip
    if MODE != ZERO:
        # What was read past the ends goes back to where it was read.
        reach = tl.maximum(before, after) + 1
        near = (start // inner <= reach) | ((start + BLOCK) // inner + reach >= n)
        if ONCE:
            if near:
                left, right = partners(m, n, MODE)
                more = scattered(
                    low, high, left + before, length, inner, valid & (left >= -before) & (left < 0),
                    LOWE, LOWO, HIGHE, HIGHO, HAS_LOW, HAS_HIGH, ACC,
                )  # fmt: skip
                more += scattered(
                    low, high, right + before, length, inner,
                    valid & (right >= n) & (right < n + after),
                    LOWE, LOWO, HIGHE, HIGHO, HAS_LOW, HAS_HIGH, ACC,
                )  # fmt: skip
                if MODE == ANTISYMMETRIC:
                    more = -more
                total += more
        elif SHORT or near:
            for q in range(before + after):
                i = tl.where(q < before, q - before, n + q - before)
                s, a, b = weigh(i, n, MODE, SHORT)
                weight = tl.where(m == place(i, n, MODE, SHORT), s, 0)
                weight += tl.where(m == 0, a, 0) + tl.where(m == n - 1, b, 0)
                here = valid & (weight != 0)
                value = scattered(
                    low, high, m * 0 + (i + before), length, inner, here,
                    LOWE, LOWO, HIGHE, HIGHO, HAS_LOW, HAS_HIGH, ACC,
                )  # fmt: skip
                total += tl.where(here, weight.to(ACC) * value, 0.0)
    tl.store(x + line * n * inner + p, total.to(x.dtype.element_ty), mask=valid)
