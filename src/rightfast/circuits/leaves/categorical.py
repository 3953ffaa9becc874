"""Categorical: K probabilities of the values 0 to K - 1."""

from dataclasses import dataclass

import torch
from rightfast_kernels.circuit import reference_categorical as operator
from rightfast_kernels.circuit import reference_update
from torch import Tensor

from rightfast.circuits.leaves.base import Distribution, draw_categories

TOLERANCE = 1e-4


@dataclass(frozen=True)
class Categorical(Distribution):
    """``num_cats`` probabilities a node. Statistics: the flow of each category."""

    num_cats: int

    def __post_init__(self) -> None:
        check_categories(self.num_cats, 1)

    @property
    def num_parameters(self) -> int:
        return self.num_cats

    @property
    def num_statistics(self) -> int:
        return self.num_cats

    @property
    def num_categories(self) -> int:
        return self.num_cats

    @property
    def counts_categories(self) -> bool:
        return True

    def initial(self, num_nodes: int, generator: torch.Generator) -> Tensor:
        shape = (num_nodes, self.num_cats)
        weights = (-2 * torch.rand(shape, generator=generator, dtype=torch.float64)).exp()
        return weights / weights.sum(-1, keepdim=True)

    def check_parameters(self, parameters: Tensor) -> None:
        if (parameters < 0).any() or ((parameters.sum(-1) - 1).abs() > TOLERANCE).any():
            raise ValueError(
                "parameters of a Categorical must be probabilities, not negative and with the sum "
                "1 for every node: divide each row by its sum"
            )

    def log_prob(self, parameters: Tensor, x: Tensor, out: Tensor) -> None:
        operator.log_prob(parameters, x, out)

    def accumulate(self, parameters: Tensor, x: Tensor, flows: Tensor, statistics: Tensor) -> None:
        operator.accumulate(x, flows, statistics)

    def statistics_of_mode(self, parameters: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(self.mode(parameters), self.num_cats)

    def expected(self, parameters: Tensor) -> Tensor:
        return parameters

    def gradient(self, parameters: Tensor, statistics: Tensor, out: Tensor) -> None:
        # Flows through a probability of 0 are 0: what it gives is impossible.
        torch.div(statistics, parameters, out=out)
        out.nan_to_num_(nan=0.0)

    def add_gradient(self, parameters: Tensor, x: Tensor, flows: Tensor, out: Tensor) -> bool:
        if flows.shape[2] >= self.num_cats:
            return False
        operator.add_gradient(parameters, x, flows, out)
        return True

    def update(
        self,
        parameters: Tensor,
        statistics: Tensor,
        step_size: float,
        pseudocount: float,
        keep_zero_params: bool,
    ) -> None:
        """The pseudocount is spread over the categories that may have any."""
        reference_update.rows(parameters, statistics, step_size, pseudocount, keep_zero_params)

    def to_free(self, parameters: Tensor) -> Tensor:
        return parameters.clamp(min=torch.finfo(parameters.dtype).tiny).log()

    def from_free(self, free: Tensor) -> Tensor:
        return free.softmax(-1)

    def mode(self, parameters: Tensor) -> Tensor:
        return parameters.argmax(-1)

    def log_mode(self, parameters: Tensor) -> Tensor:
        return parameters.amax(-1).log()

    def sample(self, parameters: Tensor, generator: torch.Generator) -> Tensor:
        return draw_categories(parameters, generator)

    def probabilities(self, parameters: Tensor) -> Tensor:
        return parameters


def check_categories(num_cats: object, least: int) -> None:
    """Raises unless it is an int of at least ``least``."""
    if isinstance(num_cats, bool) or not isinstance(num_cats, int):
        raise TypeError(f"num_cats must be an int, got {num_cats!r}")
    if num_cats < least:
        raise ValueError(f"num_cats must be at least {least}, got {num_cats}")
