"""Log-likelihoods by brute force, of every structure."""

import pytest
import torch

from rightfast.circuits import Categorical, Gaussian, compile, inputs, multiply, summate
from rightfast.circuits.structures import hclt, hmm

from .common import STRUCTURES, assert_close, build, oracle, root_of

every = pytest.mark.parametrize("name", STRUCTURES)
zeros = pytest.mark.parametrize("with_zeros", [False, True], ids=["positive", "zeros"])

OPTIONS = [
    {"algorithm": "mpe"},
    {"algorithm": "general_ll", "alpha": 2.5},
    {"algorithm": "general_ll", "alpha": 0.5},
    {"temperature": 3.0},
]


@every
@zeros
def test_likelihoods_equal_the_oracle_and_sum_to_one(name, with_zeros):
    circuit, x = build(name, zeros=with_zeros)
    found = circuit(x)
    assert_close(found.detach(), root_of(circuit, oracle(circuit, x)))
    assert abs(float(found.detach().exp().sum()) - 1) < 1e-10


@every
def test_float32_is_that_of_float64(name):
    circuit, x = build(name, dtype=torch.float32)
    exact, _ = build(name)
    assert_close(circuit(x).detach().double(), exact(x).detach(), 1e-5)


@every
@pytest.mark.parametrize("with_zeros", [True])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_other_algorithms(name, with_zeros, options):
    circuit, x = build(name, zeros=with_zeros)
    expected = {k: v for k, v in options.items() if k != "temperature"}
    found = circuit(x, **options).detach()
    assert_close(found, root_of(circuit, oracle(circuit, x, **expected)))


@every
@pytest.mark.parametrize("with_zeros", [True])
def test_missing_values_are_summed_out(name, with_zeros):
    circuit, x = build(name, zeros=with_zeros)
    missing = torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.5
    values = circuit(x).detach()
    same = ((x[:, None] == x[None]) | missing[:, None]).all(2)  # completions of every row
    expected = torch.where(same, values, -torch.inf).logsumexp(1)
    assert_close(circuit(x, missing_mask=missing).detach(), expected)
    top = circuit(x, "mpe", missing_mask=missing).detach()
    assert_close(top, root_of(circuit, oracle(circuit, x, algorithm="mpe", missing=missing)))


@every
def test_all_missing_has_probability_one(name):
    circuit, x = build(name)
    for mask in (torch.ones_like(x, dtype=torch.bool), torch.ones(x.shape[1], dtype=torch.bool)):
        assert_close(circuit(x, missing_mask=mask).detach(), torch.zeros(len(x)).double())


def test_a_mask_hides_any_value():
    circuit, x = build("hmm")
    hidden = x.clone()
    hidden[:, 1] = -1
    mask = hidden == -1
    assert_close(
        circuit(hidden, missing_mask=mask).detach(), circuit(x, missing_mask=mask).detach()
    )


def test_gaussian_leaves():
    circuit = compile(hclt(parents=[-1, 0, 1], num_latents=3, dist=Gaussian()), dtype=torch.float64)
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)).double()
    assert_close(circuit(x).detach(), root_of(circuit, oracle(circuit, x)))
    missing = torch.tensor([False, True, False])
    expected = root_of(circuit, oracle(circuit, x, missing=missing.expand(x.shape)))
    assert_close(circuit(x, missing_mask=missing).detach(), expected)


def test_general_ll_with_alpha_1_is_ll():
    circuit, x = build("hclt-tree")
    assert_close(circuit(x, "general_ll").detach(), circuit(x).detach())


@pytest.mark.parametrize(
    "sizes", [[1, 7, 32, 16, 32], [32, 16, 32], [3, 0, 3], [500, 1, 500]], ids=str
)
def test_batches_of_any_size_in_turn(sizes):
    circuit, x = build("hclt-tree", dtype=torch.float32)
    exact, _ = build("hclt-tree")
    generator = torch.Generator().manual_seed(0)
    for size in sizes:
        batch = x[torch.randint(len(x), (size,), generator=generator)]
        found = circuit(batch)
        assert found.shape == (size,)
        assert_close(found.detach().double(), exact(batch).detach(), 1e-5)


def test_a_result_outlives_later_calls():
    circuit, x = build("pd")
    first = circuit(x[:8]).detach()
    kept = first.clone()
    for start in range(8, 64, 8):
        circuit(x[start : start + 8])
    assert torch.equal(first, kept)


def test_a_chain_of_500_variables():
    circuit = compile(hmm(500, 3, Categorical(2)), dtype=torch.float32)
    exact = compile(hmm(500, 3, Categorical(2)), dtype=torch.float64)
    x = torch.randint(2, (4, 500), generator=torch.Generator().manual_seed(0))
    assert len(circuit.plan.layers) == 500
    assert_close(circuit(x).detach().double(), exact(x).detach(), 1e-5)
    assert len(exact.plan.placements) == 3
    assert_close(exact(x).detach(), by_matrices(exact, x))


def by_matrices(circuit, x):
    """The forward algorithm of a hidden Markov model with rescaling."""
    flat = circuit.parameters_flat.detach()
    places = sorted(circuit.plan.placements, key=lambda place: place.size)
    start, emission, transition = (flat[p.offset : p.offset + p.size] for p in places)
    state = start.expand(len(x), 3) * emission.view(3, 2).T[x[:, 0]]
    total = torch.zeros(len(x)).double()
    for t in range(1, x.shape[1]):
        state = (state @ transition.view(3, 3)) * emission.view(3, 2).T[x[:, t]]
        scale = state.sum(1, keepdim=True)
        total += scale.log().squeeze(1)
        state = state / scale
    return total + state.sum(1).log()


def test_300_categories():
    circuit = compile(hmm(3, 4, Categorical(300)), dtype=torch.float64)
    x = torch.randint(300, (50, 3), generator=torch.Generator().manual_seed(0))
    assert_close(circuit(x).detach(), root_of(circuit, oracle(circuit, x)))


def test_a_sum_is_minus_infinity_only_if_it_is_impossible():
    """A child with theta = 0, 1000 nats above the only one that counts."""
    leaf = inputs(0, 2, Gaussian()).set_parameters(torch.tensor([[0.0, 1.0], [60.0, 1.0]]))
    other = inputs(1, 2, Gaussian()).set_parameters(torch.tensor([[0.0, 1.0], [0.0, 1.0]]))
    inner = summate(leaf, num_nodes=2).set_parameters(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    root = summate(multiply(inner, other), num_nodes=1).set_parameters(torch.tensor([[1.0, 0.0]]))
    for dtype in (torch.float32, torch.float64):
        circuit = compile(root, dtype=dtype)
        x = torch.zeros(1, 2, dtype=dtype)
        expected = -1800 - torch.log(torch.tensor(2 * torch.pi))
        torch.testing.assert_close(circuit(x).detach()[0].float(), expected)
        circuit(x).sum().backward()
        assert circuit.parameters_flat.grad.isfinite().all()
