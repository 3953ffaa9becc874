"""The autograd face: log-likelihoods that are differentiable by the parameters."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rightfast.circuits import backward
from rightfast.circuits.options import Pass

if TYPE_CHECKING:
    from rightfast.circuits.circuit import AnyState, Circuit, Found


class LogLikelihood(torch.autograd.Function):
    """The derivative is theta^(alpha - 1) H, see `backward`; of impossible data it is 0."""

    @staticmethod
    def call(
        circuit: "Circuit", evidence: "Found", options: Pass, parameters: Tensor
    ) -> "tuple[Tensor, AnyState]":
        """Log-likelihoods [batch], and the state of the pass."""
        holder: list[AnyState] = []
        out: Tensor = LogLikelihood.apply(parameters, circuit, evidence, options, holder)  # type: ignore[no-untyped-call]
        return out, holder[0]

    @staticmethod
    def forward(
        ctx: Any,
        parameters: Tensor,
        circuit: "Circuit",
        evidence: "Found",
        options: Pass,
        holder: "list[AnyState]",
    ) -> Tensor:
        state = circuit.run_pass(evidence, options, parameters.detach())
        holder.append(state)
        ctx.save_for_backward(parameters)  # autograd then refuses parameters changed in between
        ctx.state = state
        return state.log_likelihood()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, by_output: Tensor) -> tuple[Tensor | None, ...]:
        _ = ctx.saved_tensors
        state = ctx.state
        found = backward.run(state, by_output, state.options, derivative=True)
        return found.by_parameter, None, None, None, None
