"""The forward pass: inputs, then layer by layer the elements and sums of each family."""

from dataclasses import dataclass, field

import torch
from rightfast_kernels.circuit import (
    reference_max,
    reference_product,
    reference_sum,
    reference_wide,
)
from rightfast_kernels.circuit.reference_wide import Wide
from torch import Tensor

from rightfast.circuits.binding import Bound, Piece, bind_parameters, input_slices
from rightfast.circuits.evidence import Evidence
from rightfast.circuits.options import Pass
from rightfast.circuits.plan import InputFamily, Plan
from rightfast.circuits.workspace import Pool, Workspace


@dataclass
class State:
    """What a forward pass leaves for a backward pass or a query; its buffers are its own."""

    plan: Plan
    options: Pass
    evidence: Evidence
    parameters: Tensor
    version: int
    pool: Pool
    workspace: Workspace
    bound: Bound
    masked: set[int] = field(default_factory=set)
    """Pieces some sums of which are -inf."""
    wide: dict[int, Wide] = field(default_factory=dict)
    """By piece, of those that float32 does not serve, or options that it is not written for."""
    chosen: dict[int, Tensor] = field(default_factory=dict)
    """By piece, of "mpe": the children that the maxima came from."""
    tempered: dict[int, Wide] = field(default_factory=dict)
    """By piece: sums for theta^(1/T) and e/T, of which the parameter flows are."""
    backward_passes: int = 0

    @property
    def batch(self) -> int:
        """Samples."""
        return self.evidence.batch

    @property
    def n(self) -> Tensor:
        """Log-values of all rows, [rows, batch]."""
        return self.bound.n

    def log_likelihood(self) -> Tensor:
        """The root's values: [batch]."""
        return self.n[self.plan.root_row].clone()

    def __del__(self) -> None:
        self.pool.give_back(self.workspace)


def run(plan: Plan, parameters: Tensor, evidence: Evidence, options: Pass, pool: Pool) -> State:
    """All rows for the evidence, with the parameters as they are now."""
    workspace = pool.take()
    bound = workspace.bind(evidence.batch, options.keep)
    bind_parameters(bound, parameters)
    state = State(plan, options, evidence, parameters, parameters._version, pool, workspace, bound)
    for family, x, missing in zip(plan.inputs, evidence.values, evidence.missing):
        _inputs(family, x, missing, state)
    if evidence.batch == 0:
        return state
    if options.algorithm == "mpe":
        _maxima(state)
    elif options.algorithm == "general_ll" or options.temperature != 1:
        for number, piece in enumerate(state.bound.pieces):
            _wide(number, piece, state)
    else:
        _sums(state)
    return state


def input_parameters(family: InputFamily, flat: Tensor, groups: slice, size: int) -> Tensor:
    """Those of some groups of a family, ``size`` a node: [G, K, size], without copying."""
    where = family.parameters
    count = groups.stop - groups.start
    offset = flat.storage_offset() + where.offset + groups.start * where.stride
    return flat.as_strided((count, family.nodes, size), (where.stride, size, 1), offset)


def _inputs(family: InputFamily, x: Tensor, missing: Tensor | None, state: State) -> None:
    batch, dist = state.bound.batch, family.dist
    rows = state.n[family.start : family.start + family.groups * family.nodes]
    rows = rows.view(family.groups, family.nodes, batch)
    for groups in input_slices(family, batch, state.parameters.element_size(), rows.device):
        theta = input_parameters(family, state.parameters, groups, dist.num_parameters)
        out = rows[groups]
        dist.log_prob(theta, x[groups], out)
        if missing is None:
            continue
        gone = missing[groups].unsqueeze(1)
        if state.options.algorithm == "mpe":
            torch.where(gone, dist.log_mode(theta).unsqueeze(-1), out, out=out)
        else:
            out.masked_fill_(gone, 0.0)


def elements(piece: Piece, n: Tensor) -> Tensor:
    """The elements of a piece in memory of their own: [G, C, B]."""
    out = n.new_empty(piece.groups * piece.children, n.shape[1])
    reference_product.forward(n, piece.factors, torch.empty_like(out), out)
    return out.view(piece.groups, piece.children, n.shape[1])


def three(rows: Tensor) -> Tensor:
    """[C, B] as [1, C, B]."""
    return rows.unsqueeze(0) if rows.dim() == 2 else rows


def _sums(state: State) -> None:
    """As fast as it goes; with a look at each piece if any sum was too small to be told.

    What was met decides how the next pass starts.
    """
    pool, bound = state.pool, state.bound
    if not pool.careful:
        guard = pool.guard or bound.scaled is None
        for piece in bound.pieces:
            _fast(piece, state.n, guard)
        # False for NaN too, from children that are all -inf.
        pool.careful = not float(bound.sums.amin()) >= reference_sum.least(bound.sums.dtype)
        pool.guard = bound.scaled is not None and reference_sum.slow(bound.scaled)
    if pool.careful:
        for number, piece in enumerate(bound.pieces):
            _careful(number, piece, state)
        pool.careful = bool(state.wide or state.masked)


def _fast(piece: Piece, n: Tensor, guard: bool) -> None:
    theta, e = piece.theta, piece.source
    assert theta is not None
    if e is None:
        e = piece.scaled
        if piece.pair is not None:
            torch.add(*piece.pair, out=piece.scaled_rows)
        else:
            reference_product.forward(n, piece.factors, piece.scratch, piece.scaled_rows)
    reference_sum.forward(theta, e, piece.shift, piece.scaled, piece.sums, piece.n, guard)


def _careful(number: int, piece: Piece, state: State) -> None:
    _fast(piece, state.n, guard=True)
    if float(piece.sums.amin()) >= reference_sum.least(piece.sums.dtype):
        return
    assert piece.theta is not None
    e = elements(piece, state.n)
    if reference_sum.impossible(three(piece.theta), e, three(piece.sums)):
        state.masked.add(number)
        piece.n.masked_fill_(piece.sums < reference_sum.least(piece.sums.dtype), -torch.inf)
    else:
        _wide(number, piece, state)


def _wide(number: int, piece: Piece, state: State) -> None:
    """A piece's sums, and those of a temperature, in float64."""
    options = state.options
    assert piece.theta is not None
    theta, e = three(piece.theta), elements(piece, state.n)
    found = reference_wide.forward(theta, e, options.alpha)
    three(piece.n).copy_(found.n)
    state.wide[number] = found
    if options.temperature != 1:
        state.tempered[number] = reference_wide.forward(theta, e, 1 / options.temperature)


def _maxima(state: State) -> None:
    for number, piece in enumerate(state.bound.pieces):
        assert piece.theta is not None
        e = elements(piece, state.n)
        state.chosen[number] = reference_max.forward(three(piece.theta), e, three(piece.n))
