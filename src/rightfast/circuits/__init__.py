"""Probabilistic circuits on torch."""

from rightfast.circuits.circuit import Circuit, compile
from rightfast.circuits.leaves import Bernoulli, Categorical, DiscretizedLogistic, Gaussian
from rightfast.circuits.nodes import inputs, multiply, summate

__all__ = [
    "Bernoulli",
    "Categorical",
    "Circuit",
    "DiscretizedLogistic",
    "Gaussian",
    "compile",
    "inputs",
    "multiply",
    "summate",
]
