"""Expectation-maximisation: the update itself, ties, zeros, and that likelihoods only rise."""

import itertools

import pytest
import torch

from rightfast import circuits
from rightfast.circuits import (
    Bernoulli,
    Categorical,
    DiscretizedLogistic,
    Gaussian,
    compile,
    inputs,
    multiply,
    summate,
)
from rightfast.circuits.nodes import InputNodes, SumNodes
from rightfast.circuits.structures import hclt, hmm

from .common import BINARY, STRUCTURES, assert_close, build, dense

every = pytest.mark.parametrize("name", STRUCTURES)


def run(circuit, x, weights=None):
    circuit(x)
    circuit.zero_flows()
    circuit.backward(weights)


def owners(circuit, kind=SumNodes):
    return [place.owner for place in circuit.plan.placements if isinstance(place.owner, kind)]


@pytest.mark.parametrize("name", ["hmm", "pd", "ragged", "crossed", "shared", "scrambled"])
@pytest.mark.parametrize("step_size", [1.0, 0.3])
@pytest.mark.parametrize("pseudocount", [0.0, 0.7])
@pytest.mark.parametrize("keep", [True, False])
def test_sums_take_the_formula(name, step_size, pseudocount, keep):
    circuit, x = build(name, zeros=True)
    run(circuit, x[: max(1, len(x) // 3)])
    old, flows = circuit.parameters_flat.detach().clone(), circuit.flows.clone()
    circuits.em_step(circuit, step_size, pseudocount, keep)
    for owner in owners(circuit):
        place = circuit.place(owner)
        theta, flow = dense(owner, old[place]), dense(owner, flows[place])
        edges = dense(owner, torch.ones_like(old[place])) > 0
        if keep:
            edges &= theta > 0
        extra = pseudocount * edges.double() / edges.sum(1, keepdim=True)
        total = flow.sum(1, keepdim=True) + pseudocount
        target = torch.where(total > 0, (flow + extra) / total, theta)
        expected = (1 - step_size) * theta + step_size * target
        found = dense(owner, circuit.parameters_flat.detach()[place])
        assert_close(found, expected)
        assert_close(found.sum(1), torch.ones(len(found)).double())


@pytest.mark.parametrize("categories", [3, 300, 5000])
def test_rows_of_many_categories_keep_their_zeros_and_their_sum(categories):
    leaf = inputs(0, 4, Categorical(categories))
    weights = torch.rand(4, categories, generator=torch.Generator().manual_seed(0)) - 0.4
    weights = weights.clamp(min=0).double()
    leaf.set_parameters(weights / weights.sum(1, keepdim=True))
    circuit = compile(summate(leaf, num_nodes=1))
    for pseudocount in (0.0, 0.1, 10.0):
        run(circuit, torch.randint(categories, (50, 1), generator=torch.Generator().manual_seed(1)))
        circuits.em_step(circuit, 0.5, pseudocount, keep_zero_params=True)
        found = circuit.parameters_flat.detach()[circuit.place(leaf)].view(4, -1)
        assert (found[weights == 0] == 0).all()
        torch.testing.assert_close(found.sum(1), torch.ones(4), rtol=1e-5, atol=0)


def test_nodes_without_flow_keep_their_parameters():
    first, second = (inputs(0, 2, Categorical(3)) for _ in range(2))
    unused = summate(second, num_nodes=2)
    root = summate(summate(first, num_nodes=2), unused, num_nodes=1)
    root.set_parameters(torch.tensor([[0.5, 0.5, 0.0, 0.0]]))
    circuit = compile(root, dtype=torch.float64)
    before = circuit.parameters_flat.detach().clone()
    run(circuit, torch.tensor([[0], [1], [1]]))
    circuits.em_step(circuit)
    after = circuit.parameters_flat.detach()
    assert after.isfinite().all()
    for node in (unused, second):
        assert torch.equal(after[circuit.place(node)], before[circuit.place(node)])
    assert not torch.equal(after[circuit.place(first)], before[circuit.place(first)])


def test_tied_copies_add_their_flows():
    """A tied model takes the mean of what an untied one with equal parameters would."""
    tied = compile(hmm(4, 2, BINARY), dtype=torch.float64)
    loose_root = hmm(4, 2, BINARY, homogeneous=False)
    start, transition, emission = (
        next(o for o in owners(tied) if o.num_nodes == 1),
        next(o for o in owners(tied) if o.num_nodes == 2),
        owners(tied, InputNodes)[0],
    )
    flat = tied.parameters_flat.detach().clone()
    loose = compile(loose_root, dtype=torch.float64)
    with torch.no_grad():
        for place in loose.plan.placements:
            model = {1: start, 2: transition}.get(place.owner.num_nodes)
            model = emission if isinstance(place.owner, InputNodes) else model
            target = loose.parameters_flat[place.offset : place.offset + place.size]
            target.copy_(flat[tied.place(model)])
    x = torch.randint(2, (30, 4), generator=torch.Generator().manual_seed(0))
    run(tied, x)
    run(loose, x)
    for model, kind, size in ((transition, SumNodes, 2), (emission, InputNodes, 2)):
        copies = [o for o in owners(loose, kind) if o.num_nodes == size]
        total = sum(loose.flows[loose.place(copy)] for copy in copies)
        assert_close(tied.flows[tied.place(model)], total)


@every
def test_full_batch_likelihood_never_falls(name):
    circuit, x = build(name, zeros=name in ("hmm", "ragged"))
    generator = torch.Generator().manual_seed(0)
    data = x[torch.randint(len(x), (60,), generator=generator)]
    data = data[circuit(data).detach().isfinite()]
    last = -torch.inf
    for _ in range(12):
        value = circuits.full_batch_em(circuit, data.split(25))
        assert value >= last - 1e-9
        last = value
    assert circuit.parameters_flat.isfinite().all()


@pytest.mark.parametrize(
    "dist", [Gaussian(), Bernoulli(), DiscretizedLogistic(8), Categorical(8)], ids=str
)
@pytest.mark.parametrize("missing_share", [0.0, 0.3])
def test_it_never_falls_for_any_leaf(dist, missing_share):
    circuit = compile(hclt(parents=[-1, 0, 1], num_latents=3, dist=dist), dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.randn(80, 3, generator=generator).double() + 1
    if dist.num_categories is not None:
        x = x.round().long().clamp(0, dist.num_categories - 1)
    missing = torch.rand(x.shape, generator=generator) < missing_share
    values = [circuits.full_batch_em(circuit, [(x, missing)]) for _ in range(15)]
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(values))
    assert values[-1] > values[0]


def test_a_small_step_of_a_gaussian_raises_the_likelihood():
    circuit = compile(hclt(parents=[-1, 0], num_latents=2, dist=Gaussian()), dtype=torch.float64)
    x = torch.randn(50, 2, generator=torch.Generator().manual_seed(0)).double() * 3
    before = float(circuit(x).detach().mean())
    circuits.mini_batch_em(circuit, x, step_size=0.1)
    assert float(circuit(x).detach().mean()) > before


def test_weights_count_as_repetitions():
    x = torch.randint(2, (20, 6), generator=torch.Generator().manual_seed(0))
    times = torch.arange(20) % 4
    weighted, _ = build("pd")
    repeated, _ = build("pd")
    circuits.mini_batch_em(weighted, x, step_size=1.0, weights=times)
    circuits.mini_batch_em(repeated, x.repeat_interleave(times, 0), step_size=1.0)
    assert_close(weighted.parameters_flat.detach(), repeated.parameters_flat.detach())


def test_mini_batches_learn():
    circuit = compile(hmm(6, 4, BINARY))
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(2, (200, 1), generator=generator).expand(200, 6).contiguous()
    before = float(circuit(x).detach().mean())
    for _ in range(10):
        for batch in x.split(50):
            values = circuits.mini_batch_em(circuit, batch, step_size=0.3, pseudocount=0.01)
            assert values.shape == (50,)
    assert float(circuit(x).detach().mean()) > before + 0.2


def test_impossible_samples_change_nothing():
    circuit, x = build("hmm", zeros=True, share=0.6)
    impossible = x[~circuit(x).detach().isfinite()]
    before = circuit.parameters_flat.detach().clone()
    circuits.mini_batch_em(circuit, impossible, step_size=1.0)
    assert torch.equal(circuit.parameters_flat.detach(), before)


def test_bad_numbers_are_refused():
    circuit, _ = build("hmm")
    for step_size in (0, -1, 1.5, float("nan")):
        with pytest.raises(ValueError, match="step_size"):
            circuits.em_step(circuit, step_size)
    with pytest.raises(ValueError, match="pseudocount"):
        circuits.em_step(circuit, 1.0, -0.1)
    with pytest.raises(ValueError, match="no batch"):
        circuits.full_batch_em(circuit, iter([]))


def test_one_product_over_all_kinds_of_leaves():
    leaves = [Gaussian(), Bernoulli(), DiscretizedLogistic(4), Categorical(3)]
    root = summate(multiply(*(inputs(v, 2, d) for v, d in enumerate(leaves))), num_nodes=1)
    circuit = compile(root, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    x = torch.stack(
        [
            torch.randn(40, generator=generator).double(),
            *(torch.randint(n, (40,), generator=generator).double() for n in (2, 4, 3)),
        ],
        1,
    )
    values = [circuits.full_batch_em(circuit, [x]) for _ in range(8)]
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(values))
