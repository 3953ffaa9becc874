"""Products that many elements share, kept as rows of their own.

    n[p, b] = sum_j n[row_j(p), b],    f[row_j(p), b] = f[p, b]

Each of the rows below belongs to one product only, so that every flow has one owner. The reference
is reference_product.py.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.circuit.layer_triton import at, elements, hand_down


@triton.jit(do_not_specialize=["record"])
def product_fwd_kernel(
    n, tables, record, batch, C, W: tl.constexpr, BC: tl.constexpr, BB: tl.constexpr
):  # fmt: skip
    """A tile [BC, BB] of one group of C products; grid (tiles of C, groups, tiles of the batch)."""
    own = tables + record + 8 * tl.program_id(1)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    b = tl.program_id(2) * BB + tl.arange(0, BB)
    e = elements(n, tables, tl.load(own + 3), tl.load(own + 4), c, b, batch, C, W, 0)
    tl.store(n + at(tl.load(own) + c, b, batch), e, mask=(c < C)[:, None] & (b < batch)[None, :])


@triton.jit(do_not_specialize=["record"])
def product_flows_kernel(
    flows, tables, record, batch, C, W: tl.constexpr, BC: tl.constexpr, BB: tl.constexpr
):  # fmt: skip
    """The same tile on its way back."""
    own = tables + record + 8 * tl.program_id(1)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    b = tl.program_id(2) * BB + tl.arange(0, BB)
    inside = (c < C)[:, None] & (b < batch)[None, :]
    f = tl.load(flows + at(tl.load(own) + c, b, batch), mask=inside, other=0.0)
    hand_down(flows, tables, tl.load(own + 3), tl.load(own + 4), f, c, b, batch, C, W, 0)
