"""Flows of a layer of sums to its elements, by one kernel, and on to the rows of their factors.

    f_e[c, b] = E[c, b] sum_m theta[m, c]^alpha q[m, b],    q = f / S

Where each of the rows below belongs to this element alone, its flow is f_e and is written there,
with the quotient that it goes on as; else f_e is kept, and row_flows_triton.py adds up what a row
gets. Every number has one owner, so there are no atomic additions. Sums whose S is tiny make NaN of
a tile, which is then computed entry by entry: f_e = sum_m f (theta exp(e - n))^alpha. The reference
is reference_sum.to_elements.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.circuit.layer_triton import (
    SMALL,
    any_nan,
    elements,
    from_row,
    give_flow,
    multiply,
    near,
    powered,
    row_of,
    scaled_elements,
)


@triton.jit(do_not_specialize=["record", "first_sum", "last_sum"])
def element_flows_kernel(
    theta, n, sums, scaled, shift, flows, quotients, kept, tables, record, first_sum, last_sum,
    batch, alpha, N, C, step,
    W: tl.constexpr, FACTORS: tl.constexpr, ALIGN: tl.constexpr, POWER: tl.constexpr,
    PRECISION: tl.constexpr, KEPT: tl.constexpr, ROWS: tl.constexpr,
    BN: tl.constexpr, BC: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """A tile [BC, BB] of one group; grid (tiles of C, groups, tiles of the batch).

    ROWS: flows go to the rows of the factors, else to ``kept`` [elements, batch].
    """
    own = tables + record + 8 * tl.program_id(1)
    row, place = tl.load(own), tl.load(own + 1)
    blocks, factors = tl.load(own + 3), tl.load(own + 4)
    weights = theta + tl.multiple_of(tl.load(own + 5), ALIGN)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    b = tl.program_id(2) * BB + tl.arange(0, BB)
    known = b < batch

    acc = tl.zeros([BC, BB], tl.float32)
    at_theta = weights + tl.arange(0, BN)[:, None] * step + c[None, :]
    at_quotient = from_row(quotients, place, batch) + near(tl.arange(0, BN), b, batch)
    for start in range(0, N, BN):
        inside = start + tl.arange(0, BN) < N
        t = tl.load(at_theta, mask=inside[:, None] & (c < C)[None, :], other=0.0)
        q = tl.load(at_quotient, mask=inside[:, None] & known[None, :], other=0.0)
        acc = multiply(tl.trans(powered(t, alpha, POWER)), q, acc, PRECISION)
        at_theta += BN * step
        at_quotient += BN * batch

    inside = (c < C)[:, None] & known[None, :]
    largest = tl.load(shift + tl.load(own + 2).to(tl.int64) * batch + b, mask=known, other=0.0)
    f = acc * scaled_elements(
        scaled, tl.load(own + 7), n, tables, blocks, factors, largest, c, b, batch, alpha, C,
        W, FACTORS, POWER, KEPT,
    )  # fmt: skip
    hand_on(
        f, flows, quotients, sums, kept, tables, own, c, b, batch, inside, first_sum, last_sum, C,
        W, FACTORS, ROWS,
    )  # fmt: skip
    if any_nan(f):
        tl.debug_barrier()  # what is NaN has been written
        for i in range(0, BC, SMALL):
            for j in range(0, BB, SMALL):
                entry_by_entry(
                    weights, n, sums, flows, quotients, kept, tables, own, row,
                    tl.program_id(0) * BC + i + tl.arange(0, SMALL),
                    tl.program_id(2) * BB + j + tl.arange(0, SMALL),
                    batch, alpha, N, C, step, first_sum, last_sum, W, FACTORS, POWER, ROWS,
                )  # fmt: skip


@triton.jit
def hand_on(
    f, flows, quotients, sums, kept, tables, own, c, b, batch, inside, first_sum, last_sum, C,
    W: tl.constexpr, FACTORS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Flows of elements to the rows of their factors, or to where they are kept."""
    if ROWS:
        blocks = tl.load(own + 3)
        if FACTORS > 0:
            for j in tl.static_range(FACTORS):
                below = row_of(tables, blocks, j, c, C, W)
                wanted = inside & (below > 0)[:, None]
                give_flow(flows, quotients, sums, below, f, b, batch, wanted, first_sum, last_sum)
        else:
            for j in range(tl.load(own + 4)):
                below = row_of(tables, blocks, j, c, C, W)
                wanted = inside & (below > 0)[:, None]
                give_flow(flows, quotients, sums, below, f, b, batch, wanted, first_sum, last_sum)
    else:
        tl.store(from_row(kept, tl.load(own + 6), batch) + near(c, b, batch), f, mask=inside)


@triton.jit
def entry_by_entry(
    weights, n, sums, flows, quotients, kept, tables, own, row, c, b, batch, alpha, N, C, step,
    first_sum, last_sum,
    W: tl.constexpr, FACTORS: tl.constexpr, POWER: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """sum_m f (theta exp(e - n))^alpha, in which every term is a part of f. Few numbers at a time:
    it must not cost the usual path registers."""
    e = elements(n, tables, tl.load(own + 3), tl.load(own + 4), c, b, batch, C, W, FACTORS)
    total = tl.zeros([c.shape[0], b.shape[0]], tl.float32)
    for m in range(N):
        at_sum = (row + m).to(tl.int64) * batch + b
        f = tl.load(flows + at_sum, mask=b < batch, other=0.0)
        value = tl.load(n + at_sum, mask=b < batch, other=0.0)
        t = tl.load(weights + m * step + c, mask=c < C, other=0.0)
        term = tl.where(t > 0, tl.log(t), float("-inf"))[:, None] + (e - value[None, :])
        if POWER:
            term = term * alpha
        total += tl.where((f == 0)[None, :], 0.0, tl.exp(term) * f[None, :])
    inside = (c < C)[:, None] & (b < batch)[None, :]
    hand_on(
        total, flows, quotients, sums, kept, tables, own, c, b, batch, inside, first_sum, last_sum,
        C, W, FACTORS, ROWS,
    )  # fmt: skip
