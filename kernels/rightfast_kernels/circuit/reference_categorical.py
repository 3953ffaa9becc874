"""Categorical inputs: values picked from tables, and flows counted into tables.

log_prob     out[g, k, b] = log q[g, k, x[g, b]]
accumulate   F[g, k, x[g, b]] += f[g, k, b]
"""

import torch
from torch import Tensor


def gather_table(table: Tensor, x: Tensor, out: Tensor) -> None:
    """``out`` [G, K, B] = table[g, k, x[g, b]]; table [G, K, C], may be expanded over G."""
    torch.gather(table, 2, x.unsqueeze(1).expand(out.shape), out=out)


def log_prob(probabilities: Tensor, x: Tensor, out: Tensor) -> None:
    """``out`` [G, K, B]; the logarithm is taken of the table or of what was picked, whichever
    is less."""
    groups, nodes, _ = out.shape
    shared = groups > 1 and probabilities.stride(0) == 0
    tables = 1 if shared else groups
    if tables * nodes * probabilities.shape[2] <= out.numel():
        table = probabilities[:1] if shared else probabilities
        gather_table(table.log().expand(probabilities.shape), x, out)
    else:
        gather_table(probabilities, x, out)
        out.log_()


def accumulate(x: Tensor, flows: Tensor, counts: Tensor) -> None:
    """Adds flows [G, K, B] to counts [G, K, C], or [1, K, C] for groups that share them."""
    groups, nodes, batch = flows.shape
    if counts.shape[0] == groups:
        counts.scatter_add_(2, x.unsqueeze(1).expand(flows.shape), flows)
    else:
        folded = flows.transpose(0, 1).reshape(nodes, groups * batch)
        counts[0].scatter_add_(1, x.reshape(1, -1).expand(folded.shape), folded)
