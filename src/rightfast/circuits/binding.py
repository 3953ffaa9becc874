"""The plan's tables cut to a batch size: views of buffers, piece by piece."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from rightfast_kernels.circuit.reference_product import Rows
from torch import Tensor

from rightfast.circuits.plan import Index, InputFamily, Parameters, Plan, SumFamily

CHUNK = 1 << 19  # bytes of the elements of a piece, which then stays in a core's cache
Cut = Callable[..., Tensor]  # cut(name, *shape): memory of that name, not initialised


@dataclass
class Piece:
    """Groups of a family whose elements fit into the cache, and their views.

    With one group all views have two dimensions, and products of matrices are plain ones.
    """

    family: int
    first: int
    groups: int
    nodes: int
    children: int
    parameters: Parameters
    factors: tuple[Rows, ...]
    source: Tensor | None
    """The elements themselves, where they are rows of the buffer."""
    pair: tuple[Tensor, Tensor] | None
    """The two factors of all elements, where they are views: the case of chains."""
    scratch: Tensor
    shift: Tensor
    scaled: Tensor
    scaled_rows: Tensor
    sums: Tensor
    n: Tensor
    flows: Tensor | None = None
    quotient: Tensor | None = None
    element_flows: Tensor | None = None
    element_flow_rows: Tensor | None = None
    flow_factors: tuple[Rows, ...] = ()
    theta: Tensor | None = None
    weights: Tensor | None = None
    """Where derivatives by theta go: a view of the flat tensor, if there is one."""
    alone: bool = False
    """Whether no other piece's go there, so that nothing has to be there before."""
    index: Tensor | None = None


@dataclass
class Bound:
    """The plan's tables for one batch size."""

    batch: int
    n: Tensor
    sums: Tensor
    pieces: list[Piece]
    flows: Tensor | None
    zeroed: slice
    """Rows of ``flows`` that must be 0 before a backward pass adds to them."""
    by_theta: Tensor | None
    shared: tuple[slice, ...]
    """Parts of ``by_theta`` to which several pieces add, and so the same for them."""
    scaled: Tensor | None
    """E of all pieces, if it is kept."""
    parameters_at: tuple[int, int] = (0, 0)
    pinned: list[Tensor] = field(default_factory=list)


def input_slices(family: InputFamily, batch: int, item: int, device: torch.device) -> list[slice]:
    """Groups of inputs in pieces that fit into the cache."""
    return chunks(family.groups, family.nodes * batch * item, device)


def chunks(groups: int, size: int, device: torch.device) -> list[slice]:
    """Groups of ``size`` bytes in pieces that fit into the cache."""
    step = groups if device.type != "cpu" else max(1, CHUNK // max(1, size))
    return [slice(i, min(groups, i + step)) for i in range(0, groups, step)]


def bind(plan: Plan, cut: Cut, batch: int, keep: bool) -> Bound:
    """Views for a batch size; ``keep``: for a backward pass too."""
    n = cut("n", plan.num_rows, batch)
    flows = cut("flows", plan.num_rows, batch) if keep else None
    sums = cut("sums", plan.num_rows - plan.num_input_rows, batch)
    maker = _Maker(plan, cut, batch, n, sums, flows)
    for number, family in enumerate(plan.sums):
        maker.add(number, family)
    by_theta = cut("by_theta", plan.num_sum_parameters) if keep else None
    scaled = maker.scaled if keep else None
    zeroed, shared = _zeroed(plan), _shared(plan, maker.pieces)
    return Bound(batch, n, sums, maker.pieces, flows, zeroed, by_theta, shared, scaled)


def _zeroed(plan: Plan) -> slice:
    kept = np.zeros(plan.num_rows, dtype=bool)
    for family in plan.sums:
        for slot in family.slots:
            if slot.write:
                kept[slot.rows] = True
    added = np.flatnonzero(~kept)
    return slice(int(added[0]), int(added[-1]) + 1)


def _shared(plan: Plan, pieces: Sequence[Piece]) -> tuple[slice, ...]:
    """The stretches of parameters that several groups share; marks the pieces with others."""
    spans = [_span(family) for family in plan.sums]
    begin, end = np.array(spans).T
    meets = ((begin[:, None] < end) & (begin < end[:, None])).sum(1) > 1
    alone = [
        family.parameters.index is None and (family.parameters.stride > 0 or family.groups == 1)
        for family in plan.sums
    ]
    alone = [own and not met for own, met in zip(alone, meets.tolist())]
    for piece in pieces:
        piece.alone = alone[piece.family]
    return tuple(slice(*span) for span in sorted({s for s, own in zip(spans, alone) if not own}))


def _span(family: SumFamily) -> tuple[int, int]:
    """The first and the last of a family's parameters, and one more."""
    where = family.parameters
    if where.index is not None:
        return int(where.index[where.index >= 0].min()), int(where.index.max()) + 1
    last = where.offset + (family.groups - 1) * where.stride
    return where.offset, last + family.nodes * family.children


class _Maker:
    """Cuts the families of a plan into pieces."""

    def __init__(
        self, plan: Plan, cut: Cut, batch: int, n: Tensor, sums: Tensor, flows: Tensor | None
    ) -> None:
        self.plan, self.batch = plan, batch
        self.n, self.sums, self.flows = n, sums, flows
        self.pieces: list[Piece] = []
        self.element = 0
        item = n.element_size()
        self.cuts = [
            chunks(f.groups, max(f.children, f.nodes) * batch * item, n.device) for f in plan.sums
        ]
        pairs = [(f, part.stop - part.start) for f, c in zip(plan.sums, self.cuts) for part in c]
        elements = max(f.children * g for f, g in pairs)
        self.scratch = cut("scratch", elements, batch)
        self.shift = cut("shift", max(g for _, g in pairs), batch)
        if flows is None:
            self.scaled = cut("scaled", elements, batch)
        else:
            self.scaled = cut("scaled", plan.num_elements, batch)
            self.quotient = cut("quotient", max(f.nodes * g for f, g in pairs), batch)
            self.element_flows = cut("element_flows", elements, batch)

    def add(self, number: int, family: SumFamily) -> None:
        for cut in self.cuts[number]:
            self.pieces.append(self._piece(number, family, cut))
        self.element += family.groups * family.children

    def _piece(self, number: int, family: SumFamily, cut: slice) -> Piece:
        groups, nodes, children = cut.stop - cut.start, family.nodes, family.children
        rows = slice(family.start + cut.start * nodes, family.start + cut.stop * nodes)
        inside = slice(rows.start - self.plan.num_input_rows, rows.stop - self.plan.num_input_rows)
        slots = [
            (slot.rows[cut.start * children : cut.stop * children], slot.write)
            for slot in family.slots
        ]
        slots = [(found, write) for found, write in slots if len(found)]
        factors = tuple(self._rows(self.n, found, False) for found, _ in slots)
        size = groups * children
        start = 0 if self.flows is None else self.element + cut.start * children
        scaled = self.scaled[start : start + size]
        piece = Piece(
            family=number,
            first=cut.start,
            groups=groups,
            nodes=family.nodes,
            children=children,
            parameters=family.parameters,
            factors=factors,
            source=None,
            pair=None,
            scratch=self.scratch[:size],
            shift=self._shape(self.shift[:groups], groups),
            scaled=self._shape(scaled, groups),
            scaled_rows=scaled,
            sums=self._shape(self.sums[inside], groups),
            n=self._shape(self.n[rows], groups),
        )
        if len(factors) == 1 and factors[0].view is not None:
            piece.source = self._shape(factors[0].view, groups)
        views = [f.view for f in factors if f.view is not None and f.size == size]
        if len(views) == len(factors) == 2:
            piece.pair = (views[0], views[1])
        if family.parameters.index is not None:
            index = family.parameters.index[cut]
            piece.index = torch.from_numpy(index).to(self.n.device)
        if self.flows is not None:
            self._add_flows(piece, rows, slots)
        return piece

    def _add_flows(self, piece: Piece, rows: slice, slots: list[tuple[Index, bool]]) -> None:
        assert self.flows is not None
        groups = piece.groups
        piece.flows = self._shape(self.flows[rows], groups)
        piece.quotient = self._shape(self.quotient[: groups * piece.nodes], groups)
        factors = [self._rows(self.flows, found, write) for found, write in slots]
        target = self.element_flows[: groups * piece.children]
        first = factors[0]
        whole = first.view is not None and first.size == len(target)
        if first.write and whole and all(f.view is not None for f in factors):
            assert first.view is not None
            # The first factor's rows take the flows straight away; the others copy from there,
            # which torch refuses to do by an index into the same memory.
            target = first.view
            factors = factors[1:]
        piece.element_flow_rows = target
        piece.element_flows = self._shape(target, groups)
        piece.flow_factors = tuple(factors)

    def _shape(self, rows: Tensor, groups: int) -> Tensor:
        if groups == 1:
            return rows
        return rows.view(groups, len(rows) // groups, self.batch)

    def _rows(self, buffer: Tensor, rows: Index, write: bool) -> Rows:
        if (np.diff(rows) == 1).all():
            start = int(rows[0])
            return Rows(len(rows), view=buffer[start : start + len(rows)], write=write)
        return Rows(len(rows), index=torch.from_numpy(rows).to(self.n.device))


def bind_parameters(bound: Bound, parameters: Tensor) -> None:
    """Points the pieces to a flat tensor; theirs that an index finds are read anew each time."""
    at = (parameters.data_ptr(), parameters.numel())
    fresh = bound.parameters_at != at
    if fresh:
        bound.parameters_at, bound.pinned = at, [parameters]
    for piece in bound.pieces if fresh else [p for p in bound.pieces if p.index is not None]:
        if piece.index is not None:
            found = parameters[piece.index.clamp(min=0)]
            found.masked_fill_(piece.index < 0, 0.0)
            piece.theta = found[0] if piece.groups == 1 else found
            continue
        piece.theta = _strided(parameters, piece, piece.groups)
        if bound.by_theta is not None:
            owners = piece.groups if piece.parameters.stride else 1
            piece.weights = _strided(bound.by_theta, piece, owners)


def _strided(flat: Tensor, piece: Piece, groups: int) -> Tensor:
    where = piece.parameters
    offset = flat.storage_offset() + where.offset + piece.first * where.stride
    if piece.groups == 1:
        return flat.as_strided((piece.nodes, piece.children), (piece.children, 1), offset)
    shape = (groups, piece.nodes, piece.children)
    return flat.as_strided(shape, (where.stride, piece.children, 1), offset)
