"""Families of sums as matrices, those with edges of their own too: what the kernels compute with.

A sum that has edges of its own has its parameters in order of its children. So neighbouring sums
with the same children have a matrix of parameters, a dense block of a block-sparse layer; others
are matrices of one row.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rightfast.circuits.plan import ONE, SumFamily

Ints = NDArray[np.int64]


@dataclass
class Dense:
    """G sums with N nodes and C children each, whose parameters are a matrix for each group: the
    row of its first sum [G], factors [J, G, C] and where the matrix begins [G]."""

    nodes: int
    rows: Ints
    factors: Ints
    offsets: Ints


def dense(family: SumFamily) -> list[Dense]:
    """The same sums in matrices: groups that have edges of their own come apart where the
    parameters of neighbouring sums do not follow each other, and lose what pads them."""
    nodes, where, factors = family.nodes, family.parameters, _factors(family)
    rows = family.start + nodes * np.arange(family.groups)
    if where.index is None:
        offsets = where.offset + where.stride * np.arange(family.groups)
        return [Dense(nodes, rows, factors, offsets)]
    firsts = where.index[:, :, 0]
    widths = (where.index[:, 0] >= 0).sum(1)
    alike: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for g, width in enumerate(widths.tolist()):
        breaks = np.flatnonzero(np.diff(firsts[g]) != width) + 1
        for start, stop in pairwise([0, *breaks.tolist(), nodes]):
            alike.setdefault((stop - start, width), []).append((g, start))
    found = []
    for (count, width), members in alike.items():
        group, first = np.array(members).T
        own = np.ascontiguousarray(factors[:, group, :width])
        found.append(Dense(count, rows[group] + first, own, firsts[group, first]))
    return found


def _factors(family: SumFamily) -> Ints:
    """The row of every factor [factors, groups, children], ONE where there is none."""
    size = family.groups * family.children
    found = np.full((max(1, len(family.slots)), size), ONE, dtype=np.int64)
    for slot, rows in zip(found, (slot.rows for slot in family.slots)):
        slot[: len(rows)] = rows
    return found.reshape(-1, family.groups, family.children)
