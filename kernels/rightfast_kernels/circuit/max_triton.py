"""A layer of maxima, n[m, b] = max_c(log theta[m, c] + e[c, b]), and which child each came from.

A tile [BN, BC, BB] of sums, lanes of children and samples goes over the children; every lane keeps
its largest term and where it met it first, and the lanes are compared once, at the end. Of equal
terms the first child's is taken. Where no child is possible, n is -inf and the child 0.

Maxima over very many children come in P parts, as sums do (combine_triton.py). The reference is
reference_max.forward.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.circuit.layer_triton import at, elements


@triton.jit(do_not_specialize=["record"])
def max_fwd_kernel(
    theta, n, chosen, tables, record, batch, N, C, step,
    W: tl.constexpr, FACTORS: tl.constexpr, ALIGN: tl.constexpr,
    BN: tl.constexpr, BC: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """A tile [BN, BB] of one group; grid (tiles of N, groups, tiles of the batch).

    ``chosen`` [rows of sums, batch], int32.
    """
    own = tables + record + 8 * tl.program_id(1)
    row, place = tl.load(own), tl.load(own + 1)
    blocks, factors = tl.load(own + 3), tl.load(own + 4)
    weights = theta + tl.multiple_of(tl.load(own + 5), ALIGN)
    m = tl.program_id(0) * BN + tl.arange(0, BN)
    b = tl.program_id(2) * BB + tl.arange(0, BB)

    best = tl.full([BN, BC, BB], float("-inf"), tl.float32)
    child = tl.zeros([BN, BC, BB], tl.int32)
    at_theta = weights + m[:, None] * step + tl.arange(0, BC)[None, :]
    for start in range(0, C, BC):
        c = start + tl.arange(0, BC)
        t = tl.load(at_theta, mask=(m < N)[:, None] & (c < C)[None, :], other=0.0)
        e = elements(n, tables, blocks, factors, c, b, batch, C, W, FACTORS)
        term = tl.where(t > 0, tl.log(t), float("-inf"))[:, :, None] + e[None, :, :]
        larger = ~(term <= best)  # NaN, from data that is none, stays
        best = tl.where(larger, term, best)
        child = tl.where(larger, start, child)
        at_theta += BC

    value = tl.max(best, 1)
    wrong = tl.max((best != best).to(tl.int32), 1) > 0  # a maximum of numbers drops NaN
    child += tl.arange(0, BC)[None, :, None]
    first = tl.min(tl.where(best == value[:, None, :], child, C), 1)
    inside = (m < N)[:, None] & (b < batch)[None, :]
    tl.store(n + at(row + m, b, batch), tl.where(wrong, float("nan"), value), mask=inside)
    tl.store(chosen + at(place + m, b, batch), tl.where(wrong, 0, first), mask=inside)


@triton.jit(do_not_specialize=["record", "first_sum"])
def max_combine_fwd_kernel(
    n, chosen, tables, record, first_sum, batch, N, C,
    P: tl.constexpr, BN: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """A tile [BN, BB] of one group of sums, in P parts of C children each.

    Grid (tiles of N, groups, tiles of the batch).
    """
    own = tables + record + 4 * tl.program_id(1)
    row, first, place = tl.load(own), tl.load(own + 1), tl.load(own + 2)
    m = tl.program_id(0) * BN + tl.arange(0, BN)
    b = tl.program_id(2) * BB + tl.arange(0, BB)
    inside = (m < N)[:, None] & (b < batch)[None, :]
    value = tl.load(n + at(first + m, b, batch), mask=inside, other=0.0)
    child = tl.load(chosen + at(place + m, b, batch), mask=inside, other=0)
    for p in range(1, P):
        part = tl.load(n + at(first + p * N + m, b, batch), mask=inside, other=0.0)
        own_child = tl.load(chosen + at(place + p * N + m, b, batch), mask=inside, other=0)
        larger = ~(part <= value)
        value = tl.where(larger, part, value)
        child = tl.where(larger, p * C + own_child, child)
    tl.store(n + at(row + m, b, batch), value, mask=inside)
    tl.store(chosen + at(row - first_sum + m, b, batch), child, mask=inside)
