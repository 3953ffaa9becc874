"""The node graph: vectors of input, product and sum nodes, built from the leaves to the root.

    inputs(var, num_nodes, dist)     num_nodes distributions of one variable
    multiply(*children)              products:  log p[i] = sum_j child_j[i]
    summate(*children, num_nodes)    mixtures:  p[i] = sum_c theta[i, c] child[c]
    nodes.duplicate(..., tie_params=True)    the same kind again, with shared parameters

A node stands for a whole vector, so a graph has few of them; `compile` turns it into layers.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rightfast.circuits.leaves.base import Distribution

TOLERANCE = 1e-4  # by how much the parameters of a sum may miss 1


class CircuitNodes:
    """What all nodes have: `num_nodes`, `children`, and the variables below them (`scope`).

    ``scope_bits`` has bit v set where variable v is in the scope.
    """

    def __init__(self, num_nodes: int, children: Sequence["CircuitNodes"], scope_bits: int) -> None:
        if isinstance(num_nodes, bool) or not isinstance(num_nodes, int):
            raise TypeError(f"num_nodes must be an int, got {type(num_nodes).__name__}")
        if num_nodes < 1:
            raise ValueError(f"num_nodes must be at least 1, got {num_nodes}")
        self.num_nodes = num_nodes
        self.children = tuple(children)
        self.scope_bits = scope_bits

    @property
    def scope(self) -> frozenset[int]:
        """The variables below these nodes."""
        return frozenset(v for v in range(self.scope_bits.bit_length()) if self.scope_bits >> v & 1)

    def __repr__(self) -> str:
        variables = self.scope_bits.bit_count()
        return f"{type(self).__name__}({self.num_nodes} nodes over {variables} variables)"


class _WithParameters(CircuitNodes):
    """Nodes that own parameters, or share those of their `source`."""

    source: "_WithParameters"
    _parameters: Tensor | None

    @property
    def parameters(self) -> Tensor | None:
        """The parameters that `compile` starts from, float64; None: drawn by `compile`."""
        return self.source._parameters

    @property
    def tied(self) -> bool:
        """Whether the parameters are those of other nodes."""
        return self.source is not self


class InputNodes(_WithParameters):
    """``num_nodes`` distributions ``dist`` of variable ``var``."""

    def __init__(self, var: int, num_nodes: int, dist: Distribution) -> None:
        if isinstance(var, bool) or not isinstance(var, int):
            raise TypeError(f"var must be an int, the column of the data, got {var!r}")
        if var < 0:
            raise ValueError(f"var must be 0 or larger, a column of the data, got {var}")
        if not isinstance(dist, Distribution):
            raise TypeError(
                f"dist must be a distribution such as Categorical(10), got {type(dist).__name__}"
            )
        super().__init__(num_nodes, (), 1 << var)
        self.var, self.dist = var, dist
        self.source, self._parameters = self, None

    def set_parameters(self, parameters: Tensor) -> "InputNodes":
        """Start from these: ``[num_nodes, dist.num_parameters]``, checked by the distribution."""
        shape = (self.num_nodes, self.dist.num_parameters)
        values = _checked_tensor(parameters, shape, "parameters of the inputs")
        self.dist.check_parameters(values)
        self.source._parameters = values
        return self

    def initial(self, generator: torch.Generator) -> Tensor:
        """Random parameters to start from, float64."""
        return self.dist.initial(self.num_nodes, generator)

    def duplicate(self, var: int | None = None, tie_params: bool = False) -> "InputNodes":
        """The same inputs for another variable; with ``tie_params`` they share parameters."""
        copy = InputNodes(self.var if var is None else var, self.num_nodes, self.dist)
        _hand_on(self, copy, tie_params)
        return copy


class ProductNodes(CircuitNodes):
    """``edges[i, j]`` is the node of child j in product i; None: node i of every child."""

    def __init__(self, children: Sequence[CircuitNodes], edges: Tensor | None) -> None:
        _check_children(children, "multiply")
        bits = 0
        for child in children:
            if bits & child.scope_bits:
                shared = bits & child.scope_bits
                raise ValueError(
                    "the children of a product must have disjoint scopes (decomposability), "
                    f"got variable {shared.bit_length() - 1} twice"
                )
            bits |= child.scope_bits
        if edges is None:
            sizes = {child.num_nodes for child in children}
            if len(sizes) > 1:
                raise ValueError(
                    f"children of {sorted(sizes)} nodes can't be multiplied node by node: give "
                    "children of one size, or edges of shape [products, children]"
                )
            super().__init__(children[0].num_nodes, children, bits)
        else:
            edges = _product_edges(edges, children)
            super().__init__(edges.shape[0], children, bits)
        self.edges = edges


class SumNodes(_WithParameters):
    """Mixtures of the nodes of all children, in order; ``edges`` [2, E] holds (node, child).

    Parameters: ``[num_nodes, C]`` for C children, or one for each edge, in order of node and
    child. Without edges every node is a mixture of all children.
    """

    def __init__(
        self, children: Sequence[CircuitNodes], num_nodes: int, edges: Tensor | None
    ) -> None:
        _check_children(children, "summate")
        bits = children[0].scope_bits
        if any(child.scope_bits != bits for child in children):
            scopes = [sorted(child.scope)[:8] for child in children]
            raise ValueError(
                f"the children of a sum must have one scope (smoothness), got {scopes}: multiply "
                "those that lack variables with inputs of these first"
            )
        super().__init__(num_nodes, children, bits)
        self.num_children = sum(child.num_nodes for child in children)
        self.edges = None if edges is None else _sum_edges(edges, num_nodes, self.num_children)
        self.source, self._parameters = self, None

    @property
    def num_edges(self) -> int:
        """How many parameters there are."""
        if self.edges is None:
            return self.num_nodes * self.num_children
        return self.edges.shape[1]

    def set_parameters(self, parameters: Tensor) -> "SumNodes":
        """Start from these: not negative, and every node's sum to 1. Zeros are allowed."""
        shape = (self.num_nodes, self.num_children) if self.edges is None else (self.num_edges,)
        values = _checked_tensor(parameters, shape, "parameters of the sum")
        if (values < 0).any():
            raise ValueError("parameters of a sum must not be negative: they are probabilities")
        if self.edges is None:
            totals = values.sum(1)
        else:
            totals = values.new_zeros(self.num_nodes).index_add_(0, self.edges[0], values)
        worst = float((totals - 1).abs().max())
        if worst > TOLERANCE:
            raise ValueError(
                f"the parameters of every sum node must sum to 1, got one off by {worst:.3g}: "
                "divide each row by its sum"
            )
        self.source._parameters = values.reshape(-1)
        return self

    def initial(self, generator: torch.Generator) -> Tensor:
        """Random parameters to start from, flat, float64: a row's largest is up to 7 times its
        smallest, so that EM can tell the nodes from each other."""
        weights = torch.rand(self.num_edges, generator=generator, dtype=torch.float64)
        weights = (-2 * weights).exp_()
        if self.edges is None:
            rows = weights.view(self.num_nodes, self.num_children)
            return (rows / rows.sum(1, keepdim=True)).view(-1)
        totals = weights.new_zeros(self.num_nodes).index_add_(0, self.edges[0], weights)
        return weights / totals[self.edges[0]]

    def duplicate(self, *children: CircuitNodes, tie_params: bool = False) -> "SumNodes":
        """The same sums over other children (by default the same ones)."""
        copy = SumNodes(children or self.children, self.num_nodes, self.edges)
        if copy.num_children != self.num_children:
            raise ValueError(
                f"a duplicate needs {self.num_children} children in all, got {copy.num_children}"
            )
        _hand_on(self, copy, tie_params)
        return copy


def inputs(var: int, num_nodes: int, dist: Distribution) -> InputNodes:
    """``num_nodes`` input nodes: distributions ``dist`` of variable ``var``, a column of the data.

    Raises TypeError or ValueError for a negative variable, fewer than one node, or another object
    than a distribution.
    """
    return InputNodes(var, num_nodes, dist)


def multiply(*children: CircuitNodes, edges: Tensor | None = None) -> ProductNodes:
    """Product nodes: node i is the product of node i of every child.

    ``edges``, integers [products, children], chooses the nodes instead: product i multiplies node
    ``edges[i, j]`` of child j. Raises ValueError unless the scopes are disjoint.
    """
    return ProductNodes(children, edges)


def summate(*children: CircuitNodes, num_nodes: int, edges: Tensor | None = None) -> SumNodes:
    """Sum nodes: mixtures of the nodes of all children, which are counted in order.

    ``edges``, integers [2, E], holds the pairs (sum node, child) that exist; by default all do.
    Raises ValueError unless the children have one scope.
    """
    return SumNodes(children, num_nodes, edges)


def topological(root: CircuitNodes) -> list[CircuitNodes]:
    """All nodes, children first, each once; without recursion, so that depth does not matter."""
    order: list[CircuitNodes] = []
    seen: set[int] = set()
    stack: list[tuple[CircuitNodes, bool]] = [(root, False)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(node.children))
    return order


def _hand_on(old: _WithParameters, new: _WithParameters, tie_params: bool) -> None:
    if tie_params:
        new.source = old.source
    elif old.parameters is not None:
        new._parameters = old.parameters.clone()


def _check_children(children: Sequence[CircuitNodes], who: str) -> None:
    if not children:
        raise ValueError(f"{who} needs at least one child")
    for child in children:
        if not isinstance(child, CircuitNodes):
            raise TypeError(f"{who} takes nodes, got {type(child).__name__}")


def _integers(edges: Tensor, name: str) -> Tensor:
    found = torch.as_tensor(edges)
    if found.is_floating_point() or found.is_complex() or found.dtype == torch.bool:
        raise TypeError(f"{name} must be integers, got {found.dtype}")
    return found.detach().to(device="cpu", dtype=torch.int64)


def _product_edges(edges: Tensor, children: Sequence[CircuitNodes]) -> Tensor:
    found = _integers(edges, "edges of a product")
    if found.dim() != 2 or found.shape[1] != len(children) or not found.shape[0]:
        raise ValueError(
            f"edges of a product must have the shape [products, {len(children)}], "
            f"got {list(found.shape)}"
        )
    sizes = torch.tensor([child.num_nodes for child in children])
    if bool((found < 0).any()) or bool((found >= sizes).any()):
        raise ValueError(f"edges must name nodes of children with {sizes.tolist()} nodes")
    return found


def _sum_edges(edges: Tensor, num_nodes: int, num_children: int) -> Tensor:
    found = _integers(edges, "edges of a sum")
    if found.dim() != 2 or found.shape[0] != 2:
        raise ValueError(f"edges of a sum must have the shape [2, E], got {list(found.shape)}")
    limits = torch.tensor([[num_nodes], [num_children]])
    if bool((found < 0).any()) or bool((found >= limits).any()):
        raise ValueError(f"edges must name {num_nodes} nodes and {num_children} children")
    keys = np.unique((found[0] * num_children + found[1]).numpy())
    if len(keys) != found.shape[1]:
        raise ValueError("an edge of a sum is given twice")
    found = torch.from_numpy(np.stack([keys // num_children, keys % num_children]))
    missing = num_nodes - len(np.unique(found[0].numpy()))
    if missing:
        raise ValueError(f"{missing} of {num_nodes} sum nodes have no edge: every node needs one")
    return found


def _checked_tensor(values: Tensor, shape: tuple[int, ...], name: str) -> Tensor:
    found = torch.as_tensor(values).detach().to(device="cpu", dtype=torch.float64)
    if tuple(found.shape) != shape:
        raise ValueError(f"{name} must have the shape {list(shape)}, got {list(found.shape)}")
    if not bool(found.isfinite().all()):
        raise ValueError(f"{name} must be finite")
    return found.clone()
