"""Flows of a layer of maxima: each goes to the child that the maximum came from.

    f_e[c, b] = sum_m f[m, b] [chosen[m, b] = c],    F[m, c] += sum_b f[m, b] [chosen[m, b] = c]

or, as a derivative by theta, F / theta. A tile [BN, BC, BB] of sums, children and samples keeps a
sum a lane, so that the lanes are added up once; every number has one owner, and there are no atomic
additions. The reference is reference_max.py.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.circuit.layer_triton import at, hand_down


@triton.jit
def share(chosen, flows, place, row, m, c, b, batch, N):
    """What sums m hand to children c: [m, c, b]."""
    inside = (m < N)[:, None] & (b < batch)[None, :]
    child = tl.load(chosen + at(place + m, b, batch), mask=inside, other=-1)
    f = tl.load(flows + at(row + m, b, batch), mask=inside, other=0.0)
    return tl.where(child[:, None, :] == c[None, :, None], f[:, None, :], 0.0)


@triton.jit(do_not_specialize=["record"])
def max_element_flows_kernel(
    chosen, flows, kept, tables, record, batch, N, C,
    W: tl.constexpr, FACTORS: tl.constexpr, ROWS: tl.constexpr,
    BN: tl.constexpr, BC: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """A tile [BC, BB] of one group; grid (tiles of C, groups, tiles of the batch).

    ROWS: flows go to the rows of the factors, else to ``kept`` [elements, batch].
    """
    own = tables + record + 8 * tl.program_id(1)
    row, place = tl.load(own), tl.load(own + 1)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    b = tl.program_id(2) * BB + tl.arange(0, BB)
    lanes = tl.zeros([BN, BC, BB], tl.float32)
    for start in range(0, N, BN):
        lanes += share(chosen, flows, place, row, start + tl.arange(0, BN), c, b, batch, N)
    f = tl.sum(lanes, 0)
    if ROWS:
        blocks, factors = tl.load(own + 3), tl.load(own + 4)
        hand_down(flows, tables, blocks, factors, f, c, b, batch, C, W, FACTORS)
    else:
        inside = (c < C)[:, None] & (b < batch)[None, :]
        tl.store(kept + at(tl.load(own + 6) + c, b, batch), f, mask=inside)


@triton.jit(do_not_specialize=["record", "first_sum"])
def max_combine_flows_kernel(
    chosen, flows, tables, record, first_sum, batch, N, C,
    P: tl.constexpr, BN: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """Of maxima in P parts of C children each: the flow goes to the part of the chosen child.

    Grid (tiles of N, groups, tiles of the batch).
    """
    own = tables + record + 4 * tl.program_id(1)
    row, first = tl.load(own), tl.load(own + 1)
    m = tl.program_id(0) * BN + tl.arange(0, BN)
    b = tl.program_id(2) * BB + tl.arange(0, BB)
    inside = (m < N)[:, None] & (b < batch)[None, :]
    part = tl.load(chosen + at(row - first_sum + m, b, batch), mask=inside, other=0) // C
    f = tl.load(flows + at(row + m, b, batch), mask=inside, other=0.0)
    for p in range(P):
        tl.store(flows + at(first + p * N + m, b, batch), tl.where(part == p, f, 0.0), mask=inside)


@triton.jit(do_not_specialize=["owners"])
def max_parameter_flows_kernel(
    theta, out, chosen, flows, tables, owners, batch, N, C, step,
    ALIGN: tl.constexpr, DERIVATIVE: tl.constexpr, PARTIAL: tl.constexpr,
    BN: tl.constexpr, BC: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """A tile [BN, BC] of one owner's parameters; grid (tiles of C, tiles of N, owners).

    ``owners``, DERIVATIVE and PARTIAL as in parameter_flows_triton.py.
    """
    users = tables + owners + 2 * tl.program_id(2)
    first, last = tl.load(users), tl.load(users + 1)
    where = tl.multiple_of(tl.load(tables + tl.load(tables + first) + 5), ALIGN)
    m = tl.program_id(1) * BN + tl.arange(0, BN)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    found = tl.zeros([BN, BC], tl.float32)
    parts = tl.cdiv(batch, BB)
    count = (last - first) * parts
    for start in range(0, count, PARTIAL):
        lanes = tl.zeros([BN, BC, BB], tl.float32)
        for part in range(start, tl.minimum(start + PARTIAL, count)):
            own = tables + tl.load(tables + first + part // parts)
            b = (part % parts) * BB + tl.arange(0, BB)
            lanes += share(chosen, flows, tl.load(own + 1), tl.load(own), m, c, b, batch, N)
        found += tl.sum(lanes, 2)

    inside = (m < N)[:, None] & (c < C)[None, :]
    place = where + m[:, None] * step + c[None, :]
    if DERIVATIVE:
        t = tl.load(theta + place, mask=inside, other=1.0)
        found = tl.where(t > 0, found / t, 0.0)
        found = tl.minimum(tl.maximum(found, -3.4028234e38), 3.4028234e38)
    else:
        found += tl.load(out + place, mask=inside, other=0.0)
    tl.store(out + place, found, mask=inside)
