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
    SMALL,
    any_nan,
    elements,
    from_row,
    multiply,
    near,
    powered,
    scaled_elements,
)


@triton.jit(do_not_specialize=["owners"])
def parameter_flows_kernel(
    theta, out, n, values, scaled, shift, flows, quotients, tables, owners,
    batch, alpha, N, C, step,
    W: tl.constexpr, FACTORS: tl.constexpr, ALIGN: tl.constexpr, POWER: tl.constexpr,
    PRECISION: tl.constexpr, KEPT: tl.constexpr, DERIVATIVE: tl.constexpr,
    PARTIAL: tl.constexpr, FLAT: tl.constexpr,
    BN: tl.constexpr, BC: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """A tile [BN, BC] of one owner's parameters; grid (tiles of C, tiles of N, owners).

    ``owners`` holds for each where its users begin and end: places of records in ``tables``.
    ``values`` are the sums' own, which with a temperature are not those in n. DERIVATIVE: it is
    written to ``out``, else flows are added. PARTIAL: so many tiles of samples are summed by
    themselves, since one long sum in float32 loses digits; 0: all at once. FLAT: BB holds the whole
    batch.
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
                    some, first + part // parts, part % parts * BB, n, scaled, shift, quotients,
                    tables, m, c, batch, alpha, N, C, W, FACTORS, POWER, PRECISION, KEPT, BB,
                )  # fmt: skip
            acc += some
    elif FLAT:
        for user in range(first, last):
            acc = add_part(
                acc, user, 0, n, scaled, shift, quotients,
                tables, m, c, batch, alpha, N, C, W, FACTORS, POWER, PRECISION, KEPT, BB,
            )  # fmt: skip
    else:  # a loop in which the tables are not read, so that its loads go ahead
        for user in range(first, last):
            for sample in range(0, batch, BB):
                acc = add_part(
                    acc, user, sample, n, scaled, shift, quotients,
                    tables, m, c, batch, alpha, N, C, W, FACTORS, POWER, PRECISION, KEPT, BB,
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
    if DERIVATIVE:
        found = tl.minimum(found, 3.4028234e38)
    if any_nan(acc):
        for i in range(0, BN, SMALL):
            for j in range(0, BC, SMALL):
                entry_by_entry(
                    theta, out, n, values, flows, tables, first, last, where,
                    tl.program_id(1) * BN + i + tl.arange(0, SMALL),
                    tl.program_id(0) * BC + j + tl.arange(0, SMALL),
                    batch, alpha, N, C, step, W, FACTORS, POWER, DERIVATIVE,
            )  # fmt: skip
    else:
        if not DERIVATIVE:
            found += tl.load(out + place, mask=inside, other=0.0)
        tl.store(out + place, found, mask=inside)


@triton.jit
def add_part(
    acc, user, sample, n, scaled, shift, quotients, tables, m, c, batch, alpha, N, C,
    W: tl.constexpr, FACTORS: tl.constexpr, POWER: tl.constexpr, PRECISION: tl.constexpr,
    KEPT: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """acc and what BB samples from this one on of one user add to it."""
    own = tables + tl.load(tables + user)
    b = sample + tl.arange(0, BB)
    known = b < batch
    q = tl.load(
        from_row(quotients, tl.load(own + 1), batch) + near(m, b, batch),
        mask=(m < N)[:, None] & known[None, :],
        other=0.0,
    )
    largest = tl.load(shift + tl.load(own + 2).to(tl.int64) * batch + b, mask=known, other=0.0)
    e = scaled_elements(
        scaled, tl.load(own + 7), n, tables, tl.load(own + 3), tl.load(own + 4), largest,
        c, b, batch, alpha, C, W, FACTORS, POWER, KEPT,
    )  # fmt: skip
    return multiply(q, tl.trans(e), acc, PRECISION)


@triton.jit
def entry_by_entry(
    theta, out, n, values, flows, tables, first, last, where, m, c, batch, alpha, N, C, step,
    W: tl.constexpr, FACTORS: tl.constexpr, POWER: tl.constexpr, DERIVATIVE: tl.constexpr,
):  # fmt: skip
    """sum_b f (theta exp(e - n))^alpha, over theta for a derivative. Few numbers at a time: it must
    not cost the usual path registers."""
    inside = (m < N)[:, None] & (c < C)[None, :]
    place = where + m[:, None] * step + c[None, :]
    t = tl.load(theta + place, mask=inside, other=0.0)
    total = tl.zeros([m.shape[0], c.shape[0]], tl.float32)
    log_theta = tl.where(t > 0, tl.log(t), float("-inf"))
    for part in range((last - first) * batch):
        own = tables + tl.load(tables + first + part // batch)
        sample = part % batch
        b = sample + tl.arange(0, 1)
        e = elements(n, tables, tl.load(own + 3), tl.load(own + 4), c, b, batch, C, W, FACTORS)
        rows = (tl.load(own) + m).to(tl.int64) * batch + sample
        f = tl.load(flows + rows, mask=m < N, other=0.0)
        value = tl.load(values + rows, mask=m < N, other=0.0)
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
    if DERIVATIVE:
        total = tl.minimum(total, 3.4028234e38)
    else:
        total += tl.load(out + place, mask=inside, other=0.0)
    tl.store(out + place, total, mask=inside)
