"""Quotients q = f / S of all sums at once, for parameter flows that need others than the flows of
elements left: those of a temperature, or of flows that were logarithms.

The reference is reference_sum.ratio.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.circuit.layer_triton import at, give_flow


@triton.jit(do_not_specialize=["first_row", "first_sum", "last_row"])
def quotients_kernel(
    logs, flows, quotients, sums, first_row, first_sum, last_row, batch,
    LOG: tl.constexpr, BR: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """Rows from ``first_row`` on, of which those from ``first_sum`` on are of sums.

    Grid (tiles of rows, tiles of the batch). LOG: flows are made of their logarithms first.
    """
    row = first_row + tl.program_id(0) * BR + tl.arange(0, BR)
    b = tl.program_id(1) * BB + tl.arange(0, BB)
    inside = (row < last_row)[:, None] & (b < batch)[None, :]
    if LOG:
        f = tl.exp(tl.load(logs + at(row, b, batch), mask=inside, other=0.0))
    else:
        f = tl.load(flows + at(row, b, batch), mask=inside, other=0.0)
    give_flow(flows, quotients, sums, row, f, b, batch, inside, first_sum, last_row)
