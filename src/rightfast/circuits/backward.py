"""The backward pass: flows from the root to the elements, rows, parameters and inputs."""

from collections.abc import Container
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from rightfast_kernels.circuit import (
    reference_log_sum,
    reference_max,
    reference_product,
    reference_sum,
)
from torch import Tensor

from rightfast.circuits.binding import Piece, input_slices
from rightfast.circuits.forward import State, elements, input_parameters, three
from rightfast.circuits.leaves.base import Distribution
from rightfast.circuits.options import Pass
from rightfast.circuits.plan import InputFamily

if TYPE_CHECKING:
    from rightfast.circuits.gpu.state import State as KernelState


@dataclass(frozen=True)
class Flows:
    """What a backward pass found.

    ``held`` are the flows in the buffer of the pass, whose ``state`` is held with them, since
    another pass would use it again. ``by_parameter``: the derivative by every parameter, flat, if
    it was asked for.
    """

    held: Tensor
    by_parameter: Tensor | None = None
    state: "State | KernelState | None" = None
    number: int = 0

    @property
    def rows(self) -> Tensor:
        """The flow of every row, or its log with ``log_space``: [rows, batch], a copy.

        Raises RuntimeError after another backward pass of the same forward pass.
        """
        if self.state is not None and self.number != self.state.backward_passes:
            raise RuntimeError(
                "another backward pass of the same forward pass has overwritten these flows: read "
                "rows before it"
            )
        return self.held.clone()


def run(
    state: "State | KernelState",
    root_flow: Tensor,
    options: Pass,
    *,
    statistics: Tensor | None = None,
    derivative: bool = False,
) -> Flows:
    """Flows for ``root_flow`` [batch], 1 or the weight of a sample; linear in it.

    ``options`` are the forward pass's, but for `log_space`. The parameter flows are added to
    ``statistics``, flat, sums first, then what the inputs' M-step needs. Raises RuntimeError if
    the pass did not keep what this needs, or the parameters have changed since.
    """
    if not state.options.keep:
        raise RuntimeError("the forward pass kept nothing for a backward pass: use keep=True")
    if state.parameters._version != state.version:
        raise RuntimeError(
            "the parameters have changed since the forward pass: call backward before they are "
            "updated, or run the forward pass again"
        )
    if not isinstance(state, State):
        return state.flows(root_flow, options, statistics, derivative)
    state.backward_passes += 1
    backward = _Backward(state, options, statistics is not None or derivative)
    if state.evidence.batch:
        backward.start(root_flow)
        for number in reversed(range(len(state.bound.pieces))):
            backward.piece(number, state.bound.pieces[number])
        if statistics is not None:
            backward.add_statistics(statistics)
    by_parameter = backward.derivative() if derivative else None
    return Flows(backward.rows, by_parameter, state, state.backward_passes)


class _Backward:
    """One pass: F = theta H, the derivative H.

    ``extra`` holds both for pieces that were not computed the fast way: there F is not always
    theta H, which may be larger than the dtype holds.
    """

    def __init__(self, state: State, options: Pass, parameters: bool) -> None:
        self.state, self.bound, self.options = state, state.bound, options
        assert self.bound.flows is not None
        assert self.bound.by_theta is not None
        self.rows = self.bound.flows
        self.by_theta = self.bound.by_theta
        self.parameters = parameters
        self.extra: Tensor | None = None
        if parameters:
            for part in self.bound.shared:
                self.by_theta[part].zero_()

    def start(self, root_flow: Tensor) -> None:
        log_space = self.options.log_space
        if log_space:
            self.rows.fill_(-torch.inf)
        else:
            self.rows[self.bound.zeroed].zero_()
        root = self.state.plan.root_row
        possible = ~self.state.n[root].isneginf()
        flow = torch.where(possible, root_flow, 0)
        self.rows[root] = flow.log() if log_space else flow

    def piece(self, number: int, piece: Piece) -> None:
        assert piece.flows is not None
        if self.options.algorithm == "mpe":
            self._maximum(number, piece)
        elif self.options.log_space:
            self._log_space(number, piece)
        else:
            self._linear(number, piece)

    def _linear(self, number: int, piece: Piece) -> None:
        quotient, into = piece.quotient, piece.element_flows
        assert piece.flows is not None and piece.theta is not None  # noqa: PT018
        assert quotient is not None and into is not None  # noqa: PT018
        assert piece.element_flow_rows is not None
        wide = self.state.wide.get(number)
        if wide is None:
            mask = number in self.state.masked
            reference_sum.ratio(piece.flows, piece.sums, mask, quotient)
            reference_sum.to_elements(piece.theta, quotient, piece.scaled, into)
        else:
            three(into).copy_(wide.to_elements(three(piece.flows)))
        if self.parameters:
            self._parameters(number, piece, piece.flows)
        reference_product.backward(piece.element_flow_rows, piece.flow_factors, self.rows)

    def _log_space(self, number: int, piece: Piece) -> None:
        assert piece.flows is not None and piece.theta is not None  # noqa: PT018
        assert piece.element_flow_rows is not None
        assert piece.quotient is not None
        n, flows = three(piece.n), three(piece.flows)
        found = reference_log_sum.to_elements(
            three(piece.theta), elements(piece, self.state.n), n, flows, self.options.alpha
        )
        if self.parameters:
            linear = piece.flows.exp()
            mask = number in self.state.masked
            reference_sum.ratio(linear, piece.sums, mask, piece.quotient)
            self._parameters(number, piece, linear)
        rows = found.to(flows.dtype).view(-1, self.bound.batch)
        if len(piece.flow_factors) < len(piece.factors):
            piece.element_flow_rows.copy_(rows)  # the first factor's rows
        reference_product.backward_log(rows, piece.flow_factors, self.rows)

    def _maximum(self, number: int, piece: Piece) -> None:
        assert piece.flows is not None and piece.element_flows is not None  # noqa: PT018
        assert piece.element_flow_rows is not None
        assert piece.theta is not None
        chosen = self.state.chosen[number]
        # What is impossible has no maximum, though an index.
        flows = three(piece.flows).masked_fill(three(piece.n).isneginf(), 0.0)
        reference_max.to_elements(chosen, flows, three(piece.element_flows))
        if self.parameters:
            self._no_weights(piece)
            theta = three(piece.theta)
            found = torch.zeros_like(theta)
            reference_max.to_parameters(chosen, flows, found)
            self._add_extra(piece, found, torch.where(theta > 0, found / theta, 0))
        reference_product.backward(piece.element_flow_rows, piece.flow_factors, self.rows)

    def _parameters(self, number: int, piece: Piece, flows: Tensor) -> None:
        """Of a piece, whose quotient f / S is there, unless it is wide."""
        wide = self.state.tempered.get(number) or self.state.wide.get(number)
        assert piece.quotient is not None
        if wide is not None:
            self._no_weights(piece)
            self._add_extra(piece, *wide.to_parameters(three(flows)))
        elif piece.weights is not None and (piece.parameters.stride or piece.groups == 1):
            reference_sum.to_parameters(piece.quotient, piece.scaled, piece.weights, piece.alone)
        else:
            h = three(piece.quotient) @ three(piece.scaled).transpose(1, 2)
            self._add(piece, h, self.by_theta)

    def _no_weights(self, piece: Piece) -> None:
        """For a piece whose derivatives are in ``extra``."""
        if piece.alone:
            assert piece.weights is not None
            piece.weights.zero_()

    def _add_extra(self, piece: Piece, by_flow: Tensor, by_theta: Tensor) -> None:
        if self.extra is None:
            self.extra = torch.zeros(2, len(self.by_theta)).to(self.by_theta)
        limit = torch.finfo(self.by_theta.dtype)
        self._add(piece, by_flow.to(self.extra.dtype), self.extra[0])
        self._add(piece, by_theta.clamp(limit.min, limit.max).to(self.extra.dtype), self.extra[1])

    def _add(self, piece: Piece, found: Tensor, flat: Tensor) -> None:
        """Adds [G, N, C] to a flat tensor of all sum parameters."""
        where = piece.parameters
        if piece.index is not None:
            flat.index_add_(0, piece.index.clamp(min=0).view(-1), found.reshape(-1))
            return
        size = piece.nodes * piece.children
        start = where.offset + piece.first * where.stride
        if where.stride == 0:
            flat[start : start + size] += found.sum(0).view(-1)
        else:
            shape = (piece.groups, size)
            target = flat.as_strided(shape, (where.stride, 1), flat.storage_offset() + start)
            target += found.view(shape)

    def add_statistics(self, out: Tensor) -> None:
        """F of the sums, and the inputs' statistics, to a flat tensor."""
        size = self.state.plan.num_sum_parameters
        sums = out[:size]
        sums.addcmul_(self.state.parameters[:size], self.by_theta)
        if self.extra is not None:
            sums += self.extra[0]
        self._inputs(out[size:])

    def derivative(self) -> Tensor:
        """By every parameter, flat."""
        plan, parameters = self.state.plan, self.state.parameters
        if not self.state.evidence.batch:
            return torch.zeros_like(parameters)
        out = torch.empty_like(parameters)
        size = plan.num_sum_parameters
        sums = out[:size].copy_(self.by_theta)
        if self.extra is not None:
            sums += self.extra[1]
            limit = torch.finfo(out.dtype)
            sums.clamp_(limit.min, limit.max)
        done = {n for n, family in enumerate(plan.inputs) if self._add_gradient(n, family, out)}
        if len(done) == len(plan.inputs):
            return out
        counts = parameters.new_zeros(plan.num_statistics - size)
        self._inputs(counts, done)
        for number, family in enumerate(plan.inputs):
            if number in done:
                continue
            dist, where = family.dist, family.statistics
            one = slice(0, family.groups if where.stride else 1)
            theta = input_parameters(family, parameters, one, dist.num_parameters)
            target = input_parameters(family, out, one, dist.num_parameters)
            shape = (one.stop, family.nodes, dist.num_statistics)
            found = counts.as_strided(shape, (where.stride, shape[2], 1), where.offset - size)
            dist.gradient(theta, found, target)
        return out

    def _add_gradient(self, number: int, family: InputFamily, out: Tensor) -> bool:
        """A family's part of the derivative, where that is less work without statistics."""
        x, missing = self.state.evidence.values[number], self.state.evidence.missing[number]
        if missing is not None or not family.parameters.stride:
            return False
        size = family.dist.num_parameters
        rows = self.rows[family.start : family.start + family.groups * family.nodes]
        flows = rows.view(family.groups, family.nodes, self.bound.batch)
        for groups in input_slices(family, self.bound.batch, out.element_size(), out.device):
            theta = input_parameters(family, self.state.parameters, groups, size)
            target = input_parameters(family, out, groups, size).zero_()
            if not family.dist.add_gradient(theta, x[groups], flows[groups], target):
                return False
        return True

    def _inputs(self, out: Tensor, done: Container[int] = ()) -> None:
        """Adds the inputs' statistics to the part of a flat tensor that is theirs, but for the
        families that are ``done``."""
        evidence, batch = self.state.evidence, self.bound.batch
        start = out.storage_offset() - self.state.plan.num_sum_parameters
        for number, family in enumerate(self.state.plan.inputs):
            if number in done:
                continue
            x, missing = evidence.values[number], evidence.missing[number]
            rows = self.rows[family.start : family.start + family.groups * family.nodes]
            flows = rows.view(family.groups, family.nodes, batch)
            if self.options.log_space:
                flows = flows.exp()
            where, size = family.statistics, family.dist.num_statistics
            for groups in input_slices(family, batch, out.element_size(), out.device):
                count = groups.stop - groups.start if where.stride else 1
                target = out.as_strided(
                    (count, family.nodes, size),
                    (where.stride, size, 1),
                    start + where.offset + groups.start * where.stride,
                )
                theta = input_parameters(
                    family, self.state.parameters, groups, family.dist.num_parameters
                )
                part = flows[groups]
                if missing is not None:
                    gone = missing[groups].unsqueeze(1)
                    self._expected(family.dist, theta, part, gone, target)
                    part = part.masked_fill(gone, 0.0)
                family.dist.accumulate(theta, x[groups], part, target)

    def _expected(
        self, dist: Distribution, theta: Tensor, flows: Tensor, gone: Tensor, target: Tensor
    ) -> None:
        """A missing value counts as its expectation, or for "mpe" as its most likely value."""
        if self.options.algorithm == "mpe":
            share = dist.statistics_of_mode(theta).to(flows.dtype)
        else:
            share = dist.expected(theta)
        found = (flows * gone).sum(-1, keepdim=True) * share
        target += found.sum(0, keepdim=True) if len(target) != len(found) else found
