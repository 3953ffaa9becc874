"""A layer of maxima: n = max_c(log theta[n, c] + e[c]), and which child it was.

Ties go to the first child; its index is kept, so that the flow goes to one child only.
"""

import torch
from torch import Tensor

PIECE = 1 << 21  # elements of a scratch tensor


def forward(theta: Tensor, e: Tensor, out: Tensor) -> Tensor:
    """Maxima into ``out`` [G, N, B]; returns the children [G, N, B] they came from, int64."""
    groups, children, batch = e.shape
    step = max(1, PIECE // max(1, groups * children * batch))
    log_theta = theta.log()
    found = []
    for start in range(0, theta.shape[1], step):
        terms = log_theta[:, start : start + step, :, None] + e[:, None]
        values, child = terms.max(2)
        out[:, start : start + step] = values
        found.append(child)
    return torch.cat(found, 1)


def to_elements(children: Tensor, flows: Tensor, out: Tensor) -> None:
    """Flows [G, N, B] to the chosen elements: overwrites ``out`` [G, C, B]."""
    out.zero_().scatter_add_(1, children, flows)


def to_parameters(children: Tensor, flows: Tensor, out: Tensor) -> None:
    """Adds the flows to the chosen edges, ``out`` [G, N, C]."""
    out.scatter_add_(2, children, flows)
