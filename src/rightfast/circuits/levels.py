"""From the node graph to blocks: every sum a few dense blocks, every element a list of factors."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rightfast.circuits.nodes import CircuitNodes, InputNodes, ProductNodes, SumNodes
from rightfast.circuits.plan import Index

Factor = tuple[CircuitNodes, Index]  # inputs or sums, and which node of theirs for each element


@dataclass
class Block:
    """Sum nodes ``rows`` of ``owner`` that have the same children ``columns`` (-1: padding).

    ``places`` [N, C] says which of the owner's parameters each edge has; None: all, in order.
    """

    owner: SumNodes
    rows: Index
    columns: Index
    places: Index | None
    factors: list[tuple[Index, list[Factor]]] = field(default_factory=list)

    @property
    def fan_in(self) -> int:
        """The most factors an element has."""
        return max(len(factors) for _, factors in self.factors)


def depths(order: Sequence[CircuitNodes]) -> dict[int, int]:
    """Inputs 0; a sum one more than its deepest child; products as their deepest child."""
    found: dict[int, int] = {}
    for node in order:
        below = max((found[id(child)] for child in node.children), default=0)
        found[id(node)] = below + isinstance(node, SumNodes)
    return found


def factors_of(order: Sequence[CircuitNodes]) -> dict[int, list[Factor]]:
    """For every product its factors among inputs and sums; products of products are flattened."""
    found: dict[int, list[Factor]] = {}
    for node in order:
        if not isinstance(node, ProductNodes):
            found[id(node)] = [(node, np.arange(node.num_nodes))]
            continue
        factors: list[Factor] = []
        for j, child in enumerate(node.children):
            edges = None if node.edges is None else node.edges[:, j].numpy()
            picked = np.arange(node.num_nodes) if edges is None else edges
            factors += [(source, index[picked]) for source, index in found[id(child)]]
        # Inputs first: those of a family then lie in one stretch.
        factors.sort(key=lambda factor: not isinstance(factor[0], InputNodes))
        found[id(node)] = factors
    return found


def blocks_of(node: SumNodes, factors: dict[int, list[Factor]]) -> list[Block]:
    """The dense blocks of a sum: one, or with edges one for each set of children that occurs."""
    if node.edges is None:
        columns = np.arange(node.num_children)
        blocks = [Block(node, np.arange(node.num_nodes), columns, None)]
    else:
        blocks = _ragged(node)
    starts = np.cumsum([0] + [child.num_nodes for child in node.children])
    for block in blocks:
        for start, child in zip(starts, node.children):
            inside = (block.columns >= start) & (block.columns < start + child.num_nodes)
            if inside.any():
                picked = block.columns[inside] - start
                block.factors.append(
                    (
                        np.flatnonzero(inside),
                        [(source, index[picked]) for source, index in factors[id(child)]],
                    )
                )
    return blocks


def _ragged(node: SumNodes) -> list[Block]:
    """Rows with equal sets of children together; the sets padded to a power of two."""
    assert node.edges is not None
    parents, children = node.edges.numpy()
    starts = np.searchsorted(parents, np.arange(node.num_nodes + 1))
    sets: dict[bytes, list[int]] = {}
    for row in range(node.num_nodes):
        sets.setdefault(children[starts[row] : starts[row + 1]].tobytes(), []).append(row)
    blocks = []
    for members in sets.values():
        rows = np.array(members)
        own = children[starts[rows[0]] : starts[rows[0] + 1]]
        width = 1 << (len(own) - 1).bit_length()
        columns = np.full(width, -1)
        columns[: len(own)] = own
        places = np.full((len(rows), width), -1)
        places[:, : len(own)] = starts[rows][:, None] + np.arange(len(own))
        blocks.append(Block(node, rows, columns, places))
    return blocks
