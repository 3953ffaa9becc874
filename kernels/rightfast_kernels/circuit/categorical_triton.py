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

from rightfast_kernels.circuit.layer_triton import from_row, multiply_bf16, near

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
    tl.store(from_row(n, row, batch) + near(k, b, batch), out, mask=inside)


@triton.jit(do_not_specialize=["owners"])
def categorical_flows_kernel(
    theta, out, x, missing, flows, tables, owners, batch, variables, K, C,
    MASK: tl.constexpr, EXPECTED: tl.constexpr, DERIVATIVE: tl.constexpr,
    PARTS: tl.constexpr, PARTIAL: tl.constexpr,
    BK: tl.constexpr, BC: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """A tile [BK, BC] of one owner's table; grid (tiles of C, tiles of K, owners).

    ``owners`` holds for each where its inputs begin and end: places of records in ``tables``.
    EXPECTED: a missing value counts as its expectation, else for nothing. DERIVATIVE: it is written
    to ``out``, else flows are added. PARTIAL: so many tiles of samples are summed by themselves,
    since one long sum in float32 loses digits; 0: all at once.
    """
    users = tables + owners + 2 * tl.program_id(2)
    first, last = tl.load(users), tl.load(users + 1)
    own = tables + tl.load(tables + first)
    where, statistics = tl.load(own + 2), tl.load(own + 3)
    k = tl.program_id(1) * BK + tl.arange(0, BK)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    acc = tl.zeros([BK, BC], tl.float32)
    unseen = tl.zeros([BK], tl.float32)
    for user in range(first, last):  # the inner loop reads no tables, so that its loads go ahead
        own = tables + tl.load(tables + user)
        below, variable = from_row(flows, tl.load(own), batch), tl.load(own + 1)
        if PARTIAL > 0:
            for start in range(0, batch, PARTIAL * BB):
                some = tl.zeros([BK, BC], tl.float32)
                for sample in range(start, tl.minimum(start + PARTIAL * BB, batch), BB):
                    some, unseen = count_part(
                        some, unseen, sample, x, missing, below, variable, k, c,
                        batch, variables, K, C, MASK, PARTS, BB,
                    )  # fmt: skip
                acc += some
        else:
            for sample in range(0, batch, BB):
                acc, unseen = count_part(
                    acc, unseen, sample, x, missing, below, variable, k, c,
                    batch, variables, K, C, MASK, PARTS, BB,
                )  # fmt: skip
    wanted = (k < K)[:, None] & (c < C)[None, :]
    place = k[:, None] * C + c[None, :]
    if DERIVATIVE:
        q = tl.load(theta + where + place, mask=wanted, other=1.0)
        # Flows through a probability of 0 are 0: what it gives is impossible.
        found = tl.where(acc == 0, 0.0, tl.minimum(acc / q, 3.4028234e38))
        if EXPECTED:
            found += unseen[:, None]
        tl.store(out + statistics + place, found, mask=wanted)
    else:
        if EXPECTED:
            acc += tl.load(theta + where + place, mask=wanted, other=0.0) * unseen[:, None]
        else:
            wanted = wanted & (acc != 0)  # most categories do not occur in a small batch
        acc += tl.load(out + statistics + place, mask=wanted, other=0.0)
        tl.store(out + statistics + place, acc, mask=wanted)


@triton.jit
def count_part(
    acc, unseen, sample, x, missing, flows, variable, k, c,
    batch, variables, K, C, MASK: tl.constexpr, PARTS: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """What BB samples of one input add to acc [k, c], and to the flow of missing values."""
    b = sample + tl.arange(0, BB)
    value, right, gone = categories(x, missing, b, variable, batch, variables, C, MASK)
    number = tl.where(right, value, -1).to(tl.int32)
    one = tl.where(number[:, None] == c[None, :], 1.0, 0.0).to(tl.bfloat16)
    inside = (k < K)[:, None] & (b < batch)[None, :]
    f = tl.load(flows + near(k, b, batch), mask=inside, other=0.0)
    acc = multiply_parts(f, one, acc, PARTS)
    if MASK:
        unseen += tl.sum(tl.where(gone[None, :], f, 0.0), 1)
    return acc, unseen


@triton.jit
def multiply_parts(f, one, acc, PARTS: tl.constexpr):
    """acc + f @ one, for a matrix of 0 and 1 and f in PARTS bfloat16 numbers."""
    high = f.to(tl.bfloat16)
    rest = f - high.to(tl.float32)
    middle = rest.to(tl.bfloat16)
    if PARTS > 2:
        acc = multiply_bf16((rest - middle.to(tl.float32)).to(tl.bfloat16), one, acc)
    if PARTS > 1:
        acc = multiply_bf16(middle, one, acc)
    return multiply_bf16(high, one, acc)


@triton.jit(do_not_specialize=["record"])
def categorical_few_flows_kernel(
    out, x, missing, flows, tables, record, batch, variables, K, C,
    PARTS: tl.constexpr, BK: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """BK nodes of one input with a table of its own; grid (tiles of K, inputs).

    For a batch of at most BB samples, whose categories are few of all: flows of samples with one
    category are added up and go to its place, once; the other places are not touched.
    """
    own = tables + record + 4 * tl.program_id(1)
    row, variable, statistics = tl.load(own), tl.load(own + 1), tl.load(own + 3)
    k = tl.program_id(0) * BK + tl.arange(0, BK)
    b = tl.arange(0, BB)
    value, right, _ = categories(x, missing, b, variable, batch, variables, C, False)
    number = tl.where(right, value, -1).to(tl.int32)
    # The same numbers once more, along the other axis: a value is never -2, so none past the end
    # is like another.
    across, known, _ = categories(
        x, missing, tl.arange(0, BB), variable, batch, variables, C, False
    )
    other = tl.where(known, across, -2).to(tl.int32)
    same = other[:, None] == number[None, :]
    earlier = same & (tl.arange(0, BB)[:, None] < b[None, :])
    leads = right & (tl.max(earlier.to(tl.int32), 0) == 0)
    inside = (k < K)[:, None] & (b < batch)[None, :]
    f = tl.load(from_row(flows, row, batch) + near(k, b, batch), mask=inside, other=0.0)
    one = tl.where(same, 1.0, 0.0).to(tl.bfloat16)
    total = multiply_parts(f, one, tl.zeros([BK, BB], tl.float32), PARTS)
    place = out + statistics + k[:, None] * C + number[None, :]
    wanted = inside & leads[None, :] & (total != 0)
    tl.store(place, tl.load(place, mask=wanted, other=0.0) + total, mask=wanted)
