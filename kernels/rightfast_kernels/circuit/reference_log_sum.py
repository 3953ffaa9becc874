"""Flows of a layer of sums in log space, where no flow is too small to be told from 0.

    l_e[c] = alpha e[c] + log sum_n theta[n, c]^alpha exp(l_n - alpha n),    l = log f

It is alpha times the sum layer's own operator, with theta transposed, of l_n / alpha - n; a sum
with n = -inf contributes nothing.
"""

import torch
from torch import Tensor

from rightfast_kernels.circuit import reference_wide


def to_elements(theta: Tensor, e: Tensor, n: Tensor, flows: Tensor, alpha: float) -> Tensor:
    """l_e [G, C, B], float64, from theta [G, N, C], e, n and l_n [G, N, B]."""
    impossible = n.isneginf() | flows.isneginf()
    into = torch.where(impossible, -torch.inf, flows.double() / alpha - n)
    out = reference_wide.forward(theta.transpose(1, 2), into, alpha).n
    return torch.where(e.isneginf(), -torch.inf, alpha * (out + e))
