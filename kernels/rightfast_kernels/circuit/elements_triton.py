"""Elements of a layer, scaled: E[c, b] = exp(alpha (e[c, b] - m[b])), m = max_c e, by one kernel.

e is the sum of the rows of an element's factors. m is kept, and E where many tiles of sums read it;
where one does, it makes E anew in every pass, which is less to write and to read. The reference is
reference_product.forward and the first half of reference_sum.forward.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.circuit.layer_triton import elements, exponential, from_row, near


@triton.jit(do_not_specialize=["record"])
def elements_fwd_kernel(
    n, scaled, shift, tables, record, batch, alpha, C,
    W: tl.constexpr, FACTORS: tl.constexpr, POWER: tl.constexpr, KEPT: tl.constexpr,
    WHOLE: tl.constexpr, BC: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """All elements of one group for BB samples; grid (groups, tiles of the batch).

    WHOLE: BC holds all of them; else factors are read once more when m is known.
    """
    own = tables + record + 8 * tl.program_id(0)
    group, blocks, factors = tl.load(own + 2), tl.load(own + 3), tl.load(own + 4)
    first = tl.load(own + 7)
    b = tl.program_id(1) * BB + tl.arange(0, BB)
    at_shift = shift + group.to(tl.int64) * batch + b
    if WHOLE:
        c = tl.arange(0, BC)
        e = elements(n, tables, blocks, factors, c, b, batch, C, W, FACTORS)
        largest = largest_of(e)
        tl.store(at_shift, largest, mask=b < batch)
        if KEPT:
            write(scaled, first, e, largest, c, b, batch, alpha, C, POWER)
    else:
        largest = tl.full([BB], float("-inf"), tl.float32)
        for start in range(0, C, BC):
            c = start + tl.arange(0, BC)
            e = elements(n, tables, blocks, factors, c, b, batch, C, W, FACTORS)
            found = largest_of(e)
            largest = tl.where((found > largest) | (found != found), found, largest)
        tl.store(at_shift, largest, mask=b < batch)
        if KEPT:
            for start in range(0, C, BC):
                c = start + tl.arange(0, BC)
                e = elements(n, tables, blocks, factors, c, b, batch, C, W, FACTORS)
                write(scaled, first, e, largest, c, b, batch, alpha, C, POWER)


@triton.jit
def largest_of(e):
    """max_c e [c, b]; NaN where there is one: of data that is none, which a maximum would drop."""
    wrong = tl.max((e != e).to(tl.int32), 0) > 0
    return tl.where(wrong, float("nan"), tl.max(e, 0))


@triton.jit
def write(scaled, first, e, largest, c, b, batch, alpha, C, POWER: tl.constexpr):
    """E."""
    inside = (c < C)[:, None] & (b < batch)[None, :]
    found = exponential(e, largest, alpha, POWER)
    tl.store(from_row(scaled, first, batch) + near(c, b, batch), found, mask=inside)
