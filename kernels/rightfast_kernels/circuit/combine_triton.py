"""Sums over very many children come in P parts, each a group of its own, so that many programs work
on one sum. With m_p and S_p of the parts, as sum_triton.py left them:

    m = max_p m_p,    S = sum_p S_p exp(alpha (m_p - m)),    n = log(S) / alpha + m
    q_p = f exp(alpha (m_p - m)) / S

Where S is tiny, n is the log-sum-exp of the parts' n_p, and q_p NaN. A record of the parts holds
the row of their group's first sum, that of the first part's first sum, and the places of the latter
among the rows of sums and of the first part among the groups; parts are N rows each, in order.
After the backward pass the rows of the parts hold f and n of the whole. The reference is
reference_sum.py.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.circuit.layer_triton import LEAST, at, quotient

RECORD = 4


@triton.jit
def whole(sums, shift, place, group, m, b, inside, batch, alpha, N, P: tl.constexpr):
    """(m [b], 0 where it is -inf; S [m, b])."""
    known = b < batch
    largest = tl.full([b.shape[0]], float("-inf"), tl.float32)
    for p in range(P):
        part = tl.load(shift + (group + p).to(tl.int64) * batch + b, mask=known, other=0.0)
        # A NaN stays: the maximum of two numbers would drop it.
        largest = tl.where((part > largest) | (part != part), part, largest)
    base = tl.where(largest == float("-inf"), 0.0, largest)
    total = tl.zeros([m.shape[0], b.shape[0]], tl.float32)
    for p in range(P):
        part = tl.load(shift + (group + p).to(tl.int64) * batch + b, mask=known, other=0.0)
        s = tl.load(sums + at(place + p * N + m, b, batch), mask=inside, other=1.0)
        total += s * tl.exp(alpha * (part - base))[None, :]
    return base, total


@triton.jit(do_not_specialize=["record"])
def combine_fwd_kernel(
    n, sums, shift, tables, record, batch, alpha, N,
    P: tl.constexpr, BN: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """A tile [BN, BB] of one group; grid (tiles of N, groups, tiles of the batch)."""
    own = tables + record + 4 * tl.program_id(1)
    row, first = tl.load(own), tl.load(own + 1)
    place, group = tl.load(own + 2), tl.load(own + 3)
    m = tl.program_id(0) * BN + tl.arange(0, BN)
    b = tl.program_id(2) * BB + tl.arange(0, BB)
    inside = (m < N)[:, None] & (b < batch)[None, :]
    base, total = whole(sums, shift, place, group, m, b, inside, batch, alpha, N, P)
    value = tl.log(total) / alpha + base[None, :]
    tiny = (total < LEAST) & inside
    if tl.max(tl.max(tiny.to(tl.int32), 1), 0) > 0:
        top = tl.full([BN, BB], float("-inf"), tl.float32)
        for p in range(P):
            part = tl.load(n + at(first + p * N + m, b, batch), mask=inside, other=0.0)
            top = tl.maximum(top, part)
        top = tl.where(top == float("-inf"), 0.0, top)
        exact = tl.zeros([BN, BB], tl.float32)
        for p in range(P):
            part = tl.load(n + at(first + p * N + m, b, batch), mask=inside, other=0.0)
            exact += tl.exp(alpha * (part - top))
        value = tl.where(tiny, tl.log(exact) / alpha + top, value)
    tl.store(n + at(row + m, b, batch), value, mask=inside)


@triton.jit(do_not_specialize=["record"])
def combine_flows_kernel(
    n, sums, shift, flows, quotients, tables, record, batch, alpha, N,
    P: tl.constexpr, BN: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """The same tile on its way back."""
    own = tables + record + 4 * tl.program_id(1)
    row, first = tl.load(own), tl.load(own + 1)
    place, group = tl.load(own + 2), tl.load(own + 3)
    m = tl.program_id(0) * BN + tl.arange(0, BN)
    b = tl.program_id(2) * BB + tl.arange(0, BB)
    inside = (m < N)[:, None] & (b < batch)[None, :]
    base, total = whole(sums, shift, place, group, m, b, inside, batch, alpha, N, P)
    value = tl.load(n + at(row + m, b, batch), mask=inside, other=0.0)
    f = tl.load(flows + at(row + m, b, batch), mask=inside, other=0.0)
    q = quotient(f, total)
    for p in range(P):
        part = tl.load(shift + (group + p).to(tl.int64) * batch + b, mask=b < batch, other=0.0)
        own_q = tl.where(f == 0, 0.0, q * tl.exp(alpha * (part - base))[None, :])
        tl.store(quotients + at(place + p * N + m, b, batch), own_q, mask=inside)
        tl.store(flows + at(first + p * N + m, b, batch), f, mask=inside)
        tl.store(n + at(first + p * N + m, b, batch), value, mask=inside)
