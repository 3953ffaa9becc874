"""Probabilistic circuits at CPU sizes: forward, gradient, EM, batches of varying size, compiling.

Ours is judged in float64, node by node (circuits_by_definition.py). Beside it are timed the circuit
written by hand (circuits_by_hand.py), what a user would otherwise write, and cirkit and SPFlow if
they are installed (circuits_by_peers.py). RIGHTFAST_LARGE=1 adds the larger circuits.
"""

import functools
import os
from dataclasses import dataclass

import pytest
import torch

from pytest_rightfast import PerfCase, Unsupported, peer, subject
from rightfast import circuits

from . import circuits_by_definition as by_definition
from . import circuits_by_hand as by_hand
from . import circuits_by_peers as by_peers


@dataclass(frozen=True)
class Spec:
    """One circuit and a batch size."""

    kind: str
    variables: int
    latents: int
    batch: int

    def __str__(self) -> str:
        return f"{self.kind}{self.variables}-{self.latents}-batch{self.batch}"


SPECS = [
    Spec("hmm", 32, 64, 16),
    Spec("hmm", 32, 64, 128),
    Spec("untied-hmm", 32, 64, 16),
    Spec("hclt", 64, 64, 128),
    Spec("pd", 256, 16, 16),
    Spec("rat", 64, 16, 16),
]
LARGE = [
    Spec("hmm", 32, 256, 16),
    Spec("hmm", 32, 256, 128),
    Spec("hclt", 784, 32, 16),
    Spec("hclt", 784, 32, 128),
    Spec("pd", 784, 64, 16),
    Spec("rat", 784, 32, 16),
]
EVERY = [*SPECS, *(LARGE if os.environ.get("RIGHTFAST_LARGE") else [])]
CATEGORIES = 256


def root_of(spec):
    dist = circuits.Categorical(CATEGORIES)
    if spec.kind in ("hmm", "untied-hmm"):
        tied = spec.kind == "hmm"
        return circuits.hmm(spec.variables, spec.latents, dist, homogeneous=tied)
    if spec.kind == "pd":
        side = round(spec.variables**0.5)
        return circuits.pd((side, side), spec.latents, dist, split_intervals=4)
    if spec.kind == "rat":
        return circuits.rat_spn(spec.variables, spec.latents, dist, depth=4, num_repetitions=4)
    tree = by_hand.random_tree(spec.variables)
    return circuits.hclt(parents=tree, num_latents=spec.latents, dist=dist)


@functools.cache
def compiled(spec):
    return circuits.compile(root_of(spec))


@functools.cache
def hand(spec):
    """The circuit written by hand, with the same parameters."""
    return as_hand(compiled(spec).parameters_flat.detach(), spec)


def as_hand(flat, spec):
    if spec.kind not in ("hmm", "hclt"):
        raise Unsupported("written by hand are HMMs with shared tables, and trees")
    twin = circuits.Circuit(compiled(spec).plan, flat)
    if spec.kind == "hmm":
        return by_hand.HMM.from_circuit(twin)
    return by_hand.HCLT.from_circuit(twin, by_hand.random_tree(spec.variables))


@functools.cache
def built_by(name, spec):
    """A peer's circuit, with the same parameters."""
    if spec.kind in ("pd", "rat"):
        raise Unsupported("translated are chains and trees")
    return getattr(by_peers, name)(by_peers.untied(compiled(spec)))


def draw(spec):
    def inputs(generator):
        x = torch.randint(CATEGORIES, (spec.batch, spec.variables), generator=generator)
        return x, spec

    return inputs


def forward(x, spec):
    with torch.no_grad():
        return compiled(spec)(x)


def forward_by_hand(x, spec):
    with torch.no_grad():
        return hand(spec).log_likelihood(x)


def forward_by(name):
    def run(x, spec):
        pytest.importorskip(name, exc_type=ImportError)
        with torch.no_grad():
            return built_by(name, spec).forward(x)

    return peer(run)


def gradient(x, spec):
    """Of the mean log-likelihood by every parameter."""
    circuit = compiled(spec)
    return torch.autograd.grad(circuit(x).mean(), circuit.parameters_flat)[0]


def gradient_by_hand(x, spec):
    return list(by_hand.step(hand(spec), x)[1])


@pytest.fixture(params=EVERY, ids=str)
def spec(request):
    return request.param


# The data are whole numbers and the parameters the circuits' own, so the reference takes its
# float64 from there, and answers become float64 to be judged.


@pytest.mark.perf_backends(
    torch=forward,
    by_hand=peer(forward_by_hand),
    cirkit=forward_by("cirkit"),
    spflow=forward_by("spflow"),
)
def test_forward(perf, spec, backend):
    def reference(x, spec):
        return by_definition.log_likelihood(compiled(spec), x).detach()

    case = PerfCase(
        inputs=draw(spec), reference=reference, output=torch.Tensor.double, rtol=1e-6, vary=False
    )
    perf(backend, case=case)


@pytest.mark.perf_backends(torch=gradient, by_hand=peer(gradient_by_hand))
def test_gradient(perf, spec, backend):
    def flat(found):
        if torch.is_tensor(found):
            return found.double()
        count = compiled(spec).plan.num_parameters
        places = as_hand(torch.arange(count, dtype=torch.float64), spec).parameters
        out = torch.empty(count, dtype=torch.float64)
        for place, part in zip(places, found):
            out[place.long()] = part.double()
        return out

    def reference(x, spec):
        theta = compiled(spec).parameters_flat.double().detach().requires_grad_()
        values = by_definition.log_likelihood(compiled(spec), x, theta)
        return torch.autograd.grad(values.mean(), theta)[0]

    case = PerfCase(
        inputs=draw(spec), reference=reference, output=flat, rtol=1e-4, atol=1e-7, vary=False
    )
    perf(backend, case=case)


def em(circuit, x, kind):
    """A whole step on the batch, or on two halves of it together."""
    if kind == "mini_batch":
        return circuits.mini_batch_em(circuit, x, step_size=0.5, pseudocount=0.1)
    return circuits.full_batch_em(circuit, x.chunk(2), pseudocount=0.1)


def used(circuit, x, kind):
    """The same circuit after its first pass, which makes its buffers."""
    with torch.no_grad():
        circuit(x if kind == "mini_batch" else x.chunk(2)[0])
    return circuit, x, kind


def em_by_definition(circuit, x, kind):
    """In place, flows too: theta times the gradient."""
    flat = circuit.parameters_flat.detach()
    theta = flat.clone().requires_grad_()
    values = by_definition.log_likelihood(circuit, x, theta)
    flow = theta.detach() * torch.autograd.grad(values.sum(), theta)[0]
    circuit.flows.copy_(flow)
    for place in circuit.plan.placements:
        part = slice(place.offset, place.offset + place.size)
        counts = flow[part].view(place.owner.num_nodes, -1)
        counts = counts + 0.1 / counts.shape[-1]
        new = (counts / counts.sum(-1, keepdim=True)).view(-1)
        flat[part] = flat[part].lerp(new, 0.5) if kind == "mini_batch" else new
    return values.detach() if kind == "mini_batch" else float(values.sum())


@pytest.mark.parametrize("kind", ["mini_batch", "full_batch"])
@pytest.mark.perf_backends(torch=subject(em, prepare=used))
def test_em(perf, spec, kind, backend):
    """What a step returns, the flows, and the parameters that it changes."""

    def inputs(generator):
        seed = int(torch.randint(1 << 20, (), generator=generator))
        x, _ = draw(spec)(generator)
        return circuits.compile(root_of(spec), seed=seed), x, kind

    case = PerfCase(inputs=inputs, reference=em_by_definition, mutates=(0,), rtol=1e-4, atol=1e-7)
    perf(backend, case=case)


def test_varying_batch(perf):
    """Log-likelihood and gradient of 17 batches, each of another size between 10 and 26."""
    spec = SPECS[0]
    circuit = compiled(spec)

    def inputs(generator):
        sizes = (10 + torch.randperm(17, generator=generator)).tolist()
        x = torch.randint(CATEGORIES, (sum(sizes), spec.variables), generator=generator)
        return x, sizes

    def steps(x, sizes):
        found = []
        for batch in x.split(sizes):
            values = circuit(batch)
            torch.autograd.grad(values.mean(), circuit.parameters_flat)
            found.append(values.detach())
        return torch.cat(found)

    def reference(x, sizes):
        return by_definition.log_likelihood(circuit, x).detach()

    case = PerfCase(
        inputs=inputs, reference=reference, output=torch.Tensor.double, rtol=1e-6, vary=False
    )
    perf(steps, case=case)


@pytest.mark.parametrize("spec", [SPECS[0], *SPECS[3:], Spec("hmm", 500, 8, 1)], ids=str)
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
