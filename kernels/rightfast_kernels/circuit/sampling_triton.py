"""Draws by inverse CDF: of children of sums (topdown_triton.py), and of categories of inputs.

    chosen = the first c with sum_{i <= c} w_i > u sum_i w_i

u is Philox's, of a seed in memory and a counter of its own for each slot (a group of sums, or an
input) and sample; so the same seed gives a sample the same values whatever the batch, and a
recorded launch does not freeze it. Sums of w are float32; what has w = 0 is never drawn, however
they are rounded. The reference is leaves.base.draw_categories.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

NONE = tl.constexpr(2147483647)


@triton.jit
def uniform(seed, slot, b):
    """u [b] of one slot."""
    return tl.rand(tl.load(seed), (tl.cast(slot, tl.int64) << 32) + b)


@triton.jit
def add_logs(top, total, t):
    """The largest of log-weights t [c, b] and of those before, and the sum of exp(t - largest)."""
    larger = tl.maximum(top, tl.max(t, 0))
    base = tl.where(larger == float("-inf"), 0.0, larger)
    return larger, total * tl.exp(top - base) + tl.sum(tl.exp(t - base[None, :]), 0)


@triton.jit
def first_of(chosen, fits, c):
    """The least of ``chosen`` [b] and of those c that fit [c, b]."""
    return tl.minimum(chosen, tl.min(tl.where(fits, c[:, None], NONE), 0))


@triton.jit
def pick(chosen, last, before, w, target, c):
    """Goes on with weights w [c, b]: what is chosen, the last that may be, the sum so far."""
    fits = (before[None, :] + tl.cumsum(w, 0) > target[None, :]) & (w > 0)
    last = tl.maximum(last, tl.max(tl.where(w > 0, c[:, None], -1), 0))
    return first_of(chosen, fits, c), last, before + tl.sum(w, 0)


@triton.jit
def drawn(chosen, last):
    """What was chosen; where rounding takes u times the sum up to the sum, the last."""
    return tl.where(chosen == NONE, last, chosen)


@triton.jit(do_not_specialize=["record", "slot"])
def categorical_sample_kernel(
    theta, selected, missing, seed, out, tables, record, slot, batch, variables, C,
    MASK: tl.constexpr, DRAW: tl.constexpr, BC: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """Values of one input, to ``out`` [batch, variables]; grid (inputs, tiles of the batch).

    Only of samples that visit a node of it and miss the value. DRAW: else the first of the most
    likely. ``selected`` as topdown_triton.py has it.
    """
    own = tables + record + 4 * tl.program_id(0)
    slot += tl.program_id(0)
    variable, where = tl.load(own + 1), tl.load(own + 2)
    b = tl.program_id(1) * BB + tl.arange(0, BB)
    place = tl.load(selected + tl.cast(slot, tl.int64) * batch + b, mask=b < batch, other=0)
    at_value = b.to(tl.int64) * variables + variable
    wanted = place > 0
    if MASK:
        wanted &= tl.load(missing + at_value, mask=wanted, other=0) != 0
    if tl.max(wanted.to(tl.int32), 0) > 0:
        table = theta + where + (tl.maximum(place, 1) - 1).to(tl.int64)[None, :] * C
        top = tl.zeros([BB], tl.float32)
        total = tl.zeros([BB], tl.float32)
        for start in range(0, C, BC):
            c = start + tl.arange(0, BC)
            inside = (c < C)[:, None] & wanted[None, :]
            q = tl.load(table + c[:, None], mask=inside, other=0.0)
            top = tl.maximum(top, tl.max(q, 0))
            total += tl.sum(q, 0)
        target = total
        if DRAW:
            target = total * uniform(seed, slot, b)
        chosen = tl.full([BB], NONE, tl.int32)
        last = tl.full([BB], -1, tl.int32)
        before = tl.zeros([BB], tl.float32)
        for start in range(0, C, BC):
            c = start + tl.arange(0, BC)
            inside = (c < C)[:, None] & wanted[None, :]
            q = tl.load(table + c[:, None], mask=inside, other=0.0)
            if DRAW:
                chosen, last, before = pick(chosen, last, before, q, target, c)
            else:
                chosen = first_of(chosen, inside & (q == top[None, :]), c)
        tl.store(out + at_value, drawn(chosen, last), mask=wanted)
