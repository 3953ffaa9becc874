"""Parameter flows of sums by one kernel, over all samples and all groups that share parameters.

    H[m, c] = sum_b q[m, b] E[c, b],    q = f / S,    F += theta^alpha H

or, as a derivative by theta, theta^(alpha - 1) H. A tile of parameters has one owner, which goes
over the batch and over every group (of whatever layer) that has these parameters; no atomic
additions, so results are the same bits each time. The reference is reference_sum.to_parameters.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.circuit.layer_triton import (
    any_nan,
    at,
    elements,
    multiply,
    powered,
    scaled_elements,
)


@triton.jit(do_not_specialize=["owners"])
def parameter_flows_kernel(
    theta, out, n, scaled, shift, flows, quotients, tables, owners, batch, alpha, N, C, step,
    W: tl.constexpr, FACTORS: tl.constexpr, ALIGN: tl.constexpr, POWER: tl.constexpr,
    PRECISION: tl.constexpr, KEPT: tl.constexpr, DERIVATIVE: tl.constexpr,
    PARTIAL: tl.constexpr,
    BN: tl.constexpr, BC: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """A tile [BN, BC] of one owner's parameters; grid (tiles of C, tiles of N, owners).

    ``owners`` holds for each where its users begin and end: places of records in ``tables``.
    DERIVATIVE: it is written to ``out``, else flows are added. PARTIAL: so many tiles of samples
    are summed by themselves, since one long sum in float32 loses digits; 0: all at once.
    """
    users = tables + owners + 2 * tl.program_id(2)
    first, last = tl.load(users), tl.load(users + 1)
    where = tl.load(tables + tl.load(tables + first) + 5)
    where = tl.multiple_of(where, ALIGN)
    m = tl.program_id(1) * BN + tl.arange(0, BN)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    inside = (m < N)[:, None] & (c < C)[None, :]

    acc = tl.zeros([BN, BC], tl.float32)
    parts = tl.cdiv(batch, BB)
    count = (last - first) * parts
    if PARTIAL > 0:
        for start in range(0, count, PARTIAL):
            some = tl.zeros([BN, BC], tl.float32)
            for part in range(start, tl.minimum(start + PARTIAL, count)):
                some = add_part(
                    some, part, parts, n, scaled, shift, quotients, tables, first, m, c,
                    batch, alpha, N, C, W, FACTORS, POWER, PRECISION, KEPT, BB,
                )  # fmt: skip
            acc += some
    else:
        for part in range(count):
            acc = add_part(
                acc, part, parts, n, scaled, shift, quotients, tables, first, m, c,
                batch, alpha, N, C, W, FACTORS, POWER, PRECISION, KEPT, BB,
            )  # fmt: skip

    place = where + m[:, None] * step + c[None, :]
    t = tl.load(theta + place, mask=inside, other=0.0)
    power = powered(t, alpha, POWER)
    if DERIVATIVE:
        found = acc
        if POWER:
            found = tl.where(t > 0, acc * power / t, 0.0)
    else:
        found = tl.where(t > 0, acc * power, 0.0)
    if any_nan(acc):
        exact = entry_by_entry(
            t, n, flows, tables, first, last, m, c, batch, alpha,
            N, C, W, FACTORS, POWER, DERIVATIVE,
        )  # fmt: skip
        found = tl.where(acc == acc, found, exact)
    if DERIVATIVE:
        found = tl.minimum(found, 3.4028234e38)
    else:
        found += tl.load(out + place, mask=inside, other=0.0)
    tl.store(out + place, found, mask=inside)


@triton.jit
def add_part(
    acc, part, parts, n, scaled, shift, quotients, tables, first, m, c, batch, alpha, N, C,
    W: tl.constexpr, FACTORS: tl.constexpr, POWER: tl.constexpr, PRECISION: tl.constexpr,
    KEPT: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """acc and what BB samples of one user add to it."""
    own = tables + tl.load(tables + first + part // parts)
    b = (part % parts) * BB + tl.arange(0, BB)
    known = b < batch
    q = tl.load(
        quotients + at(tl.load(own + 1) + m, b, batch),
        mask=(m < N)[:, None] & known[None, :],
        other=0.0,
    )
    largest = tl.load(shift + tl.load(own + 2).to(tl.int64) * batch + b, mask=known, other=0.0)
    e = scaled_elements(
        scaled, tl.load(own + 7), n, tables, tl.load(own + 3), tl.load(own + 4), largest,
        c, b, batch, alpha, C, W, FACTORS, POWER, KEPT,
    )  # fmt: skip
    e = tl.where(e == e, e, 0.0)  # of data that is none, which has no flow
    return multiply(q, tl.trans(e), acc, PRECISION)


@triton.jit
def entry_by_entry(
    t, n, flows, tables, first, last, m, c, batch, alpha, N, C,
    W: tl.constexpr, FACTORS: tl.constexpr, POWER: tl.constexpr, DERIVATIVE: tl.constexpr,
):  # fmt: skip
    """sum_b f (theta exp(e - n))^alpha, over theta for a derivative."""
    total = tl.zeros([m.shape[0], c.shape[0]], tl.float32)
    log_theta = tl.where(t > 0, tl.log(t), float("-inf"))
    for part in range((last - first) * batch):
        own = tables + tl.load(tables + first + part // batch)
        sample = part % batch
        b = sample + tl.arange(0, 1)
        e = elements(n, tables, tl.load(own + 3), tl.load(own + 4), c, b, batch, C, W, FACTORS)
        rows = (tl.load(own) + m).to(tl.int64) * batch + sample
        f = tl.load(flows + rows, mask=m < N, other=0.0)
        value = tl.load(n + rows, mask=m < N, other=0.0)
        gap = tl.trans(e) - value[:, None]
        if DERIVATIVE:
            if POWER:
                term = tl.exp(alpha * (log_theta + gap) - log_theta)
                term = tl.where(t > 0, term, 0.0)
            else:
                term = tl.exp(gap)
        else:
            term = log_theta + gap
            if POWER:
                term = term * alpha
            term = tl.exp(term)
        total += tl.where((f == 0)[:, None], 0.0, term * f[:, None])
    return total
