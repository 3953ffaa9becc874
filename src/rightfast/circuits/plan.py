"""What `compile` makes of a node graph: tables of integers, no tensors of the circuit's dtype.

Row-major [rows, batch] buffers hold log-probabilities: row 0 is 0 (the factor 1, a product's
missing child), row 1 is -inf (a sum's missing child), then the inputs, then the sums in order of
evaluation. Products have no rows: a family computes its own just before its sums.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rightfast.circuits.leaves.base import Distribution
from rightfast.circuits.nodes import CircuitNodes, InputNodes, SumNodes

ONE, ZERO = 0, 1  # the constant rows
Index = NDArray[np.int64]


@dataclass(frozen=True)
class Parameters:
    """Where G groups find theirs in a flat tensor: at ``offset + g * stride``.

    A stride of 0 means that all groups share them. ``index`` [G, N, C], where given, holds the
    place of every entry instead, -1 where a padded row has none.
    """

    offset: int
    stride: int
    index: Index | None = None


@dataclass(frozen=True)
class InputFamily:
    """G input nodes of one distribution and one size K; rows ``start`` to ``start + G * K``."""

    dist: Distribution
    groups: int
    nodes: int
    start: int
    variables: Index
    parameters: Parameters
    statistics: Parameters


@dataclass(frozen=True)
class Slot:
    """One factor of each element of a family: ``rows[i]`` is its row, for the first elements.

    ``write``: the rows are distinct, contiguous and get no flow before, so that the backward pass
    may overwrite what is there.
    """

    rows: Index
    write: bool


@dataclass(frozen=True)
class SumFamily:
    """G sums with N nodes and C children each, which one batched product of matrices serves.

    Their rows are ``start`` to ``start + G * N``; ``slots`` hold the factors of the G * C
    elements.
    """

    groups: int
    nodes: int
    children: int
    start: int
    parameters: Parameters
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class Placement:
    """Where the parameters and the statistics of one owner are in the flat tensors."""

    owner: InputNodes | SumNodes
    offset: int
    size: int
    statistics: int


@dataclass(frozen=True)
class Simplex:
    """Rows of sum parameters that are normalised: R rows of C, or one row number an entry."""

    offset: int
    rows: int
    children: int
    segments: Index | None


@dataclass(frozen=True)
class Plan:
    """A compiled circuit; immutable, and free of devices and dtypes."""

    order: tuple[CircuitNodes, ...]
    inputs: tuple[InputFamily, ...]
    layers: tuple[tuple[SumFamily, ...], ...]
    placements: tuple[Placement, ...]
    simplices: tuple[Simplex, ...]
    rows_of: dict[int, Index]
    num_variables: int
    num_rows: int
    num_input_rows: int
    num_elements: int
    num_sum_parameters: int
    num_parameters: int
    num_statistics: int
    root_row: int

    @property
    def sums(self) -> tuple[SumFamily, ...]:
        """All families of sums, in order of evaluation."""
        return tuple(family for layer in self.layers for family in layer)
