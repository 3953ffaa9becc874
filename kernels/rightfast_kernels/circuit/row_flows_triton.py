"""Flows of rows, and quotients q = f / S of sums: the root's from the weights, others' from lists.

    f[row] = sum over its elements p of f_e[p]

A row has one owner, which reads the elements that it is a factor of from a list: no atomic
additions. The reference is
reference_product.backward.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.circuit.layer_triton import at, give_flow, quotient


@triton.jit(do_not_specialize=["root", "place"])
def root_flow_kernel(
    n, weights, flows, quotients, sums, root, place, batch, BB: tl.constexpr
):  # fmt: skip
    """The weights [batch], 0 for what is impossible or no data; grid (tiles of the batch,)."""
    b = tl.program_id(0) * BB + tl.arange(0, BB)
    value = tl.load(n + tl.cast(root, tl.int64) * batch + b, mask=b < batch, other=0.0)
    weight = tl.load(weights + b, mask=b < batch, other=0.0)
    weight = tl.where((value == value) & (value > float("-inf")), weight, 0.0)
    tl.store(flows + tl.cast(root, tl.int64) * batch + b, weight, mask=b < batch)
    own = tl.cast(place, tl.int64) * batch + b
    s = tl.load(sums + own, mask=b < batch, other=1.0)
    tl.store(quotients + own, quotient(weight, s), mask=b < batch)


@triton.jit(do_not_specialize=["lists", "count", "first_sum", "last_sum"])
def row_flows_kernel(
    flows, quotients, sums, kept, tables, lists, count, first_sum, last_sum, batch,
    BR: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """``count`` rows; grid (tiles of these, tiles of the batch).

    ``lists`` in ``tables``: [count, 3], a row, and where its elements begin and end.
    """
    i = tl.program_id(0) * BR + tl.arange(0, BR)
    b = tl.program_id(1) * BB + tl.arange(0, BB)
    entry = tables + lists + 3 * i
    row = tl.load(entry, mask=i < count, other=0)
    start = tl.load(entry + 1, mask=i < count, other=0)
    length = tl.load(entry + 2, mask=i < count, other=0) - start
    total = tl.zeros([BR, BB], tl.float32)
    for k in range(tl.max(length, 0)):
        has = k < length
        element = tl.load(tables + start + k, mask=has, other=0)
        inside = has[:, None] & (b < batch)[None, :]
        total += tl.load(kept + at(element, b, batch), mask=inside, other=0.0)
    inside = (i < count)[:, None] & (b < batch)[None, :]
    give_flow(flows, quotients, sums, row, total, b, batch, inside, first_sum, last_sum)
