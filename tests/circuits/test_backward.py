"""Flows and derivatives, against autograd through the oracle, of every structure."""

import pytest
import torch

from rightfast.circuits import Categorical, Gaussian, compile, evidence, inputs, multiply, summate
from rightfast.circuits.nodes import InputNodes, ProductNodes, SumNodes
from rightfast.circuits.options import Pass
from rightfast.circuits.structures import hclt, hmm

from .common import BINARY, CASES, POSITIVE, STRUCTURES, assert_close, build, dense, oracle, root_of

every = pytest.mark.parametrize("name", STRUCTURES)
zeros = pytest.mark.parametrize(("name", "with_zeros"), CASES)
OPTIONS = [{}, {"algorithm": "mpe"}, {"algorithm": "general_ll", "alpha": 2.5}]
algorithms = pytest.mark.parametrize("options", OPTIONS, ids=str)


def weights_of(x):
    generator = torch.Generator().manual_seed(3)
    return torch.rand(len(x), generator=generator, dtype=torch.float64)


def sum_part(circuit, flat):
    return flat[: circuit.plan.num_sum_parameters]


@zeros
@algorithms
def test_parameter_flows_are_derivatives_by_the_logs(name, with_zeros, options):
    circuit, x = build(name, zeros=with_zeros)
    weights = weights_of(x)
    possible = circuit(x, **options).detach().isfinite()
    x, weights = x[possible], weights[possible]  # the oracle's logs have no derivative at 0
    circuit(x, **options)
    circuit.backward(weights)
    theta = circuit.parameters_flat.detach().clone().requires_grad_()
    values = root_of(circuit, oracle(circuit, x, theta=theta, **options))
    (gradient,) = torch.autograd.grad((weights * values).sum(), theta)
    expected = sum_part(circuit, theta.detach() * gradient.nan_to_num(0.0))
    assert_close(sum_part(circuit, circuit.flows), expected)


@zeros
@algorithms
def test_flows_of_nodes_parameters_and_leaves_agree(name, with_zeros, options):
    """sum_c F[n, c] = sum_b f_n[b], and every variable's leaves get the samples' weights."""
    circuit, x = build(name, zeros=with_zeros)
    weights = weights_of(x)
    possible = circuit(x, **options).detach().isfinite()
    rows = circuit.backward(weights).rows
    expected = {}
    for node in circuit.plan.order:
        if isinstance(node, SumNodes):
            flow = rows[circuit.rows(node)].sum(1)
            expected[node.source] = expected.get(node.source, 0) + flow
    for owner, flow in expected.items():
        found = dense(owner, circuit.flows[circuit.place(owner)]).sum(1)
        assert_close(found, flow)
    if options.get("algorithm") == "general_ll":
        return  # its flows do not add up to 1
    total = torch.zeros(circuit.num_variables).double()
    for node in circuit.plan.order:
        if isinstance(node, InputNodes):
            total[node.var] += rows[circuit.rows(node)].sum()
    assert_close(total, (weights * possible).sum().expand(circuit.num_variables))


@every
def test_leaf_statistics_are_counts(name):
    circuit, x = build(name)
    weights = weights_of(x)
    circuit(x)
    rows = circuit.backward(weights).rows
    for family in circuit.plan.inputs:
        where, size = family.statistics, family.dist.num_statistics
        owners = family.groups if where.stride else 1
        shape = (owners, family.nodes, size)
        found = circuit.flows.as_strided(shape, (where.stride, size, 1), where.offset)
        expected = torch.zeros(shape).double()
        flows = rows[family.start : family.start + family.groups * family.nodes]
        flows = flows.view(family.groups, family.nodes, -1)
        for g, var in enumerate(family.variables.tolist()):
            for value in range(size):
                expected[g if where.stride else 0, :, value] += flows[g][:, x[:, var] == value].sum(
                    1
                )
        assert_close(found, expected)


@zeros
@pytest.mark.parametrize("options", [{}, {"algorithm": "general_ll", "alpha": 0.7}], ids=str)
def test_flows_in_log_space(name, with_zeros, options):
    circuit, x = build(name, zeros=with_zeros)
    weights = weights_of(x)
    circuit(x, **options)
    linear = circuit.backward(weights).rows
    flows = circuit.flows.clone()
    circuit.zero_flows()
    circuit(x, **options)
    logs = circuit.backward(weights, log_space=True).rows
    inner = slice(2, None)
    assert_close(logs[inner].exp(), linear[inner])
    assert_close(circuit.flows, flows)


def test_log_flows_do_not_underflow():
    """A float32 flow of exp(-200), which is 0 where it is not a log."""
    leaf = inputs(0, 2, Gaussian()).set_parameters(torch.tensor([[0.0, 1.0], [20.0, 1.0]]))
    other = inputs(1, 2, BINARY)
    circuit = compile(summate(multiply(leaf, other), num_nodes=1))
    circuit(torch.zeros(1, 2))
    node = circuit.rows(leaf)[1]
    assert circuit.backward().rows[node] == 0
    circuit(torch.zeros(1, 2))
    log_flow = circuit.backward(log_space=True).rows[node]
    exact = compile(summate(multiply(leaf, other), num_nodes=1), dtype=torch.float64)
    exact(torch.zeros(1, 2))
    assert_close(log_flow.double(), exact.backward().rows[exact.rows(leaf)[1]].log(), 1e-5)


@zeros
def test_tempered_flows(name, with_zeros):
    """F = sum_b f theta^(1/T) exp(e / T - n_T), with the untempered f."""
    temperature = 2.5
    circuit, x = build(name, zeros=with_zeros)
    circuit(x)
    rows = circuit.backward(weights_of(x)).rows
    circuit.zero_flows()
    circuit(x, temperature=temperature)
    assert_close(circuit.backward(weights_of(x)).rows[2:], rows[2:])
    values = oracle(circuit, x)
    flat = circuit.parameters_flat.detach()
    expected = torch.zeros_like(sum_part(circuit, circuit.flows))
    for node in circuit.plan.order:
        if not isinstance(node, SumNodes):
            continue
        below = torch.cat([values[id(child)] for child in node.children])
        powers = dense(node, flat[circuit.place(node)]) ** (1 / temperature)
        terms = powers.unsqueeze(2) * below ** (1 / temperature)
        share = torch.where(terms > 0, terms / terms.sum(1, keepdim=True), 0)
        found = (share * rows[circuit.rows(node)].unsqueeze(1)).sum(2)
        if node.edges is not None:
            found = found[node.edges[0], node.edges[1]]
        expected[circuit.place(node)] += found.reshape(-1)
    assert_close(sum_part(circuit, circuit.flows), expected)


@pytest.mark.parametrize("name", POSITIVE)
@algorithms
def test_gradcheck(name, options):
    circuit, x = build(name)
    missing = torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.2
    picked = torch.randperm(len(x), generator=torch.Generator().manual_seed(2))[:5]
    found = evidence.read(circuit.plan, x[picked], missing[picked], torch.float64, x.device)
    if "algorithm" in options:  # a maximum, and the power of a sum, with nothing missing
        found = evidence.read(circuit.plan, x[picked], None, torch.float64, x.device)
    theta = circuit.parameters_flat.detach().clone().requires_grad_()
    if any(family.dist.num_categories and missing.any() for family in circuit.plan.inputs):
        # A missing categorical is log 1, of which probabilities that do not sum to 1 know nothing.
        found = evidence.read(circuit.plan, x[picked], None, torch.float64, x.device)
    assert torch.autograd.gradcheck(lambda t: circuit.evaluate(found, Pass(**options), t), theta)


def test_gradcheck_of_gaussians_with_missing_values():
    root = hclt(parents=[-1, 0, 1], num_latents=2, dist=Gaussian())
    circuit = compile(root, dtype=torch.float64)
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)).double()
    missing = torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.3
    found = evidence.read(circuit.plan, x, missing, torch.float64, x.device)
    theta = circuit.parameters_flat.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda t: circuit.evaluate(found, Pass(), t), theta)


def test_gradients_at_zero_parameters_are_right_and_finite():
    circuit, x = build("hclt-tree", zeros=True, share=0.6)
    found = evidence.read(circuit.plan, x, None, torch.float64, x.device)
    possible = circuit(x).detach().isfinite()
    assert not possible.all()
    theta = circuit.parameters_flat.detach().clone().requires_grad_()
    values = circuit.evaluate(found, Pass(), theta)
    (gradient,) = torch.autograd.grad(values[possible].sum(), theta)
    reference = theta.detach().clone().requires_grad_()
    exact = root_of(circuit, oracle(circuit, x[possible], theta=reference)).sum()
    (expected,) = torch.autograd.grad(exact, reference)
    assert_close(sum_part(circuit, gradient), sum_part(circuit, expected))
    assert gradient.isfinite().all()


def test_impossible_evidence_has_no_gradient():
    circuit, x = build("hmm", zeros=True, share=0.6)
    impossible = x[~circuit(x).detach().isfinite()]
    assert len(impossible)
    circuit(impossible[:3])
    rows = circuit.backward().rows
    assert (rows[2:] == 0).all()
    assert (circuit.flows == 0).all()
    (-circuit(impossible[:3]).sum()).backward()
    assert (circuit.parameters_flat.grad == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_powers(dtype):
    """Powers of parameters that are 0 in any dtype: a large alpha is "mpe", up to ties."""
    circuit, x = build("hclt-tree", dtype=dtype, zeros=True)
    best = circuit(x, "mpe").detach()
    x = x[best.isfinite()]
    found = circuit(x, "general_ll", alpha=1e4)
    torch.testing.assert_close(found.detach(), best[best.isfinite()], rtol=0, atol=1e-2)
    (gradient,) = torch.autograd.grad(found.sum(), circuit.parameters_flat)
    assert gradient.isfinite().all()
    circuit.zero_flows()
    circuit(x, temperature=1e-4)
    rows = circuit.backward().rows
    for place in circuit.plan.placements:
        if isinstance(place.owner, SumNodes):
            own = circuit.flows[circuit.place(place.owner)].view(place.owner.num_nodes, -1)
            assert_close(own.sum(1), rows[circuit.rows(place.owner)].sum(1), 1e-4)


def test_two_passes_before_one_backward():
    """Each pass keeps its own state, also where both have one batch size."""
    circuit, x = build("hclt-tree")
    a, b = x[:7], x[20:27]
    expected = [
        torch.autograd.grad(circuit(part).sum(), circuit.parameters_flat)[0] for part in (a, b)
    ]
    first, second = circuit(a), circuit(b)
    circuit(x)
    (found,) = torch.autograd.grad(first.sum() + second.sum(), circuit.parameters_flat)
    assert_close(found, sum(expected))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_backward_after_other_batch_sizes(dtype):
    circuit, x = build("pd", dtype=dtype)
    for size in (32, 16, 32):
        circuit(x[:size])
    circuit.backward()
    found = circuit.flows.clone()
    fresh, _ = build("pd", dtype=dtype)
    fresh(x[:32])
    fresh.backward()
    assert torch.equal(found, fresh.flows)


def test_batches_add_up():
    circuit, x = build("rat")
    circuit(x)
    circuit.backward()
    whole = circuit.flows.clone()
    circuit.zero_flows()
    for part in (x[:7], x[7:7], x[7:40], x[40:]):
        circuit(part)
        circuit.backward()
    assert_close(circuit.flows, whole)


@pytest.mark.parametrize("name", ["hmm", "hmm-untied", "hclt-data", "mixed-leaves", "ragged"])
def test_gradients_of_single_samples_add_up(name):
    """Fewer samples than categories are counted in another way."""
    circuit, x = build(name, zeros=True)
    x = x[:12]
    together, *single = (
        torch.autograd.grad(circuit(part).sum(), circuit.parameters_flat)[0]
        for part in (x, *x.split(1))
    )
    assert_close(sum(single), together)
    assert together.abs().sum() > 0


def test_the_gradient_of_a_tiny_probability_is_finite():
    theta = torch.full((1, 1, 4), 1e-42)
    x, flows, out = torch.zeros(1, 3, dtype=torch.int64), torch.ones(1, 1, 3), torch.zeros(1, 1, 4)
    assert Categorical(4).add_gradient(theta, x, flows, out)
    assert out.isfinite().all()
    assert out[0, 0, 0] > 1e38


def test_float32_flows_are_those_of_float64():
    for name in ("hmm", "pd", "ragged"):
        circuit, x = build(name, dtype=torch.float32, zeros=True)
        exact, _ = build(name, zeros=True)
        for one in (circuit, exact):
            one(x)
            one.backward()
        assert_close(circuit.flows.double(), exact.flows, 1e-4)


def test_flows_through_sums_far_below_the_largest():
    """The only child that counts lies 1800 nats below one with theta = 0."""
    leaf = inputs(0, 2, Gaussian()).set_parameters(torch.tensor([[0.0, 1.0], [60.0, 1.0]]))
    inner = summate(leaf, num_nodes=2).set_parameters(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    root = summate(inner, num_nodes=1).set_parameters(torch.tensor([[1.0, 0.0]]))
    circuit = compile(root)
    circuit(torch.zeros(1, 1))
    rows = circuit.backward().rows
    assert rows[circuit.rows(leaf)].flatten().tolist() == [0, 1]
    flows = circuit.flows[circuit.place(inner)]
    assert flows.tolist() == [0, 1, 0, 0]


def test_changed_parameters_are_refused():
    circuit, x = build("hmm")
    circuit(x)
    with torch.no_grad():
        circuit.parameters_flat.mul_(1)
    with pytest.raises(RuntimeError, match="parameters have changed"):
        circuit.backward()
    values = circuit(x).sum()
    with torch.no_grad():
        circuit.parameters_flat.mul_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        values.backward()


def test_swapped_memory_is_noticed():
    """New parameters at another address, under the same object."""
    circuit, x = build("hmm")
    before = circuit(x).detach()
    other, _ = build("hmm", seed=1)
    circuit.parameters_flat.data = other.parameters_flat.detach().clone()
    assert not torch.allclose(circuit(x).detach(), before)
    assert_close(circuit(x).detach(), other(x).detach())


def test_torch_optimizers_learn():
    circuit = compile(hmm(4, 3, BINARY), dtype=torch.float64)
    x = torch.randint(2, (50, 4), generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.SGD(circuit.parameters(), lr=1e-3)
    before = float(circuit(x).detach().mean())
    loss = -circuit(x).mean()
    loss.backward()
    optimizer.step()
    assert float(circuit(x).detach().mean()) > before


def test_products_have_no_rows():
    circuit, _ = build("hmm")
    product = next(node for node in circuit.plan.order if isinstance(node, ProductNodes))
    with pytest.raises(ValueError, match="has no rows"):
        circuit.rows(product)
    with pytest.raises(ValueError, match="no parameters"):
        circuit.place(product)
