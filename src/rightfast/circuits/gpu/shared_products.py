"""Factors that many elements have in common, taken out as products with rows of their own.

The elements of a random region graph are all pairs (i, j) of products of 20 inputs each: 40 factors
an element, where 2 are enough once the products are rows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rightfast.circuits.plan import ONE

Ints = NDArray[np.int64]
REUSED = 4  # a product is worth its rows if so many elements have it


@dataclass(frozen=True)
class Products:
    """G groups of P products, rows that follow each other from ``start``; factors [J, G, P]."""

    start: int
    factors: Ints

    @property
    def rows(self) -> int:
        """How many there are."""
        return int(self.factors.shape[1] * self.factors.shape[2])


def split(factors: Ints, used: Ints, start: int) -> tuple[Ints, list[Products]]:
    """The factors [J, G, C] of a family with shared products in place of what these multiply.

    ``used``: how often each row is a factor. New rows begin at ``start``.
    """
    found, products = [], []
    for run in _runs(factors):
        part = factors[run]
        picked = _pattern(part[0])
        groups, children = part.shape[1:]
        number = 0 if picked is None else int(picked.max()) + 1
        if picked is None or len(part) < 2 or number * REUSED > children:
            found += list(part)
            continue
        first = np.zeros(number, dtype=np.int64)
        first[picked[::-1]] = np.arange(children)[::-1]
        own = part[:, :, first]
        if (used[own] * number != children).any():  # a row that is a factor elsewhere, too
            found += list(part)
            continue
        products.append(Products(start, own))
        found.append(start + np.arange(groups)[:, None] * number + picked[None])
        start += groups * number
    return np.stack(found), products


def _runs(factors: Ints) -> list[slice]:
    """Neighbouring factors that pick in the same way."""
    relative = factors - factors[:, :, :1]
    starts = [0]
    for j in range(1, len(factors)):
        same = (relative[j] == relative[j - 1]).all() and not (factors[j] == ONE).any()
        if not same:
            starts.append(j)
    return [slice(a, b) for a, b in zip(starts, [*starts[1:], len(factors)])]


def _pattern(rows: Ints) -> Ints | None:
    """Which of its products each element has, from 0, if it is the same in all groups."""
    relative = rows - rows.min(1, keepdims=True)
    first = relative[0]
    if (relative != first).any() or (rows == ONE).any():
        return None
    return first if len(np.unique(first)) == first.max() + 1 else None
