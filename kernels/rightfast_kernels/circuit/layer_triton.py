"""What the kernels of a layer of sums share: its tables, its elements, its products of matrices.

A group of sums is described by a record of RECORD integers: the row of its first sum, its place
among the rows of sums, its place among the groups, where its blocks are, how many factors an
element has, where its theta begins, its first element among those whose flows are kept, and among
all. Its C elements come in blocks of W, whose factor j lies in rows that follow each other, or in
one row: ``blocks`` [factors, C / W] holds 2 row + 1 or 2 row for the first of these, 0 where there
is no such factor.

Buffers are [rows, batch], the batch innermost.
"""

# mypy: ignore-errors

import os

import triton
import triton.language as tl

RECORD = 8

# The interpreter multiplies the bits of bfloat16 numbers, not the numbers.
INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")

# Below this a sum of scaled exponentials has lost digits to underflow: tiny / eps of float32.
LEAST = tl.constexpr(9.8607613e-32)

# A quotient above this, of a large weight, is too close to where a sum of such overflows.
MOST = tl.constexpr(1.0141205e31)

# Side of the tiles that are computed entry by entry.
SMALL = tl.constexpr(16)


@triton.jit
def elements(n, tables, blocks, factors, c, b, batch, C, W: tl.constexpr, FACTORS: tl.constexpr):
    """e [c, b], the sum of the factors' rows; -inf past C. FACTORS: how many, 0: it varies."""
    inside = (c < C)[:, None] & (b < batch)[None, :]
    e = tl.zeros([c.shape[0], b.shape[0]], tl.float32)
    if FACTORS > 0:
        for j in tl.static_range(FACTORS):
            e += factor(n, tables, blocks, j, c, b, batch, inside, C, W)
    else:
        for j in range(factors):
            e += factor(n, tables, blocks, j, c, b, batch, inside, C, W)
    return tl.where((c < C)[:, None], e, float("-inf"))


@triton.jit
def scaled_elements(
    scaled, first, n, tables, blocks, factors, largest, c, b, batch, alpha, C,
    W: tl.constexpr, FACTORS: tl.constexpr, POWER: tl.constexpr, KEPT: tl.constexpr,
):  # fmt: skip
    """E [c, b] as it was KEPT, or once more from the factors and m [b]; 0 past the ends, and for
    data that is none, whose e is NaN."""
    inside = (c < C)[:, None] & (b < batch)[None, :]
    if KEPT:
        own = from_row(scaled, first, batch)
        found = tl.load(own + near(c, b, batch), mask=inside, other=0.0)
    else:
        e = elements(n, tables, blocks, factors, c, b, batch, C, W, FACTORS)
        found = tl.where(inside, exponential(e, largest, alpha, POWER), 0.0)
    return found


@triton.jit
def exponential(e, largest, alpha, POWER: tl.constexpr):
    """exp(alpha (e - m)), 0 where e and m are -inf, and where they are NaN."""
    gap = e - tl.where(largest == float("-inf"), 0.0, largest)[None, :]
    if POWER:
        gap = gap * alpha
    return tl.where(gap == gap, tl.exp(gap), 0.0)


@triton.jit
def factor(n, tables, blocks, j, c, b, batch, inside, C, W: tl.constexpr):
    """One factor of the elements, 0 where there is none."""
    row = row_of(tables, blocks, j, c, C, W)
    return tl.load(n + at(row, b, batch), mask=inside & (row > 0)[:, None], other=0.0)


@triton.jit
def row_of(tables, blocks, j, c, C, W: tl.constexpr):
    """The rows of factor j, 0 where there is none."""
    block = tl.load(tables + blocks + j * (C // W) + c // W, mask=c < C, other=0)
    return (block >> 1) + (block & 1) * (c % W)


@triton.jit
def powered(theta, alpha, POWER: tl.constexpr):
    """theta^alpha, 0 for 0."""
    if POWER:
        return tl.where(theta > 0, tl.exp(alpha * tl.log(theta)), 0.0)
    return theta


@triton.jit
def quotient(f, s):
    """f / S: 0 without flow, and NaN where S has lost its digits, or the quotient is too large to
    go on with, so that whatever it goes into has to be computed in another way."""
    q = f / s
    return tl.where(f == 0, 0.0, tl.where((s < LEAST) | (q > MOST), float("nan"), q))


@triton.jit
def give_flow(flows, quotients, sums, row, f, b, batch, inside, first_sum, last_sum):
    """Writes the flow f of rows and, for those of sums, their `quotient`."""
    tl.store(flows + at(row, b, batch), f, mask=inside)
    own = inside & ((row >= first_sum) & (row < last_sum))[:, None]
    place = at(row - first_sum, b, batch)
    s = tl.load(sums + place, mask=own, other=1.0)
    tl.store(quotients + place, quotient(f, s), mask=own)


@triton.jit
def hand_down(
    flows, tables, blocks, factors, f, c, b, batch, C, W: tl.constexpr, FACTORS: tl.constexpr
):  # fmt: skip
    """Writes the flow f of elements as that of the rows of all their factors."""
    inside = (c < C)[:, None] & (b < batch)[None, :]
    if FACTORS > 0:
        for j in tl.static_range(FACTORS):
            row = row_of(tables, blocks, j, c, C, W)
            tl.store(flows + at(row, b, batch), f, mask=inside & (row > 0)[:, None])
    else:
        for j in range(factors):
            row = row_of(tables, blocks, j, c, C, W)
            tl.store(flows + at(row, b, batch), f, mask=inside & (row > 0)[:, None])


@triton.jit
def at(rows, b, batch):
    """Offsets of [rows, b]."""
    return (rows.to(tl.int64) * batch)[:, None] + b[None, :]


@triton.jit
def from_row(buffer, row, batch):
    """Where one row begins, for offsets `near` it."""
    return buffer + tl.cast(row, tl.int64) * batch


@triton.jit
def near(rows, b, batch):
    """Offsets of [rows, b] within one group, which 32 bits hold."""
    return (rows * batch)[:, None] + b[None, :]


@triton.jit
def multiply(a, b, acc, PRECISION: tl.constexpr):
    """acc + a @ b: "ieee", "tf32x3", "tf32" or "bf16" factors, float32 sums."""
    if PRECISION == "bf16":
        acc = multiply_bf16(a.to(tl.bfloat16), b.to(tl.bfloat16), acc)
    else:
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    return acc


@triton.jit
def multiply_bf16(a, b, acc):
    """acc + a @ b of bfloat16 numbers."""
    if INTERPRETED:
        return tl.dot(a.to(tl.float32), b.to(tl.float32), acc)
    return tl.dot(a, b, acc)


@triton.jit
def any_nan(x):
    """Whether there is a NaN in x [i, j]."""
    return tl.max(tl.max((x != x).to(tl.int32), 1), 0) > 0
