"""RAT-SPN: random binary partitions of the variables, repeated and mixed.

A region of variables splits at random into two halves, `depth` times. Leaf regions have
`num_latents` products of inputs, inner ones as many sums over all pairs of their halves' nodes
(an outer product, L^2 children a sum), or over the products of equal numbers (a Hadamard product,
L children; then leaf regions have sums, too, so that every product is one of mixtures).
Source: R. Peharz et al., Random sum-product networks (arXiv 1806.01910); Hadamard products as in
A. Liu et al., Scaling tractable probabilistic circuits (arXiv 2406.00766).
"""

from collections.abc import Sequence
from typing import Literal

import torch

from rightfast.circuits.leaves.base import Distribution
from rightfast.circuits.nodes import CircuitNodes, InputNodes, SumNodes, inputs, multiply, summate
from rightfast.circuits.structures.arguments import one_each, positive


def rat_spn(
    num_variables: int,
    num_latents: int,
    dist: Distribution | Sequence[Distribution],
    *,
    depth: int = 2,
    num_repetitions: int = 2,
    products: Literal["outer", "hadamard"] = "outer",
    share_inputs: bool = False,
    seed: int = 0,
) -> SumNodes:
    """The root of a random sum-product network; ``seed`` alone decides the partitions.

    Regions of one variable do not split further. ``products``: of all pairs of the nodes of two
    halves ("outer"), or of those with one number ("hadamard"), which are `num_latents` times
    fewer. ``share_inputs``: all repetitions have the same inputs, else each has its own.
    Raises ValueError for other values.
    """
    positive("num_variables", num_variables)
    positive("num_latents", num_latents)
    positive("depth", depth, 0)
    positive("num_repetitions", num_repetitions)
    if products not in ("outer", "hadamard"):
        raise ValueError(f"products must be 'outer' or 'hadamard', got {products!r}")
    dists = one_each(dist, num_variables)
    generator = torch.Generator().manual_seed(seed)
    leaves: list[InputNodes] = []
    tops = []
    for _ in range(num_repetitions):
        if not (leaves and share_inputs):
            leaves = [inputs(v, num_latents, d) for v, d in enumerate(dists)]
        tops.append(_repetition(leaves, num_latents, depth, products == "outer", generator))
    return summate(*tops, num_nodes=1)


def _repetition(
    leaves: Sequence[InputNodes],
    num_latents: int,
    depth: int,
    outer: bool,
    generator: torch.Generator,
) -> CircuitNodes:
    """The nodes of the top region: products, which the root mixes."""
    regions, splits = _partition(len(leaves), depth, generator)
    every = torch.arange(num_latents)
    pairs = torch.cartesian_prod(every, every) if outer else None
    nodes: dict[int, CircuitNodes] = {}
    for i in reversed(range(len(regions))):
        split = splits[i]
        if split is None:
            elements = multiply(*(leaves[v] for v in sorted(regions[i])))
        else:
            elements = multiply(nodes.pop(split[0]), nodes.pop(split[1]), edges=pairs)
        mixed = i > 0 and (split is not None or not outer)
        nodes[i] = summate(elements, num_nodes=num_latents) if mixed else elements
    return nodes[0]


def _partition(
    num_variables: int, depth: int, generator: torch.Generator
) -> tuple[list[list[int]], list[tuple[int, int] | None]]:
    """Regions, breadth first, and the two that each splits into."""
    regions = [torch.randperm(num_variables, generator=generator).tolist()]
    splits: list[tuple[int, int] | None] = []
    level = 0
    start, end = 0, 1
    while start < end:
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
    return regions, splits
