"""Missing values of categorical inputs where sums are maxima: each is its most likely value.

    n[k, b] = max_c log q[k, c],    F[k, mode(k)] += sum_b f[k, b],    of b whose value is missing

The mode is the first of equal values. These kernels go after those of categorical_triton.py, to
what is missing alone. The references are `leaves.Categorical.log_mode` and `statistics_of_mode`.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.circuit.layer_triton import at


@triton.jit
def modes(table, k, K, C, BC: tl.constexpr):
    """(largest probability, first category that has it) of nodes k."""
    lanes = tl.arange(0, BC)
    best = tl.full([k.shape[0], BC], -1.0, tl.float32)
    category = tl.zeros([k.shape[0], BC], tl.int32)
    for start in range(0, C, BC):
        c = start + lanes
        place = table + k[:, None] * C + c[None, :]
        q = tl.load(place, mask=(k < K)[:, None] & (c < C)[None, :], other=-1.0)
        larger = q > best
        best = tl.where(larger, q, best)
        category = tl.where(larger, start, category)
    largest = tl.max(best, 1)
    first = tl.where(best == largest[:, None], category + lanes[None, :], C)
    return largest, tl.min(first, 1)


@triton.jit
def is_missing(missing, b, variable, batch, variables):
    """Of samples b."""
    place = b.to(tl.int64) * variables + variable
    return tl.load(missing + place, mask=b < batch, other=0) != 0


@triton.jit(do_not_specialize=["record"])
def mode_fwd_kernel(
    theta, missing, n, tables, record, batch, variables, K, C,
    BK: tl.constexpr, BC: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """BK nodes of one input, for all samples; grid (tiles of K, inputs)."""
    own = tables + record + 4 * tl.program_id(1)
    row, variable, where = tl.load(own), tl.load(own + 1), tl.load(own + 2)
    k = tl.program_id(0) * BK + tl.arange(0, BK)
    largest, _ = modes(theta + where, k, K, C, BC)
    value = tl.log(largest)[:, None] + tl.zeros([BK, BB], tl.float32)
    for start in range(0, batch, BB):
        b = start + tl.arange(0, BB)
        gone = is_missing(missing, b, variable, batch, variables)
        tl.store(n + at(row + k, b, batch), value, mask=(k < K)[:, None] & gone[None, :])


@triton.jit(do_not_specialize=["owners"])
def mode_flows_kernel(
    theta, out, missing, flows, tables, owners, batch, variables, K, C,
    DERIVATIVE: tl.constexpr, PARTIAL: tl.constexpr,
    BK: tl.constexpr, BC: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """BK rows of one owner's table; grid (tiles of K, owners).

    ``owners`` and PARTIAL as in categorical_triton.py. DERIVATIVE: it is added, too.
    """
    users = tables + owners + 2 * tl.program_id(1)
    first, last = tl.load(users), tl.load(users + 1)
    own = tables + tl.load(tables + first)
    where, statistics = tl.load(own + 2), tl.load(own + 3)
    k = tl.program_id(0) * BK + tl.arange(0, BK)
    largest, category = modes(theta + where, k, K, C, BC)
    total = tl.zeros([BK], tl.float32)
    parts = tl.cdiv(batch, BB)
    count = (last - first) * parts
    for start in range(0, count, PARTIAL):
        lanes = tl.zeros([BK, BB], tl.float32)
        for part in range(start, tl.minimum(start + PARTIAL, count)):
            own = tables + tl.load(tables + first + part // parts)
            b = (part % parts) * BB + tl.arange(0, BB)
            gone = is_missing(missing, b, tl.load(own + 1), batch, variables)
            inside = (k < K)[:, None] & gone[None, :]
            lanes += tl.load(flows + at(tl.load(own) + k, b, batch), mask=inside, other=0.0)
        total += tl.sum(lanes, 1)
    if DERIVATIVE:
        total = tl.where(total == 0, 0.0, total / largest)
        statistics = where  # a derivative's place is that of the parameter
    place = out + statistics + k * C + category
    total += tl.load(place, mask=k < K, other=0.0)
    tl.store(place, total, mask=k < K)
