"""RAT-SPN: random binary partitions of the variables, repeated and mixed.

A region of variables splits at random into two halves, `depth` times. Leaf regions have
`num_latents` products of inputs, inner ones as many sums over all pairs of their halves' nodes.
Source: R. Peharz et al., Random sum-product networks (arXiv 1806.01910).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from rightfast.circuits.leaves.base import Distribution
from rightfast.circuits.nodes import CircuitNodes, SumNodes, inputs, multiply, summate
from rightfast.circuits.structures.arguments import one_each, positive


def rat_spn(
    num_variables: int,
    num_latents: int,
    dist: Distribution | Sequence[Distribution],
    *,
    depth: int = 2,
    num_repetitions: int = 2,
    seed: int = 0,
) -> SumNodes:
    """The root of a random sum-product network; ``seed`` alone decides the partitions.

    Regions of one variable do not split further. Every repetition has inputs of its own.
    """
    positive("num_variables", num_variables)
    positive("num_latents", num_latents)
    positive("depth", depth, 0)
    positive("num_repetitions", num_repetitions)
    dists = one_each(dist, num_variables)
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.cartesian_prod(torch.arange(num_latents), torch.arange(num_latents))
    tops = [
        _repetition(num_variables, num_latents, dists, depth, pairs, generator)
        for _ in range(num_repetitions)
    ]
    return summate(*tops, num_nodes=1)


def _repetition(
    num_variables: int,
    num_latents: int,
    dists: Sequence[Distribution],
    depth: int,
    pairs: Tensor,
    generator: torch.Generator,
) -> CircuitNodes:
    """The nodes of the top region: products, which the root mixes."""
    regions = [torch.randperm(num_variables, generator=generator).tolist()]
    splits: list[tuple[int, int] | None] = []
    level = 0
    start, end = 0, 1
    while start < end:  # breadth first; regions[i] is split into those that splits[i] names
        for i in range(start, end):
            region = regions[i]
            if level == depth or len(region) == 1:
                splits.append(None)
                continue
            shuffled = [region[j] for j in torch.randperm(len(region), generator=generator)]
            half = len(region) // 2
            splits.append((len(regions), len(regions) + 1))
            regions += [shuffled[:half], shuffled[half:]]
        start, end, level = end, len(regions), level + 1
    nodes: dict[int, CircuitNodes] = {}
    for i in reversed(range(len(regions))):
        split = splits[i]
        if split is None:
            leaves = [inputs(v, num_latents, dists[v]) for v in sorted(regions[i])]
            nodes[i] = multiply(*leaves)
            continue
        elements = multiply(nodes.pop(split[0]), nodes.pop(split[1]), edges=pairs)
        nodes[i] = elements if i == 0 else summate(elements, num_nodes=num_latents)
    return nodes[0]
