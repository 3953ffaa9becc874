"""Flows of a layer of sums to its elements in log space, where no flow is too small to be kept.

    l_e[c, b] = alpha e[c, b] + log sum_m theta[m, c]^alpha exp(l[m, b] - alpha n[m, b]),  l = log f

The largest l - alpha n of a sample is taken out before the product of matrices; what is tiny even
so is computed entry by entry, as forward. A sum that is impossible, or has no flow, hands on none:
-inf. Rows that several elements have add theirs up by a running log-sum-exp. The reference is
reference_log_sum.py, and reference_product.backward_log.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.circuit.layer_triton import (
    LEAST,
    at,
    elements,
    hand_down,
    multiply,
    powered,
)


@triton.jit(do_not_specialize=["root"])
def log_root_flow_kernel(n, weights, flows, root, batch, BB: tl.constexpr):
    """log of the weights [batch], -inf for what is impossible or no data.

    Grid (tiles of the batch,).
    """
    b = tl.program_id(0) * BB + tl.arange(0, BB)
    place = tl.cast(root, tl.int64) * batch + b
    value = tl.load(n + place, mask=b < batch, other=0.0)
    weight = tl.load(weights + b, mask=b < batch, other=1.0)
    possible = (value == value) & (value > float("-inf")) & (weight != 0)
    log_weight = tl.log(tl.where(possible, weight, 1.0))
    tl.store(flows + place, tl.where(possible, log_weight, float("-inf")), mask=b < batch)


@triton.jit
def outgoing(n, flows, row, m, b, batch, alpha, N):
    """l - alpha n [m, b]; -inf past N and where there is no flow."""
    inside = (m < N)[:, None] & (b < batch)[None, :]
    log_flow = tl.load(flows + at(row + m, b, batch), mask=inside, other=float("-inf"))
    value = tl.load(n + at(row + m, b, batch), mask=inside, other=0.0)
    has = (log_flow > float("-inf")) & (value > float("-inf"))
    return tl.where(has, log_flow - alpha * value, float("-inf"))


@triton.jit(do_not_specialize=["record"])
def log_element_flows_kernel(
    theta, n, flows, kept, tables, record, batch, alpha, N, C, step,
    W: tl.constexpr, FACTORS: tl.constexpr, ALIGN: tl.constexpr, POWER: tl.constexpr,
    PRECISION: tl.constexpr, ROWS: tl.constexpr,
    BN: tl.constexpr, BC: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """A tile [BC, BB] of one group; grid (tiles of C, groups, tiles of the batch).

    ROWS: log flows go to the rows of the factors, else to ``kept`` [elements, batch].
    """
    own = tables + record + 8 * tl.program_id(1)
    row, blocks, factors = tl.load(own), tl.load(own + 3), tl.load(own + 4)
    weights = theta + tl.multiple_of(tl.load(own + 5), ALIGN)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    b = tl.program_id(2) * BB + tl.arange(0, BB)

    largest = tl.full([BB], float("-inf"), tl.float32)
    for start in range(0, N, BN):
        out = outgoing(n, flows, row, start + tl.arange(0, BN), b, batch, alpha, N)
        largest = tl.maximum(largest, tl.max(out, 0))
    base = tl.where(largest == float("-inf"), 0.0, largest)
    acc = tl.zeros([BC, BB], tl.float32)
    at_theta = weights + tl.arange(0, BN)[:, None] * step + c[None, :]
    for start in range(0, N, BN):
        m = start + tl.arange(0, BN)
        t = tl.load(at_theta, mask=(m < N)[:, None] & (c < C)[None, :], other=0.0)
        out = tl.exp(outgoing(n, flows, row, m, b, batch, alpha, N) - base[None, :])
        acc = multiply(tl.trans(powered(t, alpha, POWER)), out, acc, PRECISION)
        at_theta += BN * step

    e = elements(n, tables, blocks, factors, c, b, batch, C, W, FACTORS)
    has = (e > float("-inf")) & (largest > float("-inf"))[None, :]  # false for NaN, too
    tiny = has & (acc < LEAST) & (b < batch)[None, :]
    total = tl.log(tl.where(acc > 0, acc, 1.0))
    total = tl.where(acc > 0, total, float("-inf")) + base[None, :]
    if tl.max(tl.max(tiny.to(tl.int32), 1), 0) > 0:
        exact = entry_by_entry(weights, n, flows, row, c, b, batch, alpha, N, C, step, POWER)
        total = tl.where(tiny, exact, total)
    log_flow = tl.where(has, total + alpha * tl.where(has, e, 0.0), float("-inf"))
    if ROWS:
        hand_down(flows, tables, blocks, factors, log_flow, c, b, batch, C, W, FACTORS)
    else:
        inside = (c < C)[:, None] & (b < batch)[None, :]
        tl.store(kept + at(tl.load(own + 6) + c, b, batch), log_flow, mask=inside)


@triton.jit
def add_log(top, total, term):
    """A running log-sum-exp, log(total) + top, with one more term."""
    larger = tl.maximum(top, term)
    base = tl.where(larger == float("-inf"), 0.0, larger)
    return larger, total * tl.exp(top - base) + tl.exp(term - base)


@triton.jit
def entry_by_entry(weights, n, flows, row, c, b, batch, alpha, N, C, step, POWER: tl.constexpr):
    """log sum_m theta^alpha exp(l - alpha n) [c, b]; nothing underflows before the end."""
    top = tl.full([c.shape[0], b.shape[0]], float("-inf"), tl.float32)
    total = tl.zeros([c.shape[0], b.shape[0]], tl.float32)
    for start in range(N):
        m = start + tl.arange(0, 1)
        out = outgoing(n, flows, row, m, b, batch, alpha, N)
        t = tl.load(weights + start * step + c, mask=c < C, other=0.0)
        log_theta = tl.where(t > 0, tl.log(t), float("-inf"))
        if POWER:
            log_theta = log_theta * alpha
        top, total = add_log(top, total, log_theta[:, None] + out)
    return tl.where(total > 0, tl.log(total) + top, float("-inf"))


@triton.jit(do_not_specialize=["lists", "count"])
def log_row_flows_kernel(
    flows, kept, tables, lists, count, batch, BR: tl.constexpr, BB: tl.constexpr
):  # fmt: skip
    """``count`` rows; grid (tiles of these, tiles of the batch); ``lists`` as row_flows_kernel."""
    i = tl.program_id(0) * BR + tl.arange(0, BR)
    b = tl.program_id(1) * BB + tl.arange(0, BB)
    entry = tables + lists + 3 * i
    row = tl.load(entry, mask=i < count, other=0)
    start = tl.load(entry + 1, mask=i < count, other=0)
    length = tl.load(entry + 2, mask=i < count, other=0) - start
    top = tl.full([BR, BB], float("-inf"), tl.float32)
    total = tl.zeros([BR, BB], tl.float32)
    for k in range(tl.max(length, 0)):
        has = k < length
        element = tl.load(tables + start + k, mask=has, other=0)
        inside = has[:, None] & (b < batch)[None, :]
        term = tl.load(kept + at(element, b, batch), mask=inside, other=float("-inf"))
        top, total = add_log(top, total, term)
    value = tl.where(total > 0, tl.log(tl.where(total > 0, total, 1.0)) + top, float("-inf"))
    inside = (i < count)[:, None] & (b < batch)[None, :]
    tl.store(flows + at(row, b, batch), value, mask=inside)
