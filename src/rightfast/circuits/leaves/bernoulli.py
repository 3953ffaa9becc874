"""Bernoulli: the probability of a 1."""

from dataclasses import dataclass

import torch
from rightfast_kernels.circuit import reference_update
from torch import Tensor

from rightfast.circuits.leaves.base import Distribution, fold_shared


@dataclass(frozen=True)
class Bernoulli(Distribution):
    """One parameter a node, the probability of 1. Statistics: the flows of 0 and of 1."""

    @property
    def num_parameters(self) -> int:
        return 1

    @property
    def num_statistics(self) -> int:
        return 2

    @property
    def num_categories(self) -> int:
        return 2

    @property
    def counts_categories(self) -> bool:
        return True

    def initial(self, num_nodes: int, generator: torch.Generator) -> Tensor:
        return 0.1 + 0.8 * torch.rand((num_nodes, 1), generator=generator, dtype=torch.float64)

    def check_parameters(self, parameters: Tensor) -> None:
        if (parameters < 0).any() or (parameters > 1).any():
            raise ValueError("the parameter of a Bernoulli is a probability, between 0 and 1")

    def log_prob(self, parameters: Tensor, x: Tensor, out: Tensor) -> None:
        one = x.unsqueeze(1) == 1
        torch.where(one, parameters, 1 - parameters, out=out)
        out.log_()

    def accumulate(self, parameters: Tensor, x: Tensor, flows: Tensor, statistics: Tensor) -> None:
        both = flows @ torch.nn.functional.one_hot(x, 2).to(flows.dtype)
        statistics += both.sum(0, keepdim=True) if fold_shared(flows, statistics) else both

    def statistics_of_mode(self, parameters: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(self.mode(parameters), 2)

    def expected(self, parameters: Tensor) -> Tensor:
        return torch.cat([1 - parameters, parameters], -1)

    def gradient(self, parameters: Tensor, statistics: Tensor, out: Tensor) -> None:
        by = torch.where(self.expected(parameters) > 0, statistics / self.expected(parameters), 0)
        torch.sub(by[..., 1:], by[..., :1], out=out)

    def update(
        self,
        parameters: Tensor,
        statistics: Tensor,
        step_size: float,
        pseudocount: float,
        keep_zero_params: bool,
    ) -> None:
        """The pseudocount is spread over the values that may have any."""
        both = self.expected(parameters)
        reference_update.rows(both, statistics, step_size, pseudocount, keep_zero_params)
        parameters.copy_(both[..., 1:])

    def to_free(self, parameters: Tensor) -> Tensor:
        return parameters.logit(eps=torch.finfo(parameters.dtype).eps)

    def from_free(self, free: Tensor) -> Tensor:
        return free.sigmoid()

    def mode(self, parameters: Tensor) -> Tensor:
        return (parameters.squeeze(-1) > 0.5).long()

    def log_mode(self, parameters: Tensor) -> Tensor:
        return torch.maximum(parameters, 1 - parameters).squeeze(-1).log()

    def sample(self, parameters: Tensor, generator: torch.Generator) -> Tensor:
        uniform = torch.rand(
            len(parameters), generator=generator, dtype=torch.float64, device=generator.device
        ).to(parameters.device)
        return (uniform < parameters.squeeze(-1)).long()

    def probabilities(self, parameters: Tensor) -> Tensor:
        return self.expected(parameters)
