"""A layer of sums for any values: float64, and entry by entry where even that underflows.

    n = (1/alpha) log sum_c theta^alpha exp(alpha e)          alpha = 1: log sum_c theta exp(e)
    f_e[c] = sum_n f_n (theta[n, c] exp(e[c] - n))^alpha      flows to the elements
    F[n, c] = sum_b f_n (theta[n, c] exp(e[c] - n))^alpha     parameter flows; F / theta is the
                                                              derivative by theta

A sum is -inf only where every child has theta = 0 or is -inf; it hands on no flow.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

# theta >= 1e-38 (float32) times E >= FLUSH is never denormal; sums above LEAST keep their digits.
FLUSH, LEAST = 1e-250, 1e-230
LOG_FLUSH = math.log(FLUSH) - 1  # exp and log of what underflows take many times as long
PIECE = 1 << 20  # elements of a scratch tensor in the path by entries

Entries = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Wide:
    """A layer's n, and what its backward pass needs; all float64.

    ``power`` is theta^alpha; ``entries`` are the group, sum and sample of finite n whose S is
    too small.
    """

    alpha: float
    theta: Tensor
    power: Tensor
    e: Tensor
    scaled: Tensor
    sums: Tensor
    n: Tensor
    entries: Entries

    def to_elements(self, flows: Tensor) -> Tensor:
        """f_e [G, C, B], float64, from f [G, N, B]."""
        flows = flows.double()
        out = self.power.transpose(1, 2) @ self._quotient(flows) * self.scaled
        by_sample = out.transpose(1, 2)
        for group, node, sample in _pieces(self.entries, self.e.shape[1]):
            shares = self._shares(group, node, sample) * flows[group, node, sample].unsqueeze(1)
            by_sample.index_put_((group, sample), shares, accumulate=True)
        return out

    def to_parameters(self, flows: Tensor) -> tuple[Tensor, Tensor]:
        """F and the derivative by theta, [G, N, C], float64.

        With alpha < 1 the derivative by a theta of 0 is infinite; it is returned as 0.
        """
        flows = flows.double()
        by_power = self._quotient(flows) @ self.scaled.transpose(1, 2)
        by_flow = self.power * by_power
        for group, node, sample in _pieces(self.entries, self.e.shape[1]):
            weight = flows[group, node, sample].unsqueeze(1)
            shares = self._shares(group, node, sample) * weight
            by_flow.index_put_((group, node), shares, accumulate=True)
            gap = self.e[group, :, sample] - self.n[group, node, sample].unsqueeze(1)
            raw = torch.where(weight == 0, 0, gap.exp() * weight)
            by_power.index_put_((group, node), raw, accumulate=True)
        if self.alpha == 1:
            return by_flow, by_power
        return by_flow, torch.where(self.theta > 0, by_flow / self.theta, 0)

    def _quotient(self, flows: Tensor) -> Tensor:
        return torch.where(self.sums < LEAST, 0, flows / self.sums)

    def _shares(self, group: Tensor, node: Tensor, sample: Tensor) -> Tensor:
        """(theta exp(e - n))^alpha of the children of some entries: [K, C], rows of sum 1."""
        gap = self.e[group, :, sample] - self.n[group, node, sample].unsqueeze(1)
        return (self.alpha * (self.theta[group, node].log() + gap)).exp_()


def forward(theta: Tensor, e: Tensor, alpha: float = 1.0) -> Wide:
    """n [G, N, B] and what belongs to it, from theta [G, N, C] and e [G, C, B]."""
    theta, e = theta.double(), e.double()
    power = theta if alpha == 1 else theta**alpha
    # -inf - -inf would be NaN.
    largest = e.amax(1, keepdim=True).clamp_(min=torch.finfo(torch.float64).min)
    scaled = (e - largest).mul_(alpha).clamp_(min=LOG_FLUSH).exp_()
    torch.threshold_(scaled, FLUSH, 0.0)
    sums = power @ scaled
    small = sums < LEAST
    n = sums.clamp(min=LEAST).log_().div_(alpha).add_(largest)
    if bool(small.any()):
        # What no child supports is -inf; the others are few.
        n.masked_fill_(small, -torch.inf)
        small &= (theta > 0).float() @ (~e.isneginf()).float() > 0
    group, node, sample = entries = torch.nonzero(small, as_tuple=True)
    if len(group):
        n[entries] = torch.cat(
            [
                (alpha * (theta[g, m].log() + e[g, :, s])).logsumexp(1) / alpha
                for g, m, s in _pieces((group, node, sample), e.shape[1])
            ]
        )
    return Wide(alpha, theta, power, e, scaled, sums, n, (group, node, sample))


def _pieces(entries: Entries, children: int) -> Iterator[Entries]:
    """The entries in pieces whose terms fit into scratch memory; none if there are none."""
    step = max(1, PIECE // children)
    for part in zip(*(torch.split(index, step) for index in entries)):
        if len(part[0]):
            group, node, sample = part
            yield group, node, sample
