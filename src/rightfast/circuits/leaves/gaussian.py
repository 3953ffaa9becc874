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
    """Parameters: mean, standard deviation. Statistics: the flow f, f z and f z^2 with
    z = (x - mean) / deviation, so that float32 serves data far from 0.

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

    def accumulate(self, parameters: Tensor, x: Tensor, flows: Tensor, statistics: Tensor) -> None:
        mean, deviation = parameters[..., :1], parameters[..., 1:]
        largest = torch.finfo(x.dtype).max ** 0.5 / (1 + x.shape[-1])  # so that no sum overflows
        z = ((x.unsqueeze(1) - mean) / deviation).clamp_(-largest, largest)
        first = flows * z
        moments = torch.stack([flows.sum(-1), first.sum(-1), first.mul_(z).sum(-1)], -1)
        statistics += moments.sum(0, keepdim=True) if fold_shared(flows, statistics) else moments

    def statistics_of_mode(self, parameters: Tensor) -> Tensor:
        one = torch.ones_like(parameters[..., 0])  # made on the device, which nobody waits for
        return torch.stack([one, 0 * one, 0 * one], -1)

    def expected(self, parameters: Tensor) -> Tensor:
        one = torch.ones_like(parameters[..., 0])
        return torch.stack([one, 0 * one, one], -1)

    def gradient(self, parameters: Tensor, statistics: Tensor, out: Tensor) -> None:
        flow, first, second = torch.split(statistics, 1, -1)
        out.copy_(torch.cat([first, second - flow], -1) / parameters[..., 1:])

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
        mean, deviation = torch.split(parameters, 1, -1)
        counts = statistics + pseudocount * self.expected(parameters)
        flow, first, second = torch.split(counts, 1, -1)
        shift = step_size * first / flow
        variance = 1 + step_size * (second / flow - 1) - shift**2
        scale = variance.clamp(min=0).sqrt().maximum(self.min_std / deviation)
        shift = torch.where(flow > 0, shift, 0.0)
        scale = torch.where(flow > 0, scale, 1.0)
        mean.addcmul_(deviation, shift)
        deviation.mul_(scale)
        flow, first, second = torch.split(statistics.clone(), 1, -1)
        second = second - 2 * shift * first + shift**2 * flow
        statistics.copy_(torch.cat([flow, (first - shift * flow) / scale, second / scale**2], -1))

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
