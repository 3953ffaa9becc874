"""Categorical inputs: log-probabilities picked from tables, and flows counted into tables.

    n[k, b] = log q[k, x[b]]
    F[k, c] += sum_b f[k, b] [x[b] = c],    the derivative by q: the same over q

Data is read as it is, [batch, variables]; a value that is no category gives NaN. A missing value
has n = 0 and counts as its expectation: F[k, c] += f q[k, c]. What is counted is a product with a
matrix of 0 and 1, for which flows are split into PARTS bfloat16 numbers, of which three hold all
digits: every product is exact, sums are float32, and a tile of F has one owner. The reference is
reference_categorical.py.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.circuit.layer_triton import at, multiply_bf16

RECORD = 4  # integers an input: its first row, its variable, where its table and its counts begin


@triton.jit
def categories(x, missing, b, variable, batch, variables, C, MASK: tl.constexpr):
    """(category, whether there is one, whether it is missing), of samples b."""
    known = b < batch
    place = b.to(tl.int64) * variables + variable
    raw = tl.load(x + place, mask=known, other=0)
    value = raw.to(tl.int64)
    right = (value >= 0) & (value < C) & (value.to(raw.dtype) == raw)
    gone = b < 0
    if MASK:
        gone = tl.load(missing + place, mask=known, other=0) != 0
    return value, right & known & ~gone, gone & known


@triton.jit(do_not_specialize=["record"])
def categorical_fwd_kernel(
    theta, x, missing, n, tables, record, batch, variables, K, C,
    MASK: tl.constexpr, BK: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """A tile [BK, BB] of one input; grid (tiles of K, inputs, tiles of the batch)."""
    own = tables + record + 4 * tl.program_id(1)
    row, variable, where = tl.load(own), tl.load(own + 1), tl.load(own + 2)
    k = tl.program_id(0) * BK + tl.arange(0, BK)
    b = tl.program_id(2) * BB + tl.arange(0, BB)
    value, right, gone = categories(x, missing, b, variable, batch, variables, C, MASK)
    inside = (k < K)[:, None] & (b < batch)[None, :]
    place = theta + where + k[:, None] * C + value[None, :]
    out = tl.log(tl.load(place, mask=inside & right[None, :], other=float("nan")))
    if MASK:
        out = tl.where(gone[None, :], 0.0, out)
    tl.store(n + at(row + k, b, batch), out, mask=inside)


@triton.jit(do_not_specialize=["owners"])
def categorical_flows_kernel(
    theta, out, x, missing, flows, tables, owners, batch, variables, K, C,
    MASK: tl.constexpr, DERIVATIVE: tl.constexpr, PARTS: tl.constexpr, PARTIAL: tl.constexpr,
    BK: tl.constexpr, BC: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """A tile [BK, BC] of one owner's table; grid (tiles of C, tiles of K, owners).

    ``owners`` holds for each where its inputs begin and end: places of records in ``tables``.
    DERIVATIVE: it is written to ``out``, else flows are added. PARTIAL: so many tiles of samples
    are summed by themselves, since one long sum in float32 loses digits.
    """
    users = tables + owners + 2 * tl.program_id(2)
    first, last = tl.load(users), tl.load(users + 1)
    own = tables + tl.load(tables + first)
    where, statistics = tl.load(own + 2), tl.load(own + 3)
    k = tl.program_id(1) * BK + tl.arange(0, BK)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    acc = tl.zeros([BK, BC], tl.float32)
    unseen = tl.zeros([BK], tl.float32)
    parts = tl.cdiv(batch, BB)
    count = (last - first) * parts
    for start in range(0, count, PARTIAL):
        some = tl.zeros([BK, BC], tl.float32)
        for part in range(start, tl.minimum(start + PARTIAL, count)):
            own = tables + tl.load(tables + first + part // parts)
            row, variable = tl.load(own), tl.load(own + 1)
            b = (part % parts) * BB + tl.arange(0, BB)
            value, right, gone = categories(x, missing, b, variable, batch, variables, C, MASK)
            inside = (k < K)[:, None] & (b < batch)[None, :]
            f = tl.load(flows + at(row + k, b, batch), mask=inside, other=0.0)
            same = (value[:, None] == c[None, :]) & right[:, None]
            one = tl.where(same, 1.0, 0.0).to(tl.bfloat16)
            high = f.to(tl.bfloat16)
            rest = f - high.to(tl.float32)
            middle = rest.to(tl.bfloat16)
            low = (rest - middle.to(tl.float32)).to(tl.bfloat16)
            if PARTS > 2:
                some = multiply_bf16(low, one, some)
            if PARTS > 1:
                some = multiply_bf16(middle, one, some)
            some = multiply_bf16(high, one, some)
            if MASK:
                unseen += tl.sum(tl.where(gone[None, :], f, 0.0), 1)
        acc += some
    wanted = (k < K)[:, None] & (c < C)[None, :]
    place = k[:, None] * C + c[None, :]
    if DERIVATIVE:
        q = tl.load(theta + where + place, mask=wanted, other=1.0)
        # Flows through a probability of 0 are 0: what it gives is impossible.
        found = tl.where(acc == 0, 0.0, tl.minimum(acc / q, 3.4028234e38))
        if MASK:
            found += unseen[:, None]
        tl.store(out + statistics + place, found, mask=wanted)
    else:
        if MASK:
            acc += tl.load(theta + where + place, mask=wanted, other=0.0) * unseen[:, None]
        else:
            wanted = wanted & (acc != 0)  # most categories do not occur in a small batch
        acc += tl.load(out + statistics + place, mask=wanted, other=0.0)
        tl.store(out + statistics + place, acc, mask=wanted)
