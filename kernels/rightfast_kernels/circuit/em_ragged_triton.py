"""The M-step of rows of probabilities that are not equally long; else it is em_triton.py's.

The reference is reference_update.segments.
"""

# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["bounds", "start", "rows"])
def em_ragged_kernel(
    theta, flows, tables, bounds, start, rows, eta, kappa,
    KEEP: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Rows that begin at ``start``; grid (tiles of BR rows,).

    ``bounds`` [rows + 1] in ``tables``: where each begins, counted from there, and the last ends.
    """
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    first = tl.load(tables + bounds + r, mask=r < rows, other=0)
    length = tl.load(tables + bounds + r + 1, mask=r < rows, other=0) - first
    longest = tl.max(length, 0)
    begin = (start + first.to(tl.int64))[:, None]
    total = tl.zeros([BR], tl.float32)
    alive = tl.zeros([BR], tl.float32)
    for part in range(0, longest, BC):
        c = part + tl.arange(0, BC)[None, :]
        inside = c < length[:, None]
        total += tl.sum(tl.load(flows + begin + c, mask=inside, other=0.0), 1)
        if KEEP:
            old = tl.load(theta + begin + c, mask=inside, other=0.0)
            alive += tl.sum((old > 0).to(tl.float32), 1)
    if not KEEP:
        alive = length.to(tl.float32)
    share = kappa / tl.maximum(alive, 1.0)
    total += tl.where(alive > 0, kappa, 0.0)
    for part in range(0, longest, BC):
        c = part + tl.arange(0, BC)[None, :]
        inside = c < length[:, None]
        old = tl.load(theta + begin + c, mask=inside, other=0.0)
        f = tl.load(flows + begin + c, mask=inside, other=0.0)
        if KEEP:
            f += tl.where(old > 0, share[:, None], 0.0)
        else:
            f += share[:, None]
        new = tl.where(total[:, None] > 0, f / total[:, None], old)
        new = tl.where(eta == 1, new, old + eta * (new - old))
        new = tl.where(new > 1.1754944e-38, new, 0.0)
        tl.store(theta + begin + c, new, mask=inside)
