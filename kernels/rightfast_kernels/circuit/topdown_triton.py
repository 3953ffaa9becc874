"""From the root down: each sample takes one child of a sum, and all factors of a product.

    child of m ~ theta[m, c]                    DRAW
    child of m ~ theta[m, c] exp(e[c, b])       DRAW, GIVEN: the posterior, e of the forward pass
    child of m = argmax_c log theta[m, c] + e   GIVEN: the first one

A sample visits one sum of a group at most, since the scopes of a product's factors are disjoint. So
``selected`` [slots, batch] holds for every group of sums, products or inputs which of its nodes it
is, counted from 1, or 0; each number is written by one program. ``places`` [rows, 2] holds every
row's slot, and which of its group's nodes it is. The reference is circuits/topdown.py.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.circuit.layer_triton import elements, row_of
from rightfast_kernels.circuit.sampling_triton import (
    NONE,
    add_logs,
    drawn,
    first_of,
    pick,
    uniform,
)


@triton.jit
def visit(selected, places, row, b, batch, wanted):
    """Notes that samples b visit these rows."""
    slot = tl.load(places + 2 * row.to(tl.int64), mask=wanted, other=0)
    place = tl.load(places + 2 * row.to(tl.int64) + 1, mask=wanted, other=0)
    tl.store(selected + slot.to(tl.int64) * batch + b, place, mask=wanted)


@triton.jit
def weights_of(
    theta, n, tables, own, m, c, b, batch, wanted, C, step,
    W: tl.constexpr, FACTORS: tl.constexpr, GIVEN: tl.constexpr,
):  # fmt: skip
    """[c, b] of the children c of the sums m [b]: theta, or if GIVEN log theta + e."""
    place = theta + tl.load(own + 5) + (m * step)[None, :] + c[:, None]
    t = tl.load(place, mask=(c < C)[:, None] & wanted[None, :], other=0.0)
    if GIVEN:
        e = elements(n, tables, tl.load(own + 3), tl.load(own + 4), c, b, batch, C, W, FACTORS)
        t = tl.where(t > 0, tl.log(t), float("-inf")) + e
    return t


@triton.jit(do_not_specialize=["record", "slot"])
def select_kernel(
    theta, n, selected, seed, tables, places, record, slot, batch, C, step,
    W: tl.constexpr, FACTORS: tl.constexpr, GIVEN: tl.constexpr, DRAW: tl.constexpr,
    P: tl.constexpr, BC: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """One group of sums, whose C P children come in P parts; grid (groups, tiles of the batch)."""
    own = tables + record + 8 * P * tl.program_id(0)
    slot += tl.program_id(0)
    b = tl.program_id(1) * BB + tl.arange(0, BB)
    place = tl.load(selected + tl.cast(slot, tl.int64) * batch + b, mask=b < batch, other=0)
    wanted = place > 0
    if tl.max(place, 0) > 0:
        m = tl.maximum(place, 1) - 1
        top = tl.full([BB], float("-inf"), tl.float32)
        total = tl.zeros([BB], tl.float32)
        for part in range(P):
            for start in range(0, C, BC):
                c = start + tl.arange(0, BC)
                t = weights_of(
                    theta, n, tables, own + 8 * part, m, c, b, batch, wanted, C, step,
                    W, FACTORS, GIVEN,
                )  # fmt: skip
                if not GIVEN:
                    total += tl.sum(t, 0)
                elif DRAW:
                    top, total = add_logs(top, total, t)
                else:
                    top = tl.maximum(top, tl.max(t, 0))
        target = total
        if DRAW:
            target = total * uniform(seed, slot, b)
        base = tl.where(top == float("-inf"), 0.0, top)
        chosen = tl.full([BB], NONE, tl.int32)
        last = tl.full([BB], -1, tl.int32)
        before = tl.zeros([BB], tl.float32)
        for part in range(P):
            for start in range(0, C, BC):
                c = start + tl.arange(0, BC)
                t = weights_of(
                    theta, n, tables, own + 8 * part, m, c, b, batch, wanted, C, step,
                    W, FACTORS, GIVEN,
                )  # fmt: skip
                child = part * C + c
                if not DRAW:
                    fits = (t == top[None, :]) & (t > float("-inf"))
                    chosen = first_of(chosen, fits, child)
                else:
                    if GIVEN:
                        t = tl.exp(t - base[None, :])
                    chosen, last, before = pick(chosen, last, before, t, target, child)
        chosen = drawn(chosen, last)
        wanted &= chosen >= 0
        chosen = tl.maximum(chosen, 0)
        part_of = own + 8 * (chosen // C)
        blocks, factors = tl.load(part_of + 3), tl.load(part_of + 4)
        if FACTORS > 0:
            for j in tl.static_range(FACTORS):
                row = row_of(tables, blocks, j, chosen % C, C, W)
                visit(selected, places, row, b, batch, wanted & (row > 0))
        else:
            factors = tl.where(wanted, factors, 0)
            for j in range(tl.max(factors, 0)):
                child = tl.where(j < factors, chosen % C, C)
                row = row_of(tables, blocks, j, child, C, W)
                visit(selected, places, row, b, batch, wanted & (j < factors) & (row > 0))


@triton.jit(do_not_specialize=["record", "slot"])
def hand_on_kernel(
    selected, tables, places, record, slot, batch, C, W: tl.constexpr, BB: tl.constexpr
):  # fmt: skip
    """One group of C products that are rows of their own; grid (groups, tiles of the batch)."""
    own = tables + record + 8 * tl.program_id(0)
    slot += tl.program_id(0)
    b = tl.program_id(1) * BB + tl.arange(0, BB)
    place = tl.load(selected + tl.cast(slot, tl.int64) * batch + b, mask=b < batch, other=0)
    if tl.max(place, 0) > 0:
        c = tl.where(place > 0, place - 1, C)
        blocks = tl.load(own + 3)
        for j in range(tl.load(own + 4)):
            row = row_of(tables, blocks, j, c, C, W)
            visit(selected, places, row, b, batch, row > 0)
