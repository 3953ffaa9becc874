"""Distributions of the input nodes, one a file; a new one is a `Distribution` in a file of its own.

They are listed by name for `load`.
"""

from rightfast.circuits.leaves.base import Distribution
from rightfast.circuits.leaves.bernoulli import Bernoulli
from rightfast.circuits.leaves.categorical import Categorical
from rightfast.circuits.leaves.discretized_logistic import DiscretizedLogistic
from rightfast.circuits.leaves.gaussian import Gaussian

BY_NAME: dict[str, type[Distribution]] = {
    kind.__name__: kind for kind in (Bernoulli, Categorical, DiscretizedLogistic, Gaussian)
}

__all__ = [
    "BY_NAME",
    "Bernoulli",
    "Categorical",
    "DiscretizedLogistic",
    "Distribution",
    "Gaussian",
]
