"""Hidden Markov model: a chain of latent states, each with an emission.

s_t[j] = log sum_k A[j, k] exp(b_{t+1}[k, x_{t+1}] + s_{t+1}[k]),    root: pi over t = 0
"""

from rightfast.circuits.leaves.base import Distribution
from rightfast.circuits.nodes import SumNodes, inputs, multiply, summate
from rightfast.circuits.structures.arguments import positive


def hmm(
    seq_length: int, num_latents: int, dist: Distribution, *, homogeneous: bool = True
) -> SumNodes:
    """The root of a hidden Markov model over ``seq_length`` variables.

    ``homogeneous``: all steps share one transition table and one set of emissions. A model of one
    variable is a mixture.
    """
    positive("seq_length", seq_length)
    positive("num_latents", num_latents)
    emission = inputs(seq_length - 1, num_latents, dist)
    elements = multiply(emission)
    transition: SumNodes | None = None
    for t in reversed(range(seq_length - 1)):
        if transition is None:
            state = transition = summate(elements, num_nodes=num_latents)
        else:
            state = transition.duplicate(elements, tie_params=homogeneous)
        elements = multiply(emission.duplicate(t, tie_params=homogeneous), state)
    return summate(elements, num_nodes=1)
