"""Categorical inputs: values picked from tables, and flows counted into tables.

log_prob     out[g, k, b] = log q[g, k, x[g, b]]
accumulate   F[g, k, x[g, b]] += f[g, k, b]
add_gradient D[g, k, x[g, b]] += f[g, k, b] / q[g, k, x[g, b]]
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
        gather_table(log_(table.clone()).expand(probabilities.shape), x, out)
    else:
        gather_table(probabilities, x, out)
        log_(out)


def log_(values: Tensor) -> Tensor:
    """In place; 0 gives -inf. Its logarithm takes a CPU many times as long as others."""
    tiny = torch.finfo(values.dtype).tiny
    if not values.numel() or float(values.amin()) >= tiny:
        return values.log_()
    zero = values == 0
    return (
        values.log_()
        if not bool(zero.any())
        else values.masked_fill_(zero, 1.0).log_().masked_fill_(zero, -torch.inf)
    )


def accumulate(x: Tensor, flows: Tensor, counts: Tensor) -> None:
    """Adds flows [G, K, B] to counts [G, K, C], or [1, K, C] for groups that share them."""
    groups, nodes, batch = flows.shape
    if counts.shape[0] == groups:
        counts.scatter_add_(2, x.unsqueeze(1).expand(flows.shape), flows)
    else:
        folded = flows.transpose(0, 1).reshape(nodes, groups * batch)
        counts[0].scatter_add_(1, x.reshape(1, -1).expand(folded.shape), folded)


def add_gradient(probabilities: Tensor, x: Tensor, flows: Tensor, out: Tensor) -> None:
    """Adds flows [G, K, B] over what they came from to ``out`` [G, K, C]; finite, 0 for 0 / 0."""
    index = x.unsqueeze(1).expand(flows.shape)
    found = flows / probabilities.gather(2, index)
    limit = torch.finfo(found.dtype).max / max(1, x.shape[1])  # so that no sum overflows
    out.scatter_add_(2, index, found.nan_to_num_(nan=0.0).clamp_(-limit, limit))
