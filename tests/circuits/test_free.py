"""Parameters without constraints: the same circuit, the right gradient, and optimizers."""

import pytest
import torch

from rightfast import circuits
from rightfast.circuits import FreeParameters, Gaussian, compile
from rightfast.circuits.nodes import SumNodes

from .common import STRUCTURES, assert_close, build, dense, oracle, root_of


@pytest.mark.parametrize("name", STRUCTURES)
def test_it_starts_at_the_circuit_and_has_its_gradient(name):
    circuit, x = build(name)
    values = circuit(x).detach()
    free = FreeParameters(circuit)
    assert_close(free.constrained().detach(), circuit.parameters_flat.detach())
    found = free(x)
    assert_close(found.detach(), values)
    (gradient,) = torch.autograd.grad(found.sum(), free.free)
    exact = root_of(circuit, oracle(circuit, x, theta=free.constrained())).sum()
    assert_close(gradient, torch.autograd.grad(exact, free.free)[0])


@pytest.mark.parametrize("name", ["ragged", "logistic", "bernoulli", "gaussian"])
def test_adam_learns_and_stays_on_the_simplex(name):
    if name == "gaussian":
        root = circuits.hclt(parents=[-1, 0, 1], num_latents=2, dist=Gaussian())
        circuit = compile(root, dtype=torch.float64)
        x = 3 + torch.randn(50, 3, generator=torch.Generator().manual_seed(0)).double()
    else:
        circuit, x = build(name)
        x = x[: len(x) // 3]
    free = FreeParameters(circuit)
    missing = torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.1
    optimizer = torch.optim.Adam(free.parameters(), lr=0.05)
    before = float(circuit(x, missing_mask=missing).detach().mean())
    for _ in range(30):
        optimizer.zero_grad()
        (-free(x, missing).mean()).backward()
        optimizer.step()
    assert [n for n, p in free.named_parameters() if p.requires_grad] == ["free"]
    free.write()
    assert float(circuit(x, missing_mask=missing).detach().mean()) > before + 0.1
    for place in circuit.plan.placements:
        if isinstance(place.owner, SumNodes):
            own = circuit.parameters_flat.detach()[circuit.place(place.owner)]
            totals = dense(place.owner, own).sum(1)
            assert_close(totals, torch.ones_like(totals))


def test_zeros_become_small_and_stay_finite():
    circuit, x = build("hclt-tree", zeros=True, share=0.6)
    possible = x[circuit(x).detach().isfinite()]
    free = FreeParameters(circuit)
    (-free(possible).mean()).backward()
    assert free.free.grad.isfinite().all()
