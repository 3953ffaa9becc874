"""Probabilistic circuits at CPU sizes: forward, gradient, EM and compiling.

Ours is judged by the circuit written by hand (circuits_by_hand.py) in float64, which is also timed
beside it as a peer: what a user would otherwise write. RIGHTFAST_LARGE=1 adds the larger circuits.
"""

import functools
import os
from dataclasses import dataclass

import pytest
import torch

from pytest_rightfast import PerfCase, peer, subject
from rightfast import circuits

from . import circuits_by_hand as by_hand


@dataclass(frozen=True)
class Spec:
    """One circuit and a batch size."""

    kind: str
    variables: int
    latents: int
    batch: int

    def __str__(self) -> str:
        return f"{self.kind}{self.variables}-{self.latents}-batch{self.batch}"


SPECS = [Spec("hmm", 32, 64, 16), Spec("hmm", 32, 64, 128), Spec("hclt", 64, 64, 128)]
LARGE = [
    Spec("hmm", 32, 256, 16),
    Spec("hmm", 32, 256, 128),
    Spec("hclt", 784, 32, 16),
    Spec("hclt", 784, 32, 128),
]
EVERY = [*SPECS, *(LARGE if os.environ.get("RIGHTFAST_LARGE") else [])]
CATEGORIES = 256


def root_of(spec):
    dist = circuits.Categorical(CATEGORIES)
    if spec.kind == "hmm":
        return circuits.hmm(spec.variables, spec.latents, dist)
    tree = by_hand.random_tree(spec.variables)
    return circuits.hclt(parents=tree, num_latents=spec.latents, dist=dist)


@functools.cache
def compiled(spec):
    return circuits.compile(root_of(spec))


@functools.cache
def hand(spec, dtype=torch.float32):
    """The circuit written by hand, with the same parameters."""
    return as_hand(compiled(spec).parameters_flat.detach().to(dtype), spec)


def as_hand(flat, spec, plan=None):
    twin = circuits.Circuit(plan or compiled(spec).plan, flat)
    if spec.kind == "hmm":
        return by_hand.HMM.from_circuit(twin)
    return by_hand.HCLT.from_circuit(twin, by_hand.random_tree(spec.variables))


def draw(spec):
    def inputs(generator):
        x = torch.randint(CATEGORIES, (spec.batch, spec.variables), generator=generator)
        return x, spec

    return inputs


def forward(x, spec):
    with torch.no_grad():
        return compiled(spec)(x)


def forward_by_hand(x, spec, dtype=torch.float32):
    with torch.no_grad():
        return hand(spec, dtype).log_likelihood(x)


def gradient(x, spec):
    """Of the mean log-likelihood by every parameter."""
    circuit = compiled(spec)
    return torch.autograd.grad(circuit(x).mean(), circuit.parameters_flat)[0]


def gradient_by_hand(x, spec, dtype=torch.float32):
    return list(by_hand.step(hand(spec, dtype), x)[1])


@pytest.fixture(params=EVERY, ids=str)
def spec(request):
    return request.param


# The data are whole numbers and the parameters the circuits' own, so the reference takes its
# float64 from there, and answers become float64 to be judged.


@pytest.mark.perf_backends(torch=forward, by_hand=peer(forward_by_hand))
def test_forward(perf, spec, backend):
    case = PerfCase(
        inputs=draw(spec),
        reference=functools.partial(forward_by_hand, dtype=torch.float64),
        output=torch.Tensor.double,
        rtol=1e-6,
        vary=False,
    )
    perf(backend, case=case)


@pytest.mark.perf_backends(torch=gradient, by_hand=peer(gradient_by_hand))
def test_gradient(perf, spec, backend):
    def listed(found):
        parts = as_hand(found, spec).parameters if torch.is_tensor(found) else found
        return [part.double() for part in parts]

    case = PerfCase(
        inputs=draw(spec),
        reference=functools.partial(gradient_by_hand, dtype=torch.float64),
        output=listed,
        rtol=1e-4,
        atol=1e-7,
        vary=False,
    )
    perf(backend, case=case)


def em(circuit, x, spec, kind):
    """A whole step on the batch, or on two halves of it together."""
    if kind == "mini_batch":
        return circuits.mini_batch_em(circuit, x, step_size=0.5, pseudocount=0.1)
    return circuits.full_batch_em(circuit, x.chunk(2), pseudocount=0.1)


def used(circuit, x, spec, kind):
    """The same circuit after its first pass, which makes its buffers."""
    with torch.no_grad():
        circuit(x if kind == "mini_batch" else x.chunk(2)[0])
    return circuit, x, spec, kind


def em_by_hand(circuit, x, spec, kind):
    """In place, flows too, by autograd through the circuit written by hand."""
    flat, flows = circuit.parameters_flat.detach(), circuit.flows
    model = as_hand(flat, spec, circuit.plan)
    places = as_hand(torch.arange(len(flat), dtype=torch.float64), spec, circuit.plan)
    for theta in model.parameters:
        theta.requires_grad_()
    values = model.log_likelihood(x)
    gradients = torch.autograd.grad(values.sum(), model.parameters)
    for place, theta, gradient in zip(places.parameters, model.parameters, gradients):
        flow, index = theta.detach() * gradient, place.long()
        counts = flow + 0.1 / flow.shape[-1]
        new = counts / counts.sum(-1, keepdim=True)
        flows[index] = flow
        flat[index] = theta.detach().lerp(new, 0.5) if kind == "mini_batch" else new
    return values.detach() if kind == "mini_batch" else float(values.sum())


@pytest.mark.parametrize("kind", ["mini_batch", "full_batch"])
@pytest.mark.perf_backends(torch=subject(em, prepare=used))
def test_em(perf, spec, kind, backend):
    """What a step returns, the flows, and the parameters that it changes."""

    def inputs(generator):
        seed = int(torch.randint(1 << 20, (), generator=generator))
        return circuits.compile(root_of(spec), seed=seed), *draw(spec)(generator), kind

    case = PerfCase(inputs=inputs, reference=em_by_hand, mutates=(0,), rtol=1e-4, atol=1e-7)
    perf(backend, case=case)


@pytest.mark.parametrize("spec", [SPECS[0], SPECS[2], Spec("hmm", 500, 8, 1)], ids=str)
def test_compile(perf, spec):
    """From a node graph to a circuit; judged by its number of parameters."""
    root = root_of(spec)
    expected = compiled(spec).plan.num_parameters

    def check(output, seed):
        return output.numel() == expected or f"{output.numel()} parameters, not {expected}"

    perf(
        lambda seed: circuits.compile(root, seed=seed).parameters_flat.detach(),
        inputs=lambda generator: (int(torch.randint(100, (), generator=generator)),),
        check=check,
    )
