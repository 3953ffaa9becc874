"""What a plan comes to on a GPU: one tensor of integers, and where in it each family's are.

Records, blocks and lists as the kernels read them (rightfast_kernels.circuit.layer_triton). Rows
that are a factor of one element only get their flow from there; the others get theirs from a list
of all their elements.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rightfast.circuits.plan import InputFamily


@dataclass(frozen=True)
class Layout:
    """What a kernel is compiled for: N sums, C children, blocks of W, factors (0: it varies), and
    what the places of theta are multiples of. Rows of theta are ``step`` apart. ``kept``: scaled
    elements are kept, since several tiles of sums read them."""

    nodes: int
    children: int
    step: int
    block: int
    factors: int
    align: int
    kept: bool


@dataclass(frozen=True)
class Sums:
    """A family of sums; ``alone``: all of its factors' rows belong to one element each."""

    layout: Layout
    groups: int
    record: int
    alone: bool
    parts: "Parts | None" = None


@dataclass(frozen=True)
class Parts:
    """How the groups of a family, ``count`` parts each, are put together."""

    record: int
    groups: int
    count: int


@dataclass(frozen=True)
class Owners:
    """Owners of parameters of one layout; each has ``users`` groups on average."""

    layout: Layout
    at: int
    count: int
    users: int


@dataclass(frozen=True)
class Inputs:
    """A family of inputs with tables of probabilities."""

    nodes: int
    categories: int
    groups: int
    record: int
    owners: int
    count: int


@dataclass(frozen=True)
class Others:
    """A family of inputs that are not categorical; where their variables are.

    ``table``: of one with categories, whose table of probabilities is a tensor by itself.
    """

    family: InputFamily
    variables: int
    table: Inputs | None


@dataclass(frozen=True)
class Rows:
    """A list of rows with their elements."""

    at: int
    count: int


@dataclass(frozen=True)
class Groups:
    """Shared products of a family: so many groups, ``size`` products each, in blocks."""

    record: int
    count: int
    size: int
    block: int


@dataclass
class Tables:
    """All of a plan; ``rows`` counts those of shared products too."""

    ints: NDArray[np.int32]
    rows: int = 0
    sums: int = 0
    """Rows of sums, and of parts of sums."""
    layers: list[list[Sums]] = field(default_factory=list)
    products: list[list[Groups]] = field(default_factory=list)
    """Of each layer, which its elements multiply."""
    owners: list[Owners] = field(default_factory=list)
    inputs: list[Inputs] = field(default_factory=list)
    others: list[Others] = field(default_factory=list)
    shared: list[Rows] = field(default_factory=list)
    """Of the inputs, then of each layer: the rows that several elements have, or none."""
    shared_products: list[Rows] = field(default_factory=list)
    """Of each layer: the rows of its shared products."""
    bounds: dict[int, int] = field(default_factory=dict)
    """By simplex, of those with edges of their own: where the rows of parameters begin."""
    groups: int = 0
    elements: int = 0
    """Those that are kept."""
    kept: int = 0
    """Elements whose flows are kept until they are added up."""
