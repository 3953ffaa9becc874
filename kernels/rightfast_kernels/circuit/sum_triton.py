"""A layer of sums by one kernel: n[m, b] = (1/alpha) log sum_c theta[m, c]^alpha exp(alpha e[c, b])

    S = sum_c theta^alpha E,    n = log(S) / alpha + m,    E and m as elements_triton.py left them

S is kept for the backward pass. A sum whose weight lies on children far below the largest has a
tiny S, which float32 cannot hold: the tile it is in goes over its children once more, entry by
entry. The reference is reference_sum.py, and reference_wide.py for what is tiny.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.circuit.layer_triton import (
    LEAST,
    SMALL,
    elements,
    from_row,
    multiply,
    near,
    powered,
    scaled_elements,
)


@triton.jit(do_not_specialize=["record"])
def sum_fwd_kernel(
    theta, n, out, sums, scaled, shift, tables, record, batch, alpha, N, C, step,
    W: tl.constexpr, FACTORS: tl.constexpr, ALIGN: tl.constexpr, POWER: tl.constexpr,
    PRECISION: tl.constexpr, KEPT: tl.constexpr,
    BN: tl.constexpr, BC: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """A tile [BN, BB] of one group, whose rows of theta are ``step`` apart.

    Grid (tiles of N, groups, tiles of the batch). Values go to ``out``, which is n but for sums of
    a temperature, of which no other sum is made.
    """
    own = tables + record + 8 * tl.program_id(1)
    row, place, group = tl.load(own), tl.load(own + 1), tl.load(own + 2)
    weights = theta + tl.multiple_of(tl.load(own + 5), ALIGN)
    blocks, factors, first = tl.load(own + 3), tl.load(own + 4), tl.load(own + 7)
    m = tl.program_id(0) * BN + tl.arange(0, BN)
    b = tl.program_id(2) * BB + tl.arange(0, BB)
    known = b < batch
    largest = tl.load(shift + group.to(tl.int64) * batch + b, mask=known, other=0.0)

    acc = tl.zeros([BN, BB], tl.float32)
    at_theta = weights + m[:, None] * step + tl.arange(0, BC)[None, :]
    for start in range(0, C, BC):
        c = start + tl.arange(0, BC)
        t = tl.load(at_theta, mask=(m < N)[:, None] & (c < C)[None, :], other=0.0)
        e = scaled_elements(
            scaled, first, n, tables, blocks, factors, largest, c, b, batch, alpha, C,
            W, FACTORS, POWER, KEPT,
        )  # fmt: skip
        acc = multiply(powered(t, alpha, POWER), e, acc, PRECISION)
        at_theta += BC

    inside = (m < N)[:, None] & known[None, :]
    value = tl.log(acc)
    if POWER:
        value = value / alpha
    value += tl.where(largest == float("-inf"), 0.0, largest)[None, :]
    tl.store(from_row(out, row, batch) + near(m, b, batch), value, mask=inside)
    tl.store(from_row(sums, place, batch) + near(m, b, batch), acc, mask=inside)
    tiny = (acc < LEAST) & inside & (largest == largest)[None, :]  # NaN: data that is none
    if tl.max(tl.max(tiny.to(tl.int32), 1), 0) > 0:
        tl.debug_barrier()  # S is read below by other threads than wrote it
        for i in range(0, BN, SMALL):
            for j in range(0, BB, SMALL):
                entry_by_entry(
                    weights, n, out, sums, from_row(shift, group, batch), tables, row, place,
                    blocks, factors,
                    tl.program_id(0) * BN + i + tl.arange(0, SMALL),
                    tl.program_id(2) * BB + j + tl.arange(0, SMALL),
                    batch, alpha, N, C, step, W, FACTORS, POWER,
                )  # fmt: skip


@triton.jit
def entry_by_entry(
    weights, n, out, sums, shift, tables, row, place, blocks, factors, m, b,
    batch, alpha, N, C, step,
    W: tl.constexpr, FACTORS: tl.constexpr, POWER: tl.constexpr,
):  # fmt: skip
    """The same n by a running log-sum-exp of log theta + e; nothing underflows before the end. Only
    where S is tiny. Few numbers at a time: it must not cost the usual path registers."""
    inside = (m < N)[:, None] & (b < batch)[None, :]
    shifted = tl.load(shift + b, mask=b < batch, other=float("nan"))
    inside = inside & (shifted == shifted)[None, :]
    s = tl.load(from_row(sums, place, batch) + near(m, b, batch), mask=inside, other=1.0)
    top = tl.full([m.shape[0], b.shape[0]], float("-inf"), tl.float32)
    total = tl.zeros([m.shape[0], b.shape[0]], tl.float32)
    if tl.max(tl.max((s < LEAST).to(tl.int32), 1), 0) > 0:
        for child in range(C):
            c = child + tl.arange(0, 1)
            e = elements(n, tables, blocks, factors, c, b, batch, C, W, FACTORS)
            t = tl.load(weights + m[:, None] * step + c[None, :], mask=(m < N)[:, None], other=0.0)
            term = tl.where(t > 0, tl.log(t), float("-inf")) + e
            if POWER:
                term = term * alpha
            larger = tl.maximum(top, term)
            base = tl.where(larger == float("-inf"), 0.0, larger)
            total = total * tl.exp(top - base) + tl.exp(term - base)
            top = larger
    value = tl.where(total > 0, tl.log(total) + top, float("-inf"))
    if POWER:
        value = value / alpha
    tl.store(from_row(out, row, batch) + near(m, b, batch), value, mask=inside & (s < LEAST))
