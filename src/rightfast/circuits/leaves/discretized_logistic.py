"""Discretised logistic: a logistic density cut into bins of width 1, the outer ones open.

    p(k) = sigma((k + 1/2 - mu) / s) - sigma((k - 1/2 - mu) / s)

with -inf for the lower end of bin 0 and +inf for the upper end of the last. Source: Salimans et
al., PixelCNN++ (arXiv 1701.05517), section 2.1.
"""

from dataclasses import dataclass

import torch
from rightfast_kernels.circuit import reference_categorical as operator
from torch import Tensor

from rightfast.circuits.leaves.base import Distribution, draw_categories
from rightfast.circuits.leaves.categorical import check_categories

MIN_SCALE = 1e-2  # below, a bin holds all mass as far as float32 can tell
STEPS, HALVINGS = 8, 12  # of the M-step, which has no closed form


@dataclass(frozen=True)
class DiscretizedLogistic(Distribution):
    """Parameters: mean and scale, in bins. Statistics: the flow of each of ``num_cats`` bins."""

    num_cats: int

    def __post_init__(self) -> None:
        check_categories(self.num_cats, 2)

    @property
    def num_parameters(self) -> int:
        return 2

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
        uniform = torch.rand((num_nodes, 2), generator=generator, dtype=torch.float64)
        mean = uniform[:, 0] * (self.num_cats - 1)
        scale = (0.1 + 0.15 * uniform[:, 1]) * self.num_cats
        return torch.stack([mean, scale], -1)

    def check_parameters(self, parameters: Tensor) -> None:
        if (parameters[..., 1] <= 0).any():
            raise ValueError("the scale of a discretised logistic must be positive")

    def log_probabilities(self, parameters: Tensor) -> Tensor:
        """[..., 2] -> [..., num_cats]; differentiable, and finite far from the mean.

        With a < b the ends of a bin: log(sigma(b) - sigma(a)) = log sigma(b) + log sigma(-a)
        + log(1 - exp(a - b)), where a - b = -1/s.
        """
        mean, scale = parameters[..., :1], parameters[..., 1:]
        ends = torch.arange(self.num_cats - 1, dtype=parameters.dtype, device=parameters.device)
        z = (ends + 0.5 - mean) / scale
        below, above = torch.nn.functional.logsigmoid(z), torch.nn.functional.logsigmoid(-z)
        inner = below[..., 1:] + above[..., :-1] + torch.log(-torch.expm1(-1 / scale))
        return torch.cat([below[..., :1], inner, above[..., -1:]], -1)

    def log_prob(self, parameters: Tensor, x: Tensor, out: Tensor) -> None:
        operator.gather_table(self.log_probabilities(parameters), x, out)

    def accumulate(self, parameters: Tensor, x: Tensor, flows: Tensor, statistics: Tensor) -> None:
        operator.accumulate(x, flows, statistics)

    def statistics_of_mode(self, parameters: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(self.mode(parameters), self.num_cats)

    def expected(self, parameters: Tensor) -> Tensor:
        return self.log_probabilities(parameters).exp()

    def gradient(self, parameters: Tensor, statistics: Tensor, out: Tensor) -> None:
        out.copy_(self._gradient(parameters, statistics))

    def _gradient(self, parameters: Tensor, statistics: Tensor) -> Tensor:
        with torch.enable_grad():
            leaf = parameters.detach().requires_grad_()
            total = (statistics * self.log_probabilities(leaf)).sum()
        return torch.autograd.grad(total, leaf)[0]

    def update(
        self,
        parameters: Tensor,
        statistics: Tensor,
        step_size: float,
        pseudocount: float,
        keep_zero_params: bool,
    ) -> None:
        """Ascent of the expected log-likelihood, no step of which lowers it.

        The pseudocount is that many samples from the old parameters. A step goes along the
        gradient in (mu / s, log s), by a rate that halves until the value does not fall. A part of
        the way is one between the means, and between the logarithms of the scales.
        """
        counts = statistics + pseudocount * self.expected(parameters)
        total = counts.sum(-1, keepdim=True)
        share = torch.where(total > 0, counts / total, 0)
        found = parameters
        value = (share * self.log_probabilities(found)).sum(-1, keepdim=True)
        for _ in range(STEPS):
            found, value = self._ascend(found, value, share)
        free = torch.lerp(self.to_free(parameters), self.to_free(found), step_size)
        parameters.copy_(torch.where(found == parameters, parameters, self.from_free(free)))

    def _ascend(self, old: Tensor, value: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        mean, scale = old[..., :1], old[..., 1:]
        by_mean, by_scale = torch.split(self._gradient(old, share) * scale, 1, -1)
        best, best_value = old, value
        rate = 4.0
        for _ in range(HALVINGS):
            tried = torch.cat(
                [
                    mean + rate * scale * by_mean,
                    (scale * (rate * by_scale).clamp(-1, 1).exp()).clamp(min=MIN_SCALE),
                ],
                -1,
            )
            found = (share * self.log_probabilities(tried)).sum(-1, keepdim=True)
            better = found > best_value
            best = torch.where(better, tried, best)
            best_value = torch.where(better, found, best_value)
            rate /= 2
        return best, best_value

    def to_free(self, parameters: Tensor) -> Tensor:
        return torch.cat([parameters[..., :1], parameters[..., 1:].log()], -1)

    def from_free(self, free: Tensor) -> Tensor:
        return torch.cat([free[..., :1], free[..., 1:].exp()], -1)

    def mode(self, parameters: Tensor) -> Tensor:
        return self.log_probabilities(parameters).argmax(-1)

    def log_mode(self, parameters: Tensor) -> Tensor:
        return self.log_probabilities(parameters).amax(-1)

    def sample(self, parameters: Tensor, generator: torch.Generator) -> Tensor:
        return draw_categories(self.expected(parameters), generator)

    def probabilities(self, parameters: Tensor) -> Tensor:
        return self.expected(parameters)
