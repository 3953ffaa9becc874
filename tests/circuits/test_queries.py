"""Marginals, conditionals, decoding and samples, by brute force."""

import pytest
import torch

from rightfast import circuits
from rightfast.circuits import Categorical, Gaussian, compile, inputs, multiply, summate
from rightfast.circuits.nodes import SumNodes

from .common import BINARY, CASES, STRUCTURES, assert_close, build, dense, oracle, root_of

every = pytest.mark.parametrize("name", STRUCTURES)
zeros = pytest.mark.parametrize(("name", "with_zeros"), CASES)


def half_missing(x):
    return torch.rand(x.shape, generator=torch.Generator().manual_seed(5)) < 0.5


def completions(x, missing):
    """[batch, batch]: whether row j of all assignments completes row i."""
    return ((x[:, None] == x[None]) | missing[:, None]).all(2)


@zeros
def test_marginals(name, with_zeros):
    circuit, x = build(name, zeros=with_zeros)
    missing = half_missing(x)
    values = circuit(x).detach()
    expected = torch.where(completions(x, missing), values, -torch.inf).logsumexp(1)
    assert_close(circuits.marginal(circuit, x, missing), expected)


@zeros
def test_conditionals(name, with_zeros):
    circuit, x = build(name, zeros=with_zeros)
    missing = half_missing(x)
    joint = circuit(x).detach().exp()
    weights = torch.where(completions(x, missing), joint, 0)
    possible = weights.sum(1) > 0
    categories = int(x.max()) + 1
    one_hot = torch.nn.functional.one_hot(x, categories).double()
    expected = torch.einsum("ij,jvk->ivk", weights, one_hot) / weights.sum(1)[:, None, None]
    found = circuits.conditional(circuit, x, missing)
    assert_close(found[possible], expected[possible])
    assert found[~possible].isnan().all()
    last = circuit.num_variables - 1
    assert_close(
        circuits.conditional(circuit, x, missing, [last])[possible, 0], found[possible, last]
    )


@zeros
def test_decoding_attains_the_max_product_value(name, with_zeros):
    """The value is the largest over all completions and latent choices; so is that of the values
    decoded, taken as evidence; what was given is unchanged."""
    circuit, x = build(name, zeros=with_zeros)
    missing = half_missing(x)
    found, value = circuits.mpe(circuit, x, missing)
    best = root_of(circuit, oracle(circuit, x, algorithm="mpe"))
    expected = torch.where(completions(x, missing), best, -torch.inf).amax(1)
    assert_close(value, expected)
    possible = value.isfinite()
    assert (found[~possible] == -1).all()
    assert torch.equal(found[possible][~missing[possible]], x[possible][~missing[possible]])
    assert_close(circuit(found[possible], "mpe").detach(), value[possible])
    assert (circuit(found[possible]).detach() >= value[possible] - 1e-9).all()


def test_ties_go_one_way():
    """Equal maxima: the flow is not handed on twice, and what is decoded attains the value."""
    circuit, x = build("hmm")
    torch.nn.init.constant_(circuit.parameters_flat, 1 / 3)
    values = circuit(x, "mpe").detach()
    rows = circuit.backward().rows
    leaves = slice(2, circuit.plan.num_input_rows)
    assert_close(rows[leaves].sum(0), torch.full((len(x),), 4.0).double())
    assert set(rows[leaves].unique().tolist()) == {0, 1}
    found, best = circuits.mpe(circuit, x, torch.ones_like(x).bool())
    assert_close(circuit(found, "mpe").detach(), best)
    assert_close(best, values)


def test_decoding_is_exact_where_the_circuit_is_deterministic():
    """A mixture over the first variable, whose value decides the component."""
    certain = inputs(0, 3, Categorical(3)).set_parameters(torch.eye(3))
    others = [inputs(v, 3, BINARY) for v in range(1, 5)]
    circuit = compile(summate(multiply(certain, *others), num_nodes=1), dtype=torch.float64, seed=4)
    x = circuits.sample(circuit, 40, 0)
    missing = half_missing(x)
    found, value = circuits.mpe(circuit, x, missing)
    every_x = torch.cartesian_prod(torch.arange(3), *[torch.arange(2)] * 4)
    fits = ((x[:, None] == every_x[None]) | missing[:, None]).all(2)
    best = torch.where(fits, circuit(every_x).detach(), -torch.inf).max(1)
    assert_close(value, best.values)
    assert_close(circuit(found).detach(), best.values)


@every
def test_samples_follow_the_distribution(name):
    circuit, x = build(name, zeros=True, dtype=torch.float32)
    count = 4000
    found = circuits.sample(circuit, count, torch.Generator().manual_seed(0))
    assert_frequencies(found, x, circuit(x).detach().double().exp(), count)


@every
def test_conditional_samples_follow_the_posterior(name):
    circuit, x = build(name, zeros=True)
    missing = half_missing(x)[:1]
    given = x[circuit(x).detach().argmax()][None]
    probability = torch.where(completions_of(given, missing, x), circuit(x).detach().exp(), 0)
    probability = probability / probability.sum()
    count = 4000
    found = circuits.conditional_sample(circuit, given.expand(count, -1), missing[0], 7)
    assert_frequencies(found, x, probability, count)


def completions_of(given, missing, x):
    return ((given == x) | missing).all(1)


def assert_frequencies(found, x, probability, count):
    """Pearson's chi-squared within six deviations; what has probability 0 never occurs."""
    base = int(x.max()) + 1
    power = base ** torch.arange(x.shape[1])
    place = {int(key): i for i, key in enumerate((x * power).sum(1))}
    keys, counts = (found * power).sum(1).unique(return_counts=True)
    observed = torch.zeros(len(x)).double()
    for key, number in zip(keys.tolist(), counts.tolist()):
        observed[place[key]] = number
    assert observed[probability == 0].sum() == 0
    expected = probability[probability > 0] * count
    statistic = ((observed[probability > 0] - expected) ** 2 / expected).sum()
    freedom = len(expected) - 1
    spread = (2 * freedom + (1 / expected).sum()) ** 0.5
    assert statistic <= freedom + 6 * spread


def test_seeds_and_generators():
    circuit, _ = build("pd")
    first = circuits.sample(circuit, 50, 3)
    assert torch.equal(first, circuits.sample(circuit, 50, 3))
    generator = torch.Generator().manual_seed(3)
    assert torch.equal(first, circuits.sample(circuit, 50, generator))
    assert not torch.equal(first, circuits.sample(circuit, 50, generator))
    state = torch.get_rng_state()
    circuits.sample(circuit, 5, 0)
    assert torch.equal(state, torch.get_rng_state())
    assert circuits.sample(circuit, 0, 0).shape == (0, 6)
    with pytest.raises(TypeError, match="a seed"):
        circuits.sample(circuit, 5, None)


def test_impossible_evidence_gives_no_values():
    circuit, x = build("hmm", zeros=True, share=0.6)
    impossible = x[~circuit(x).detach().isfinite()]
    nothing = torch.zeros_like(impossible).bool()
    assert (circuits.conditional_sample(circuit, impossible, nothing, 0) == -1).all()
    assert circuits.conditional(circuit, impossible, nothing).isnan().all()
    values, value = circuits.mpe(circuit, impossible, nothing)
    assert (values == -1).all()
    assert value.isneginf().all()


def test_gaussian_samples():
    leaf = inputs(0, 1, Gaussian()).set_parameters(torch.tensor([[3.0, 0.5]]))
    circuit = compile(multiply(leaf, inputs(1, 1, BINARY)), dtype=torch.float64)
    found = circuits.sample(circuit, 20000, 0)
    assert found.dtype == torch.float64
    assert abs(float(found[:, 0].mean()) - 3) < 0.02
    assert abs(float(found[:, 0].std()) - 0.5) < 0.02
    assert set(found[:, 1].tolist()) == {0.0, 1.0}
    with pytest.raises(TypeError, match="continuous"):
        circuits.conditional(circuit, found, torch.ones_like(found).bool())
    decoded, _ = circuits.mpe(circuit, found[:3], torch.ones(3, 2).bool())
    assert (decoded[:, 0] == 3).all()


@zeros
def test_top_down_probabilities(name, with_zeros):
    """By the recursion, from the root down."""
    circuit, _ = build(name, zeros=with_zeros)
    flat = circuit.parameters_flat.detach()
    order = circuit.plan.order
    down = {id(node): torch.zeros(node.num_nodes).double() for node in order}
    down[id(order[-1])][0] = 1
    for node in reversed(order):
        if isinstance(node, SumNodes):
            passed = down[id(node)] @ dense(node, flat[circuit.place(node)])
            for child, part in zip(
                node.children, passed.split([c.num_nodes for c in node.children])
            ):
                down[id(child)] += part
        else:
            for j, child in enumerate(node.children):
                index = torch.arange(node.num_nodes) if node.edges is None else node.edges[:, j]
                down[id(child)].index_add_(0, index, down[id(node)])
    found = circuits.top_down_probabilities(circuit)
    for node in order:
        if id(node) in circuit.plan.rows_of:
            assert_close(found[circuit.rows(node)], down[id(node)])


def test_a_variable_that_is_not_there():
    circuit, x = build("hmm")
    with pytest.raises(ValueError, match="among those of the circuit"):
        circuits.conditional(circuit, x, half_missing(x), [9])
