"""Families in pieces of any size, and passes after other passes, give the same results."""

import pytest
import torch

from rightfast import circuits
from rightfast.circuits import binding, compile

from .common import STRUCTURES, assert_close, build


def everything(circuit, x):
    """What passes and queries give, one tensor each."""
    missing = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.4
    found = [circuit(x).detach()]
    rows = circuit.backward().rows[2:]
    found += [rows, circuit.flows.clone()]
    circuit(x, missing_mask=missing)
    found.append(circuit.backward(log_space=True).rows[2:].exp())
    found.append(torch.autograd.grad(circuit(x).sum(), circuit.parameters_flat)[0])
    found.append(circuit(x, "mpe").detach())
    circuit.zero_flows()
    circuit.backward()
    found.append(circuit.flows.clone())
    found.append(circuits.marginal(circuit, x, missing))
    found += [*circuits.mpe(circuit, x, missing), circuits.sample(circuit, 20, 1)]
    circuit.zero_flows()
    circuit(x, temperature=2.0)
    circuit.backward()
    return [*found, circuit.flows.clone()]


@pytest.mark.parametrize("chunk", [1, 400, 3000])
@pytest.mark.parametrize("name", STRUCTURES)
def test_pieces_of_any_size(name, chunk, monkeypatch):
    circuit, x = build(name, zeros=True)
    x = x[:40]
    whole = everything(circuit, x)
    monkeypatch.setattr(binding, "CHUNK", chunk)
    cut, _ = build(name, zeros=True)
    found = everything(cut, x)
    if chunk == 1:
        groups = [piece.groups for piece in cut.state.bound.pieces]
        assert set(groups) == {1}
    # Samples of other pieces take their random numbers in another order.
    for a, b in zip(found[:9] + found[11:], whole[:9] + whole[11:]):
        assert_close(a, b)
    assert circuit(found[10]).isfinite().all()


def test_a_layer_that_needs_several_pieces_by_itself():
    circuit = compile(
        circuits.hclt(parents=[-1, *([0] * 99)], num_latents=24, dist=circuits.Categorical(3))
    )
    exact = compile(circuit.plan.order[-1], dtype=torch.float64)
    x = torch.randint(3, (150, 100), generator=torch.Generator().manual_seed(0))
    for one in (circuit, exact):
        assert_close(one(x).detach().double(), exact(x).detach(), 1e-5)
        one(x)
        one.backward()
    assert len(circuit.state.bound.pieces) > 2
    assert_close(circuit.flows.double(), exact.flows, 1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_a_pass_met_changes_no_later_result(dtype):
    """Impossible data, then values far apart: the next pass starts with more care, no more."""
    circuit, x = build("hmm", zeros=True, share=0.6, dtype=dtype)
    possible = x[circuit(x).detach().isfinite()]
    fresh, _ = build("hmm", zeros=True, share=0.6, dtype=dtype)
    expected = fresh(possible).detach()
    fresh.backward()
    for before in (x, possible, x[:3], x):
        circuit(before)
        circuit.zero_flows()
        assert_close(circuit(possible).detach(), expected, 1e-6)
        circuit.backward()
        assert_close(circuit.flows, fresh.flows, 1e-5)


def test_views_go_before_a_larger_batch_moves_the_buffers():
    circuit, x = build("hclt-tree")
    addresses, sizes = [], []
    for batch in (8, 3, 40, 8, 3):
        circuit(x[:batch])
        addresses.append(circuit.state.n.data_ptr())
        sizes.append(len(circuit.state.workspace))
    assert sizes == [1, 2, 1, 2, 3]
    assert addresses[0] == addresses[1]
    assert addresses[2] == addresses[3] == addresses[4]


def test_training_after_inference_mode():
    circuit, x = build("hclt-tree")
    fresh, _ = build("hclt-tree")
    with torch.inference_mode():
        circuit(x)
    for one in (circuit, fresh):
        one(x).sum().backward()
        circuits.mini_batch_em(one, x, step_size=0.5)
    assert_close(circuit.parameters_flat.grad, fresh.parameters_flat.grad)
    assert_close(circuit.parameters_flat, fresh.parameters_flat)
