"""`make_plan`: blocks into layers and families, parameters and rows to their places."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from rightfast.circuits.levels import Block, blocks_of, depths, factors_of
from rightfast.circuits.nodes import CircuitNodes, InputNodes, SumNodes, summate, topological
from rightfast.circuits.plan import (
    ONE,
    ZERO,
    Index,
    InputFamily,
    Parameters,
    Placement,
    Plan,
    Simplex,
    Slot,
    SumFamily,
)


def make_plan(root: CircuitNodes) -> Plan:
    """The plan of the circuit below ``root``.

    Raises TypeError for another object than nodes, ValueError unless the root is one node.
    """
    if not isinstance(root, CircuitNodes):
        raise TypeError(f"compile takes the root of a node graph, got {type(root).__name__}")
    if root.num_nodes != 1:
        raise ValueError(
            f"the root must be one node, got {root.num_nodes}: summate them with num_nodes=1"
        )
    if not isinstance(root, SumNodes):
        root = summate(root, num_nodes=1)
    return _Compiler(topological(root)).plan()


class _Compiler:
    """The places that have been given out so far."""

    def __init__(self, order: Sequence[CircuitNodes]) -> None:
        self.order = tuple(order)
        self.rows_of: dict[int, Index] = {}
        self.offsets: dict[int, Placement] = {}
        self.next_row = 2
        self.next_parameter = 0
        self.next_statistic = 0
        self.next_element = 0

    def plan(self) -> Plan:
        layers = self._layers()
        input_families = self._input_families(layers)
        for layer in layers:
            for blocks in layer:
                for block in blocks:
                    self._place_sum(block.owner)
        num_sum_parameters = self.next_parameter
        inputs = tuple(self._input_family(members) for members in input_families)
        num_input_rows = self.next_row
        sums = [[self._sum_family(blocks) for blocks in layer] for layer in layers]
        root = self.order[-1]
        return Plan(
            order=self.order,
            inputs=inputs,
            layers=_with_writes(sums, self.next_row),
            placements=tuple(self.offsets.values()),
            simplices=_simplices(self.offsets.values()),
            rows_of=self.rows_of,
            num_variables=max(root.scope) + 1,
            num_rows=self.next_row,
            num_input_rows=num_input_rows,
            num_elements=self.next_element,
            num_sum_parameters=num_sum_parameters,
            num_parameters=self.next_parameter,
            num_statistics=self.next_statistic,
            root_row=int(self.rows_of[id(root)][0]),
        )

    def _layers(self) -> list[list[list[Block]]]:
        """Layers of families of blocks, in the order in which they will be stored."""
        depth, factors = depths(self.order), factors_of(self.order)
        by_depth: dict[int, list[Block]] = {}
        for node in self.order:
            if isinstance(node, SumNodes):
                by_depth.setdefault(depth[id(node)], []).extend(blocks_of(node, factors))
        seen: dict[int, int] = {}  # owners in order of first use: the order of the parameters
        layers = []
        for level in sorted(by_depth):
            blocks = by_depth[level]
            uses = Counter(id(block.owner.source) for block in blocks)
            families: dict[Hashable, list[Block]] = {}
            for block in blocks:
                shared = id(block.owner.source) if uses[id(block.owner.source)] > 1 else None
                if block.places is not None:
                    shared = -1  # found by an index, in whatever order
                key = (len(block.rows), len(block.columns), shared)
                families.setdefault(key, []).append(block)
            for members in families.values():
                unseen = len(seen)
                members.sort(key=lambda b: (-b.fan_in, seen.get(id(b.owner.source), unseen)))
                for block in members:
                    seen.setdefault(id(block.owner.source), len(seen))
            layers.append(list(families.values()))
        return layers

    def _input_families(self, layers: list[list[list[Block]]]) -> list[list[InputNodes]]:
        """Inputs of one kind, in the order in which the layers read them."""
        wanted: dict[int, InputNodes] = {}
        for layer in layers:
            for blocks in layer:
                for block in blocks:
                    for _, factors in block.factors:
                        for source, _ in factors:
                            if isinstance(source, InputNodes):
                                wanted.setdefault(id(source), source)
        uses = Counter(id(node.source) for node in wanted.values())
        families: dict[Hashable, list[InputNodes]] = {}
        for node in wanted.values():
            shared = id(node.source) if uses[id(node.source)] > 1 else None
            families.setdefault((node.dist, node.num_nodes, shared), []).append(node)
        return list(families.values())

    def _take_rows(self, count: int) -> Index:
        rows = np.arange(self.next_row, self.next_row + count)
        self.next_row += count
        return rows

    def _place_sum(self, node: SumNodes) -> None:
        owner = node.source
        if id(owner) not in self.offsets:
            assert isinstance(owner, SumNodes)
            size = owner.num_edges
            place = Placement(owner, self.next_parameter, size, self.next_statistic)
            self.offsets[id(owner)] = place
            self.next_parameter += size
            self.next_statistic += size

    def _input_family(self, members: list[InputNodes]) -> InputFamily:
        first = members[0]
        start = self.next_row
        for node in members:
            self.rows_of[id(node)] = self._take_rows(node.num_nodes)
            owner = node.source
            if id(owner) not in self.offsets:
                assert isinstance(owner, InputNodes)
                size = node.num_nodes * node.dist.num_parameters
                place = Placement(owner, self.next_parameter, size, self.next_statistic)
                self.offsets[id(owner)] = place
                self.next_parameter += size
                self.next_statistic += node.num_nodes * node.dist.num_statistics
        places = [self.offsets[id(node.source)] for node in members]
        return InputFamily(
            dist=first.dist,
            groups=len(members),
            nodes=first.num_nodes,
            start=start,
            variables=np.array([node.var for node in members]),
            parameters=_strided([place.offset for place in places]),
            statistics=_strided([place.statistics for place in places]),
        )

    def _sum_family(self, blocks: list[Block]) -> SumFamily:
        nodes, children = len(blocks[0].rows), len(blocks[0].columns)
        start = self.next_row
        for block in blocks:
            rows = self.rows_of.setdefault(
                id(block.owner), np.full(block.owner.num_nodes, -1, dtype=np.int64)
            )
            rows[block.rows] = self._take_rows(nodes)
        self.next_element += len(blocks) * children
        return SumFamily(
            groups=len(blocks),
            nodes=nodes,
            children=children,
            start=start,
            parameters=self._parameters(blocks),
            slots=tuple(Slot(rows, False) for rows in self._slots(blocks, children)),
        )

    def _parameters(self, blocks: list[Block]) -> Parameters:
        offsets = [self.offsets[id(block.owner.source)].offset for block in blocks]
        if blocks[0].places is None:
            return _strided(offsets, (len(blocks[0].rows), len(blocks[0].columns)))
        places = np.stack([block.places for block in blocks if block.places is not None])
        shifted = places + np.array(offsets)[:, None, None]
        return Parameters(0, 0, np.where(places < 0, -1, shifted))

    def _slots(self, blocks: list[Block], children: int) -> list[Index]:
        fan_in = max(block.fan_in for block in blocks)
        slots = np.full((fan_in, len(blocks), children), ONE, dtype=np.int64)
        slots[0] = ZERO  # where no factor comes, the element is padding
        for g, block in enumerate(blocks):
            for columns, factors in block.factors:
                for j, (source, index) in enumerate(factors):
                    slots[j, g, columns] = self.rows_of[id(source)][index]
        return [_trimmed(slot.reshape(-1)) for slot in slots]


def _trimmed(rows: Index) -> Index:
    """Without the factors 1 at the end."""
    used = np.flatnonzero(rows != ONE)
    return rows[: used[-1] + 1] if len(used) else rows[:0]


def _strided(offsets: list[int], shape: tuple[int, int] | None = None) -> Parameters:
    """Offsets as a stride, or where they have none (and are of sums) as an index."""
    steps = np.diff(offsets)
    stride = int(steps[0]) if len(steps) else 0
    if len(steps) == 0 or ((steps == stride).all() and stride >= 0):
        return Parameters(offsets[0], stride)
    assert shape is not None, "inputs are grouped so that theirs have a stride"
    inside = np.arange(shape[0] * shape[1]).reshape(1, *shape)
    return Parameters(0, 0, np.array(offsets)[:, None, None] + inside)


def _with_writes(layers: list[list[SumFamily]], rows: int) -> tuple[tuple[SumFamily, ...], ...]:
    """The same, with `Slot.write` set: the backward pass goes from the last family to the first."""
    touched = np.zeros(rows, dtype=bool)
    found = []
    for layer in reversed(layers):
        families = []
        for family in reversed(layer):
            slots = []
            for slot in family.slots:
                contiguous = bool((np.diff(slot.rows) == 1).all())
                alone = contiguous and not touched[slot.rows].any() and slot.rows[0] > ZERO
                touched[slot.rows] = True
                slots.append(Slot(slot.rows, alone))
            families.append(
                SumFamily(
                    family.groups,
                    family.nodes,
                    family.children,
                    family.start,
                    family.parameters,
                    tuple(slots),
                )
            )
        found.append(tuple(reversed(families)))
    return tuple(reversed(found))


def _simplices(placements: Iterable[Placement]) -> tuple[Simplex, ...]:
    """Neighbouring owners whose rows are equally long become one."""
    found: list[Simplex] = []
    for place in placements:
        owner = place.owner
        if isinstance(owner, InputNodes):
            continue
        if owner.edges is not None:
            segments = owner.edges[0].numpy()
            found.append(Simplex(place.offset, owner.num_nodes, 0, segments))
            continue
        last = found[-1] if found else None
        if last and last.segments is None and last.children == owner.num_children:
            rows = last.rows + owner.num_nodes
            found[-1] = Simplex(last.offset, rows, last.children, None)
        else:
            found.append(Simplex(place.offset, owner.num_nodes, owner.num_children, None))
    return tuple(found)
