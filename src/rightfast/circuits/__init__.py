"""Probabilistic circuits on torch: exact likelihoods, marginals, samples, and EM.

from rightfast import circuits

root = circuits.hmm(seq_length=32, num_latents=64, dist=circuits.Categorical(256))
circuit = circuits.compile(root)
circuits.mini_batch_em(circuit, x, step_size=0.1, pseudocount=0.1)
circuit(x)  # log-likelihoods, differentiable
"""

from rightfast.circuits.circuit import Circuit, compile
from rightfast.circuits.distributed import reduce_flows
from rightfast.circuits.em import em_step, full_batch_em, mini_batch_em
from rightfast.circuits.free import FreeParameters
from rightfast.circuits.leaves import (
    Bernoulli,
    Categorical,
    DiscretizedLogistic,
    Distribution,
    Gaussian,
)
from rightfast.circuits.nodes import inputs, multiply, summate
from rightfast.circuits.queries import (
    conditional,
    conditional_sample,
    marginal,
    mpe,
    sample,
    top_down_probabilities,
)
from rightfast.circuits.storage import load, save
from rightfast.circuits.structures import chow_liu_tree, hclt, hmm, pd, rat_spn

__all__ = [
    "Bernoulli",
    "Categorical",
    "Circuit",
    "DiscretizedLogistic",
    "Distribution",
    "FreeParameters",
    "Gaussian",
    "chow_liu_tree",
    "compile",
    "conditional",
    "conditional_sample",
    "em_step",
    "full_batch_em",
    "hclt",
    "hmm",
    "inputs",
    "load",
    "marginal",
    "mini_batch_em",
    "mpe",
    "multiply",
    "pd",
    "rat_spn",
    "reduce_flows",
    "sample",
    "save",
    "summate",
    "top_down_probabilities",
]
