"""From the root down: one child for every sum, and so one value for every variable.

A sample visits each variable's leaves once. Which children it takes is drawn, or for "mpe" those
of the maxima. The walk goes layer by layer for all samples together.
"""

import torch
from torch import Tensor

from rightfast.circuits.binding import Piece
from rightfast.circuits.forward import State, input_parameters
from rightfast.circuits.leaves.base import draw_categories
from rightfast.circuits.plan import ONE, InputFamily, SumFamily

PIECE = 1 << 20  # elements of a scratch tensor


def sample(state: State, generator: torch.Generator) -> Tensor:
    """Draws the values that are missing: [batch, variables], float64 or int64.

    Children are drawn by theta exp(e - n), which is the posterior for the state's evidence and
    theta where there is none; leaves by their distribution.
    """
    reached = _walk(state, generator)
    return _values(state, reached, generator)


def decode(state: State) -> Tensor:
    """The values that the maxima of an "mpe" pass come from, for those that are missing."""
    return _values(state, _walk(state, None), None)


def _walk(state: State, generator: torch.Generator | None) -> Tensor:
    """Which rows each sample visits: bool [rows, batch]."""
    plan, bound = state.plan, state.bound
    reached = torch.zeros(plan.num_rows, bound.batch, dtype=torch.bool, device=state.n.device)
    reached[plan.root_row] = ~state.n[plan.root_row].isneginf()
    slots: dict[int, list[Tensor]] = {}
    for number in reversed(range(len(bound.pieces))):
        piece = bound.pieces[number]
        family = plan.sums[piece.family]
        if piece.family not in slots:
            slots = {piece.family: _slots(family, state.n.device)}
        rows = family.start + piece.first * piece.nodes
        inside = reached[rows : rows + piece.groups * piece.nodes]
        row, sample_of = torch.nonzero(inside, as_tuple=True)
        group, node = row // piece.nodes, row % piece.nodes
        step = max(1, PIECE // piece.children)
        for g, m, s in zip(*(torch.split(i, step) for i in (group, node, sample_of))):
            chosen = _choose(state, number, piece, slots[piece.family], (g, m, s), generator)
            element = (g + piece.first) * piece.children + chosen
            for slot in slots[piece.family]:
                reached[slot[element], s] = True
    return reached


def _slots(family: SumFamily, device: torch.device) -> list[Tensor]:
    """The factors' rows of every element, the factor 1 where there is none."""
    size = family.groups * family.children
    found = []
    for slot in family.slots:
        rows = torch.full((size,), ONE)
        rows[: len(slot.rows)] = torch.from_numpy(slot.rows)
        found.append(rows.to(device))
    return found


def _choose(
    state: State,
    number: int,
    piece: Piece,
    slots: list[Tensor],
    entries: tuple[Tensor, Tensor, Tensor],
    generator: torch.Generator | None,
) -> Tensor:
    """One child for each entry (group, sum, sample) of a piece."""
    group, node, sample_of = entries
    if generator is None:
        return state.chosen[number][group, node, sample_of]
    assert piece.theta is not None
    theta = piece.theta if piece.theta.dim() == 3 else piece.theta.unsqueeze(0)
    first = (group + piece.first) * piece.children
    elements = first.unsqueeze(1) + torch.arange(piece.children, device=first.device)
    e = sum(
        (state.n[slot[elements], sample_of.unsqueeze(1)].double() for slot in slots),
        start=torch.zeros((), dtype=torch.float64, device=first.device),
    )
    weights = theta[group, node].double().log() + e
    weights = (weights - weights.amax(1, keepdim=True)).exp()
    return draw_categories(weights, generator)


def _values(state: State, reached: Tensor, generator: torch.Generator | None) -> Tensor:
    """What the visited leaves give; evidence as it is; -1 or NaN for an impossible sample."""
    plan, batch = state.plan, state.bound.batch
    discrete = all(family.dist.num_categories is not None for family in plan.inputs)
    empty = -1 if discrete else torch.nan
    dtype = torch.int64 if discrete else torch.float64
    out = torch.full((plan.num_variables, batch), empty, dtype=dtype, device=reached.device)
    possible = reached[plan.root_row]
    for number, family in enumerate(plan.inputs):
        x, missing = state.evidence.values[number], state.evidence.missing[number]
        variables = torch.from_numpy(family.variables).to(out.device)
        if missing is None:
            out[variables] = torch.where(possible, x.to(dtype), empty)
            continue
        seen = possible & ~missing
        out[variables] = torch.where(seen, x.to(dtype), out[variables])
        _unseen(state, family, reached, missing, generator, out, variables)
    return out.t().contiguous()


def _unseen(
    state: State,
    family: InputFamily,
    reached: Tensor,
    missing: Tensor,
    generator: torch.Generator | None,
    out: Tensor,
    variables: Tensor,
) -> None:
    rows = reached[family.start : family.start + family.groups * family.nodes]
    visited = rows.view(family.groups, family.nodes, -1) & missing.unsqueeze(1)
    group, node, sample_of = torch.nonzero(visited, as_tuple=True)
    dist = family.dist
    theta = input_parameters(family, state.parameters, slice(0, family.groups), dist.num_parameters)
    step = max(1, PIECE // dist.num_statistics)
    for g, k, s in zip(*(torch.split(i, step) for i in (group, node, sample_of))):
        own = theta[g, k]
        values = dist.mode(own) if generator is None else dist.sample(own, generator)
        out[variables[g], s] = values.to(out.dtype)
