"""Poon-Domingos: every axis-aligned cut of a box of variables, at multiples of an interval.

A box has `num_latents` sums over the products of its two parts, for every cut through it; boxes
of one cell are products of inputs. Source: H. Poon and P. Domingos, Sum-product networks: a new
deep architecture (arXiv 1202.3732).
"""

import random
from collections.abc import Sequence
from itertools import product

from rightfast.circuits.leaves.base import Distribution
from rightfast.circuits.nodes import CircuitNodes, SumNodes, inputs, multiply, summate
from rightfast.circuits.structures.arguments import one_each, positive

Box = tuple[tuple[int, int], ...]  # (start, stop) along every axis


def pd(
    shape: Sequence[int],
    num_latents: int,
    dist: Distribution | Sequence[Distribution],
    *,
    split_intervals: int | Sequence[int] = 1,
    max_cuts: int | None = None,
    seed: int = 0,
) -> SumNodes:
    """The root of a Poon-Domingos circuit over a grid of ``shape``, variables in C order.

    ``split_intervals``, one or one for each axis: cuts lie at its multiples only. A smaller
    interval means more boxes: a grid of a x b cells has about a^2 b^2 / 4. ``max_cuts``: at most so
    many of the cuts of a box, drawn by ``seed``, 0 or more; the whole has all of its cuts.
    """
    if not shape:
        raise ValueError("shape must have at least one axis, got none")
    sizes = [positive("every size of shape", n) for n in shape]
    positive("num_latents", num_latents)
    steps = [split_intervals] * len(sizes) if isinstance(split_intervals, int) else split_intervals
    if len(steps) != len(sizes):
        raise ValueError(f"split_intervals must be one or {len(sizes)} numbers, got {len(steps)}")
    for step in steps:
        positive("split_intervals", step)
    strides = [1] * len(sizes)
    for axis in reversed(range(len(sizes) - 1)):
        strides[axis] = strides[axis + 1] * sizes[axis + 1]
    dists = one_each(dist, strides[0] * sizes[0])
    if max_cuts is not None:
        positive("max_cuts", max_cuts)
    positive("seed", seed, 0)
    nodes: dict[Box, CircuitNodes] = {}
    whole = tuple((0, n) for n in sizes)
    picked = random.Random(seed)
    for box in _boxes(whole, steps):
        cuts = _cuts(box, steps)
        if max_cuts is not None and len(cuts) > max_cuts and box != whole:
            cuts = [cuts[i] for i in sorted(picked.sample(range(len(cuts)), max_cuts))]
        parts = [multiply(nodes[a], nodes[b]) for a, b in cuts]
        if not parts:
            cell = product(*(range(start, stop) for start, stop in box))
            variables = [sum(i * s for i, s in zip(index, strides)) for index in cell]
            parts = [multiply(*(inputs(v, num_latents, dists[v]) for v in variables))]
        if box == whole:
            return summate(*parts, num_nodes=1)
        nodes[box] = summate(*parts, num_nodes=num_latents)
    raise AssertionError("the last box is the whole")


def _cuts(box: Box, steps: Sequence[int]) -> list[tuple[Box, Box]]:
    """The pairs of boxes that a box can be cut into."""
    found = []
    for axis, (start, stop) in enumerate(box):
        for at in range(start - start % steps[axis] + steps[axis], stop, steps[axis]):
            low = (*box[:axis], (start, at), *box[axis + 1 :])
            found.append((low, (*box[:axis], (at, stop), *box[axis + 1 :])))
    return found


def _boxes(whole: Box, steps: Sequence[int]) -> list[Box]:
    """All boxes that cuts of the whole lead to, smaller ones first."""
    found = {whole}
    stack = [whole]
    while stack:
        for pair in _cuts(stack.pop(), steps):
            for part in pair:
                if part not in found:
                    found.add(part)
                    stack.append(part)
    return sorted(found, key=lambda box: (_volume(box), box))


def _volume(box: Box) -> int:
    size = 1
    for start, stop in box:
        size *= stop - start
    return size
