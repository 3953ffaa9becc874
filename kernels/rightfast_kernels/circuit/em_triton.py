"""The M-step of rows of probabilities, in place and in one go over the memory.

    theta' = (1 - eta) theta + eta (F + kappa / n) / (sum F + kappa)

n counts a row's entries, or with KEEP those that are not 0, which stay 0; a row without flow keeps
its parameters. What is not above the smallest normal number becomes 0. The reference is
reference_update.py.
"""

# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["rows"])
def em_kernel(
    theta, flows, start, statistics, rows, eta, kappa,
    C: tl.constexpr, KEEP: tl.constexpr,
    BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Rows of C probabilities that begin at ``start``; grid (tiles of BR rows,)."""
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    place = r.to(tl.int64)[:, None] * C
    total = tl.zeros([BR], tl.float32)
    alive = tl.zeros([BR], tl.float32)
    for first in range(0, C, BC):
        c = first + tl.arange(0, BC)
        inside = (r < rows)[:, None] & (c < C)[None, :]
        total += tl.sum(tl.load(flows + statistics + place + c[None, :], mask=inside, other=0.0), 1)
        if KEEP:
            old = tl.load(theta + start + place + c[None, :], mask=inside, other=0.0)
            alive += tl.sum((old > 0).to(tl.float32), 1)
    if KEEP:
        share = kappa / tl.maximum(alive, 1.0)
        total += tl.where(alive > 0, kappa, 0.0)
    else:
        share = tl.zeros([BR], tl.float32) + kappa / C
        total += kappa
    for first in range(0, C, BC):
        c = first + tl.arange(0, BC)
        inside = (r < rows)[:, None] & (c < C)[None, :]
        old = tl.load(theta + start + place + c[None, :], mask=inside, other=0.0)
        f = tl.load(flows + statistics + place + c[None, :], mask=inside, other=0.0)
        if KEEP:
            f += tl.where(old > 0, share[:, None], 0.0)
        else:
            f += share[:, None]
        new = tl.where(total[:, None] > 0, f / total[:, None], old)
        new = tl.where(eta == 1, new, old + eta * (new - old))
        new = tl.where(new > 1.1754944e-38, new, 0.0)
        tl.store(theta + start + place + c[None, :], new, mask=inside)
