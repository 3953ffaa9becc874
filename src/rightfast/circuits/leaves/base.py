"""What a distribution of an input node must do.

Shapes: G groups of K nodes that have one variable each, P parameters and S sufficient statistics
a node, B samples. A distribution is a frozen dataclass of plain numbers: its fields are what
`save` writes.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class Distribution(ABC):
    """A distribution of one variable; its parameters live in the circuit."""

    @property
    @abstractmethod
    def num_parameters(self) -> int:
        """P, parameters a node."""

    @property
    @abstractmethod
    def num_statistics(self) -> int:
        """S, sufficient statistics a node: what the M-step needs."""

    @property
    @abstractmethod
    def num_categories(self) -> int | None:
        """How many values there are, 0 and up; None if the variable is continuous."""

    @property
    def counts_categories(self) -> bool:
        """Whether the statistics are the flow of each category, which anybody can count."""
        return False

    @abstractmethod
    def initial(self, num_nodes: int, generator: torch.Generator) -> Tensor:
        """Random parameters to start from: [num_nodes, P], float64."""

    @abstractmethod
    def check_parameters(self, parameters: Tensor) -> None:
        """Raises ValueError unless [..., P] are parameters; what it says names the remedy."""

    @abstractmethod
    def log_prob(self, parameters: Tensor, x: Tensor, out: Tensor) -> None:
        """Writes log p(x) to ``out`` [G, K, B]; parameters [G, K, P], x [G, B].

        Groups that share parameters come as an expanded tensor, with stride 0. ``x`` holds
        int64 categories, or values in the dtype of the parameters.
        """

    @abstractmethod
    def accumulate(self, parameters: Tensor, x: Tensor, flows: Tensor, statistics: Tensor) -> None:
        """Adds the flows [G, K, B] of x [G, B] to the statistics [G, K, S].

        For groups that share parameters ``statistics`` is [1, K, S].
        """

    @abstractmethod
    def statistics_of_mode(self, parameters: Tensor) -> Tensor:
        """The statistics of the most likely value, with a flow of 1: [..., P] -> [..., S]."""

    @abstractmethod
    def expected(self, parameters: Tensor) -> Tensor:
        """Expected statistics of one unseen value: [..., P] -> [..., S]."""

    @abstractmethod
    def gradient(self, parameters: Tensor, statistics: Tensor, out: Tensor) -> None:
        """d/dparameters of sum_b f_b log p(x_b), finite, into ``out`` [..., P]."""

    def add_gradient(self, parameters: Tensor, x: Tensor, flows: Tensor, out: Tensor) -> bool:
        """The same for the flows [G, K, B] of x [G, B], added to ``out`` [G, K, P] without
        statistics, where that is less work; whether it was done."""
        return False

    @abstractmethod
    def update(
        self,
        parameters: Tensor,
        statistics: Tensor,
        step_size: float,
        pseudocount: float,
        keep_zero_params: bool,
    ) -> None:
        """The M-step, in place: the parameters [..., P] go ``step_size`` of the way to the most
        likely ones for the statistics [..., S]; where there are none, they stay.

        ``pseudocount`` counts as so many more samples a node, as the distribution says.
        Statistics that are relative to the parameters become so to the new ones.
        """

    @abstractmethod
    def to_free(self, parameters: Tensor) -> Tensor:
        """Real numbers without constraints that `from_free` takes to these: [..., P] each."""

    @abstractmethod
    def from_free(self, free: Tensor) -> Tensor:
        """Parameters from any real numbers, differentiable: [..., P] each."""

    @abstractmethod
    def mode(self, parameters: Tensor) -> Tensor:
        """The most likely value: [..., P] -> [...]; categories as int64."""

    @abstractmethod
    def log_mode(self, parameters: Tensor) -> Tensor:
        """Its log probability, or log density: [..., P] -> [...]."""

    @abstractmethod
    def sample(self, parameters: Tensor, generator: torch.Generator) -> Tensor:
        """One value for each row of parameters: [A, P] -> [A]; categories as int64."""

    def probabilities(self, parameters: Tensor) -> Tensor:
        """Of every category: [..., P] -> [..., num_categories]; TypeError if continuous."""
        raise TypeError(
            f"{type(self).__name__} is continuous and has no table of probabilities: use the "
            "log-likelihood of the values that you want to compare"
        )


def fold_shared(flows: Tensor, statistics: Tensor) -> bool:
    """Whether the statistics of all groups go to one."""
    return statistics.shape[0] != flows.shape[0]


def draw_categories(probabilities: Tensor, generator: torch.Generator) -> Tensor:
    """By inverse CDF, [A, C] -> [A] int64; weights need not sum to 1; never one of weight 0."""
    cdf = probabilities.double().cumsum(-1)
    uniform = torch.rand(
        (len(cdf), 1), generator=generator, dtype=torch.float64, device=generator.device
    ).to(cdf.device)
    found = torch.searchsorted(cdf, uniform * cdf[:, -1:], right=True).squeeze(-1)
    # Where rounding takes u * total up to total: the last category that has any weight.
    last = torch.searchsorted(cdf, cdf[:, -1:].contiguous()).squeeze(-1)
    return torch.minimum(found, last)
