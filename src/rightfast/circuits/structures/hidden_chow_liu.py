"""Hidden Chow-Liu tree: a latent variable beside every variable, joined as a tree.

    s_v[j] = log sum_k A_v[j, k] exp(b_v[k, x_v] + sum of s_u[k] over the children u of v)

j is the latent state of v's parent. Source: A. Liu and G. Van den Broeck, Tractable
regularization of probabilistic circuits (arXiv 2106.02264).
"""

from collections.abc import Sequence

from torch import Tensor

from rightfast.circuits.leaves.base import Distribution
from rightfast.circuits.nodes import SumNodes, inputs, multiply, summate
from rightfast.circuits.structures.arguments import one_each, positive
from rightfast.circuits.structures.chow_liu import chow_liu_tree


def hclt(
    data: Tensor | None = None,
    *,
    num_latents: int,
    dist: Distribution | Sequence[Distribution],
    parents: Sequence[int] | None = None,
) -> SumNodes:
    """The root of a hidden Chow-Liu tree.

    The tree is that of ``data`` [samples, variables], or ``parents``: the parent of every
    variable, -1 for the root. Raises ValueError unless one of the two is given and is a tree.
    """
    positive("num_latents", num_latents)
    if (data is None) == (parents is None):
        raise ValueError("hclt needs data for a Chow-Liu tree, or the tree as parents: give one")
    tree = list(parents) if data is None else chow_liu_tree(data)  # type: ignore[arg-type]
    dists = one_each(dist, len(tree))
    children: list[list[SumNodes]] = [[] for _ in tree]
    for v in reversed(from_root(tree)):
        elements = multiply(inputs(v, num_latents, dists[v]), *children[v])
        if tree[v] < 0:
            return summate(elements, num_nodes=1)
        children[tree[v]].append(summate(elements, num_nodes=num_latents))
    raise AssertionError("from_root ends with a root")


def from_root(parents: Sequence[int]) -> list[int]:
    """All variables, parents first; ValueError unless ``parents`` is a tree."""
    below: list[list[int]] = [[] for _ in parents]
    roots: list[int] = []
    for v, parent in enumerate(parents):
        if not -1 <= parent < len(parents):
            raise ValueError(f"the parent of variable {v} must be -1 or a variable, got {parent}")
        (roots if parent < 0 else below[parent]).append(v)
    if len(roots) != 1:
        raise ValueError(f"a tree has one root, whose parent is -1, got {len(roots)}")
    order = list(roots)
    for v in order:
        order.extend(below[v])
    if len(order) != len(parents):
        raise ValueError("parents form a circle, not a tree")
    return order
