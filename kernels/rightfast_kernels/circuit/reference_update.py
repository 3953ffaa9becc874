"""The M-step of probabilities: rows of theta that sum to 1, in place, from their flows F.

    theta' = (1 - eta) theta + eta (F + kappa / n) / (sum F + kappa)

eta is the step size, kappa the pseudocount; n counts the entries of a row, or with
``keep_zero_params`` those that are not 0, which then stay 0. Rows without any flow keep theta where
kappa is 0. Everything happens in place: fresh memory would cost more than the arithmetic.
"""

import torch
from torch import Tensor


def rows(
    theta: Tensor, flows: Tensor, step_size: float, pseudocount: float, keep_zero_params: bool
) -> None:
    """``theta`` and ``flows`` [..., C]; a row lies along the last axis."""
    counts = flows
    if pseudocount:
        alive = _alive(theta, keep_zero_params)
        number = alive.sum(-1, keepdim=True)
        counts = alive.mul_(pseudocount / number.clamp_(min=1)).add_(flows)
    _take_over(theta, counts, counts.sum(-1, keepdim=True), step_size)


def segments(
    theta: Tensor,
    flows: Tensor,
    row: Tensor,
    num_rows: int,
    step_size: float,
    pseudocount: float,
    keep_zero_params: bool,
) -> None:
    """``theta`` and ``flows`` [E]; entry i belongs to row ``row[i]``."""
    counts = flows
    if pseudocount:
        alive = _alive(theta, keep_zero_params)
        number = alive.new_zeros(num_rows).index_add_(0, row, alive)
        counts = alive.mul_((pseudocount / number.clamp_(min=1))[row]).add_(flows)
    total = flows.new_zeros(num_rows).index_add_(0, row, counts)
    _take_over(theta, counts, total[row], step_size)


def _alive(theta: Tensor, keep_zero_params: bool) -> Tensor:
    return (theta > 0).to(theta.dtype) if keep_zero_params else torch.ones_like(theta)


def _take_over(theta: Tensor, counts: Tensor, total: Tensor, step_size: float) -> None:
    reached = total > 0
    if step_size == 1 and theta.is_cpu and bool(reached.all()):
        torch.div(counts, total, out=theta)  # without reading the old
    else:
        theta.mul_(torch.ones_like(total).masked_fill_(reached, 1 - step_size))
        theta.addcdiv_(counts, torch.where(reached, total / step_size, torch.inf))
    # Denormal numbers would make every later product of matrices many times slower.
    torch.threshold_(theta, torch.finfo(theta.dtype).tiny, 0.0)
