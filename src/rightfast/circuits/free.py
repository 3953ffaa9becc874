"""Parameters without constraints, for torch's optimizers: softmax of logits, exp of log-scales."""

import torch
from torch import Tensor, nn

from rightfast.circuits.circuit import Circuit
from rightfast.circuits.forward import input_parameters
from rightfast.circuits.options import Pass
from rightfast.circuits.plan import Simplex


class FreeParameters(nn.Module):
    """A circuit as a function of ``free``, a flat tensor of any real numbers.

    Probabilities are the softmax of theirs, a Bernoulli's the sigmoid, scales the exponential. It
    starts at the circuit's parameters, where 0 becomes the smallest normal number, since no
    softmax is 0. The circuit keeps its own parameters until `write`.
    """

    def __init__(self, circuit: Circuit) -> None:
        super().__init__()
        self.circuit = circuit
        circuit.parameters_flat.requires_grad_(False)
        flat = circuit.parameters_flat.detach()
        size = circuit.plan.num_sum_parameters
        parts = [flat[:size].clamp(min=torch.finfo(flat.dtype).tiny).log()]
        for family in circuit.plan.inputs:
            one = slice(0, family.groups if family.parameters.stride else 1)
            theta = input_parameters(family, flat, one, family.dist.num_parameters)
            parts.append(family.dist.to_free(theta).reshape(-1))
        self.free = nn.Parameter(torch.cat(parts))

    def constrained(self) -> Tensor:
        """Parameters of the circuit, flat; differentiable by ``free``."""
        plan = self.circuit.plan
        parts = [self._simplex(simplex) for simplex in plan.simplices]
        for family in plan.inputs:
            one = slice(0, family.groups if family.parameters.stride else 1)
            own = input_parameters(family, self.free, one, family.dist.num_parameters)
            parts.append(family.dist.from_free(own).reshape(-1))
        return torch.cat(parts)

    def _simplex(self, simplex: Simplex) -> Tensor:
        if simplex.segments is None:
            size = simplex.rows * simplex.children
            rows = self.free[simplex.offset : simplex.offset + size]
            return rows.view(simplex.rows, simplex.children).softmax(-1).view(-1)
        logits = self.free[simplex.offset : simplex.offset + len(simplex.segments)]
        segments = torch.from_numpy(simplex.segments).to(logits.device)
        largest = logits.new_full((simplex.rows,), -torch.inf)
        largest = largest.scatter_reduce(0, segments, logits.detach(), "amax")
        weights = (logits - largest[segments]).exp()
        return weights / weights.new_zeros(simplex.rows).index_add(0, segments, weights)[segments]

    def forward(self, x: Tensor, missing_mask: Tensor | None = None) -> Tensor:
        """Log-likelihoods [batch], differentiable by ``free``."""
        circuit = self.circuit
        found = circuit.read(x, missing_mask)
        return circuit.evaluate(found, Pass(), self.constrained())

    @torch.no_grad()
    def write(self) -> None:
        """Gives the circuit these parameters."""
        self.circuit.parameters_flat.copy_(self.constrained())
