"""Gaussian: mean and standard deviation.

log p(x) = -(x - mu)^2 / (2 sigma^2) - log sigma - log(2 pi) / 2
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from rightfast.circuits.leaves.base import Distribution, fold_shared

HALF_LOG_TWO_PI = math.log(2 * math.pi) / 2


@dataclass(frozen=True)
class Gaussian(Distribution):
    """Parameters: mean, standard deviation. Statistics: the flow f, f x and f x^2.

    ``min_std`` bounds the deviation from below in the M-step, where one sample alone would have
    an infinite density.
    """

    min_std: float = 1e-3

    def __post_init__(self) -> None:
        if not (math.isfinite(self.min_std) and self.min_std > 0):
            raise ValueError(f"min_std must be a positive number, got {self.min_std}")

    @property
    def num_parameters(self) -> int:
        return 2

    @property
    def num_statistics(self) -> int:
        return 3

    @property
    def num_categories(self) -> None:
        return None

    def initial(self, num_nodes: int, generator: torch.Generator) -> Tensor:
        mean = torch.randn((num_nodes, 1), generator=generator, dtype=torch.float64)
        return torch.cat([mean, torch.ones_like(mean)], -1)

    def check_parameters(self, parameters: Tensor) -> None:
        if (parameters[..., 1] <= 0).any():
            raise ValueError("the standard deviation of a Gaussian must be positive")

    def log_prob(self, parameters: Tensor, x: Tensor, out: Tensor) -> None:
        mean, deviation = parameters[..., :1], parameters[..., 1:]
        torch.sub(x.unsqueeze(1), mean, out=out)
        out.div_(deviation).square_().mul_(-0.5).sub_(deviation.log() + HALF_LOG_TWO_PI)

    def accumulate(self, x: Tensor, flows: Tensor, statistics: Tensor) -> None:
        moments = flows @ self.statistics_of(x)
        statistics += moments.sum(0, keepdim=True) if fold_shared(flows, statistics) else moments

    def statistics_of(self, x: Tensor) -> Tensor:
        return torch.stack([torch.ones_like(x), x, x * x], -1)

    def expected(self, parameters: Tensor) -> Tensor:
        mean, deviation = parameters.unbind(-1)
        return torch.stack([torch.ones_like(mean), mean, mean**2 + deviation**2], -1)

    def gradient(self, parameters: Tensor, statistics: Tensor, out: Tensor) -> None:
        mean, deviation = parameters.unbind(-1)
        flow, first, second = statistics.unbind(-1)
        by_mean = (first - flow * mean) / deviation**2
        squares = second - 2 * mean * first + flow * mean**2
        out.copy_(torch.stack([by_mean, squares / deviation**3 - flow / deviation], -1))

    def update(
        self,
        parameters: Tensor,
        statistics: Tensor,
        step_size: float,
        pseudocount: float,
        keep_zero_params: bool,
    ) -> None:
        """The pseudocount is that many samples from the old parameters. A part of the way is one
        between the moments, so that a mixture of the two has the parameters."""
        counts = statistics + pseudocount * self.expected(parameters)
        flow = counts[..., :1]
        moments = torch.lerp(self.expected(parameters), counts / flow, step_size)
        _, mean, second = moments.unbind(-1)
        deviation = (second - mean**2).clamp(min=self.min_std**2).sqrt()
        found = torch.stack([mean, deviation], -1)
        parameters.copy_(torch.where(flow > 0, found, parameters))

    def to_free(self, parameters: Tensor) -> Tensor:
        return torch.cat([parameters[..., :1], parameters[..., 1:].log()], -1)

    def from_free(self, free: Tensor) -> Tensor:
        return torch.cat([free[..., :1], free[..., 1:].exp()], -1)

    def mode(self, parameters: Tensor) -> Tensor:
        return parameters[..., 0]

    def log_mode(self, parameters: Tensor) -> Tensor:
        return -(parameters[..., 1].log() + HALF_LOG_TWO_PI)

    def sample(self, parameters: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.randn(
            len(parameters), generator=generator, dtype=torch.float64, device=generator.device
        ).to(parameters)
        return parameters[:, 0] + noise * parameters[:, 1]
