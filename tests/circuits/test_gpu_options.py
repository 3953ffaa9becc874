"""Maxima, temperatures and flows in log space by Triton kernels, interpreted on the CPU, against
torch operations in float64."""

import pytest
import torch

pytest.importorskip("triton")

from rightfast.circuits import Categorical, hmm, rat_spn
from rightfast.circuits.gpu import lowering
from rightfast.circuits.options import Pass

from .gpu_cases import (
    INTERPRETED,
    OPTIONS,
    SERVED,
    again_interpreted,
    built,
    by_kernels,
    check,
    check_derivative,
    close,
    interpreted,
    real_rows,
)

FAST = ("shared",)


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    by_kernels(monkeypatch)


def random(x, seed=0):
    """(some of the data, what is missing in it, weights)"""
    generator = torch.Generator().manual_seed(seed)
    x = x[torch.randperm(len(x), generator=generator)[:10]]
    missing = torch.rand(x.shape, generator=generator) < 0.4
    return x, missing, torch.rand(len(x), generator=generator)


@interpreted
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(
    "name",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in SERVED],
)
def test_structures(name, options, monkeypatch):
    """With scaled elements that are kept, as they are where there are many sums."""
    monkeypatch.setattr(lowering, "ONE_TILE", 0)
    circuit, exact, x = built(name, zeros=True)
    x, missing, weights = random(x)
    check(circuit, exact, x, options=options)
    check(circuit, exact, x, missing, weights, options=options)


@interpreted
@pytest.mark.parametrize("name", ["hclt-tree", pytest.param("pd", marks=pytest.mark.slow)])
def test_derivatives_of_maxima(name):
    circuit, exact, x = built(name, zeros=True)
    x, missing, _ = random(x)
    check_derivative(circuit, exact, x, algorithm="mpe")
    check_derivative(circuit, exact, x, missing, algorithm="mpe")


@interpreted
@pytest.mark.parametrize(
    "options",
    [
        *OPTIONS[:1],
        *(pytest.param(*o.values, id=o.id, marks=pytest.mark.slow) for o in OPTIONS[1:]),
    ],
)
def test_sums_that_come_in_parts(options, monkeypatch):
    """Here those of two children and more."""
    monkeypatch.setattr(lowering, "LEAST_CHILDREN", 1)
    for zeros in (False, True):
        circuit, exact, x = built("shared", zeros)
        check(circuit, exact, x, options=options)
    assert circuit.engine().tables.sums > circuit.plan.num_rows - circuit.plan.num_input_rows


@interpreted
@pytest.mark.parametrize("options", OPTIONS)
def test_products_that_many_elements_share(options):
    root = rat_spn(20, 4, Categorical(2), depth=2, num_repetitions=2)
    circuit, exact, _ = built((root, [2]), zeros=True, share=0.1)
    x = torch.randint(2, (10, 20), generator=torch.Generator().manual_seed(0))
    check(circuit, exact, x, options=options)
    assert circuit.engine().tables.rows > circuit.plan.num_rows


@interpreted
@pytest.mark.parametrize("options", OPTIONS)
def test_numbers_that_underflow(options):
    """Parameters of 1e-35, of which float32 has no square; weights with which flows are 0 in it."""
    circuit, exact, x = built("hclt-tree")
    for one in (circuit, exact):
        one.parameters_flat.detach()[: one.plan.num_sum_parameters : 2] = 1e-35
    weights = torch.where(torch.arange(len(x)) % 2 == 0, 1.0, 1e-30)
    check(circuit, exact, x[:10], None, weights[:10], options=options)


@interpreted
@pytest.mark.parametrize("least", [lowering.LEAST_CHILDREN, 1])
@pytest.mark.parametrize("options", [Pass(), Pass("general_ll", 2.0), Pass(log_space=True)])
def test_large_weights_of_small_sums(options, least, monkeypatch):
    """Each quotient of the two is a float32, the sum of a batch of them is not."""
    monkeypatch.setattr(lowering, "LEAST_CHILDREN", least)
    circuit, exact, x = built((hmm(3, 2, Categorical(2)), [2] * 3))
    for one in (circuit, exact):
        one.parameters_flat.detach()[: one.plan.num_sum_parameters] = 1e-29 ** (1 / options.alpha)
    check(circuit, exact, x, None, torch.full((len(x),), 3e9), options=options, tolerance=1e-4)


@interpreted
def test_flows_in_log_space_do_not_underflow():
    circuit, exact, x = built((hmm(6, 3, Categorical(2)), [2] * 6))
    x = x[:4]
    for one in (circuit, exact):
        sums = one.plan.num_sum_parameters
        one.parameters_flat.detach()[:sums].view(-1, 3)[:, 0] = 1e-20
        with torch.no_grad():
            one(x)
    weights = torch.full((4,), 1e-30)
    rows = real_rows(circuit.backward(weights, log_space=True).rows)
    close(rows, real_rows(exact.backward(weights, log_space=True).rows))
    assert not rows.isinf().any()
    assert (real_rows(circuit.backward(weights).rows) == 0).any()


@interpreted
def test_of_equal_children_the_first_has_the_maximum():
    circuit, exact, x = built("hmm")
    for one in (circuit, exact):
        one.parameters_flat.detach().fill_(0.25)
    check(circuit, exact, x[:10], options=Pass("mpe"))
    missing = torch.ones_like(x[:10]).bool()
    check(circuit, exact, x[:10], missing, options=Pass("mpe"))


@interpreted
def test_backward_passes_of_one_forward_pass():
    """None leaves anything that another one needs."""
    circuit, _, x = built("hmm", zeros=True)
    with torch.no_grad():
        circuit(x[:10], temperature=2.0)
    found = []
    for log_space in (False, True, False, True):
        circuit.zero_flows()
        rows = circuit.backward(log_space=log_space).rows[2:]
        found.append((rows, circuit.flows.clone()))
    for first, second in zip(found[:2], found[2:], strict=True):
        assert all(map(torch.equal, first, second))


@interpreted
@pytest.mark.parametrize("options", OPTIONS)
def test_a_value_that_is_no_category_gives_nan_for_its_sample_alone(options):
    circuit, _, x = built("hmm")
    x, call = x[:6], {"algorithm": options.algorithm, "temperature": options.temperature}
    found = []
    for value in (0, 7):
        x[3, 2] = value
        with torch.no_grad():
            found.append(circuit(x, **call))
        circuit.zero_flows()
        rows = circuit.backward(log_space=options.log_space).rows[2:]
        assert not rows.isnan().any()
        assert circuit.flows.isfinite().all()
    assert found[1][3].isnan()
    others = [0, 1, 2, 4, 5]
    assert torch.equal(found[1][others], found[0][others])
    assert (rows[:, 3] == (-torch.inf if options.log_space else 0)).all()


@pytest.mark.skipif(INTERPRETED, reason="runs above")
@pytest.mark.parametrize("part", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_interpreted(part):
    again_interpreted(__file__, part)
