"""Chow-Liu tree: the tree of largest mutual information between neighbours.

Source: C. Chow and C. Liu, Approximating discrete probability distributions with dependence
trees, IEEE Transactions on Information Theory 14 (1968).
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rightfast.circuits.structures.arguments import positive

Floats = NDArray[np.float64]
BLOCK = 1 << 24  # entries of the joint counts that are held at once


def chow_liu_tree(data: Tensor, *, num_bins: int = 16, pseudocount: float = 0.1) -> list[int]:
    """The parent of every variable, -1 for the root, from data [samples, variables].

    Discrete data with more than ``num_bins`` values, and all continuous data, are put into bins
    of equal width first. ``pseudocount`` is added to every joint count. The root is the centre of
    the tree, so that the circuit is as shallow as can be.
    """
    if not isinstance(data, Tensor) or data.dim() != 2 or not len(data) or not data.shape[1]:
        shape = list(data.shape) if isinstance(data, Tensor) else type(data).__name__
        raise ValueError(f"data must be a tensor [samples, variables], not empty, got {shape}")
    positive("num_bins", num_bins, 2)
    if not pseudocount >= 0:
        raise ValueError(f"pseudocount must not be negative, got {pseudocount}")
    return rooted(spanning_tree(mutual_information(binned(data, num_bins), pseudocount)))


def binned(data: Tensor, num_bins: int) -> Tensor:
    """Whole numbers from 0, at most ``num_bins`` of them."""
    if not data.is_floating_point() and int(data.min()) >= 0 and int(data.max()) < num_bins:
        return data.long()
    values = data.double()
    if not bool(values.isfinite().all()):
        raise ValueError("data must be finite: leave out samples with missing values")
    low, high = values.min(0).values, values.max(0).values
    width = torch.where(high > low, high - low, 1)
    return ((values - low) / width * num_bins).long().clamp_(0, num_bins - 1)


def mutual_information(categories: Tensor, pseudocount: float) -> Floats:
    """[V, V] in nats, from the joint counts of all pairs."""
    samples, variables = categories.shape
    bins = int(categories.max()) + 1
    one_hot = torch.nn.functional.one_hot(categories, bins).float().view(samples, -1)
    found = np.empty((variables, variables))
    step = max(1, BLOCK // (variables * bins * bins))
    total = samples + pseudocount * bins * bins
    single = (one_hot.sum(0).view(variables, bins).double() + pseudocount * bins) / total
    for start in range(0, variables, step):
        part = one_hot[:, start * bins : (start + step) * bins]
        count = part.shape[1] // bins
        joint = (part.T @ one_hot).view(count, bins, variables, bins).double()
        joint = (joint + pseudocount) / total
        independent = single[start : start + count, :, None, None] * single
        terms = torch.where(joint > 0, joint * (joint / independent).log(), 0)
        found[start : start + count] = terms.sum((1, 3)).numpy()
    return found


def spanning_tree(weights: Floats) -> list[tuple[int, int]]:
    """The edges of the tree with the largest total weight (Prim's algorithm)."""
    best = weights[0].copy()
    near = np.zeros(len(weights), dtype=int)
    best[0] = -np.inf
    inside = np.zeros(len(weights), dtype=bool)
    inside[0] = True
    edges = []
    for _ in range(len(weights) - 1):
        new = int(np.where(inside, -np.inf, best).argmax())
        edges.append((int(near[new]), new))
        inside[new] = True
        closer = weights[new] > best
        best[closer], near[closer] = weights[new][closer], new
    return edges


def rooted(edges: list[tuple[int, int]]) -> list[int]:
    """The parent of every variable, with the centre of the tree as the root."""
    neighbours: list[list[int]] = [[] for _ in range(len(edges) + 1)]
    for a, b in edges:
        neighbours[a].append(b)
        neighbours[b].append(a)
    end, _ = _walk(neighbours, 0)
    other, parents = _walk(neighbours, end)
    path = [other]
    while parents[path[-1]] >= 0:
        path.append(parents[path[-1]])
    return _walk(neighbours, path[len(path) // 2])[1]


def _walk(neighbours: list[list[int]], start: int) -> tuple[int, list[int]]:
    """The node farthest from the start, and every node's parent on the way from there."""
    parents = [-1] * len(neighbours)
    queue = [start]
    for node in queue:
        for near in neighbours[node]:
            if near != parents[node]:
                parents[near] = node
                queue.append(near)
    return queue[-1], parents
