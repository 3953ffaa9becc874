"""Bad input is refused, with what was expected and what to do."""

import copy
import pickle

import pytest
import torch

from rightfast import circuits
from rightfast.circuits import Categorical, Gaussian, compile, inputs, multiply, summate
from rightfast.circuits.options import Pass

from .common import BINARY, build


@pytest.fixture
def leaf():
    return inputs(0, 2, BINARY)


@pytest.mark.parametrize("bad", [-1, 3, 300])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32])
def test_categories_out_of_range(bad, dtype):
    circuit, x = build("hmm")
    x = x.to(dtype)
    x[5, 2] = bad
    with pytest.raises(
        ValueError, match=rf"variable 2 has the categories 0 to 2, got {bad} in .* 5"
    ):
        circuit(x)


def test_data_that_does_not_fit():
    circuit, x = build("hmm")
    with pytest.raises(ValueError, match=r"shape \[batch, 4\]"):
        circuit(x[:, :3])
    with pytest.raises(ValueError, match="shape"):
        circuit(x[0])
    with pytest.raises(TypeError, match="must be a tensor"):
        circuit(x.numpy())
    with pytest.raises(TypeError, match="real"):
        circuit(x.to(torch.complex64))
    with pytest.raises(ValueError, match="whole numbers"):
        circuit(x + 0.5)
    with pytest.raises(ValueError, match="whole numbers"):
        circuit(torch.full((1, 4), torch.nan))
    with pytest.raises(TypeError, match="bool"):
        circuit(x, missing_mask=torch.ones_like(x))
    with pytest.raises(ValueError, match="missing_mask"):
        circuit(x, missing_mask=torch.ones(3).bool())
    gaussian = compile(inputs(0, 1, Gaussian()))
    for bad in (torch.nan, torch.inf):
        with pytest.raises(ValueError, match="finite"):
            gaussian(torch.tensor([[bad]]))


def test_other_integer_types_are_data():
    circuit, x = build("hmm")
    expected = circuit(x).detach()
    for dtype in (torch.uint8, torch.int16, torch.float32):
        assert torch.equal(circuit(x.to(dtype)).detach(), expected)
    assert torch.equal(circuit(x.t().contiguous().t()).detach(), expected)


def test_options():
    for options, message in (
        ({"algorithm": "max"}, "must be one of"),
        ({"alpha": 2.0}, "alpha belongs to"),
        ({"algorithm": "general_ll", "alpha": 0.0}, "alpha must be a positive"),
        ({"temperature": -1.0}, "temperature must be a positive"),
        ({"algorithm": "mpe", "temperature": 2.0}, "temperature belongs to"),
        ({"algorithm": "mpe", "log_space": True}, "log_space"),
    ):
        with pytest.raises(ValueError, match=message):
            Pass(**options)
    assert hash(Pass()) == hash(Pass("ll"))


def test_graphs(leaf):
    other = inputs(1, 2, BINARY)
    for call, message in (
        (lambda: multiply(leaf, inputs(0, 2, BINARY)), "disjoint"),
        (lambda: summate(leaf, other, num_nodes=1), "one scope"),
        (lambda: multiply(leaf, inputs(1, 3, BINARY)), "node by node"),
        (lambda: multiply(), "at least one child"),
        (lambda: summate(num_nodes=2), "at least one child"),
        (lambda: inputs(-1, 2, BINARY), "0 or larger"),
        (lambda: inputs(0, 0, BINARY), "at least 1"),
        (lambda: multiply(leaf, other, edges=torch.tensor([[0, 2]])), "nodes of children"),
        (lambda: multiply(leaf, other, edges=torch.tensor([0, 1])), "shape"),
        (lambda: summate(leaf, num_nodes=2, edges=torch.tensor([[0, 1], [0, 2]])), "2 children"),
        (lambda: summate(leaf, num_nodes=2, edges=torch.tensor([[0, 0], [0, 0]])), "twice"),
        (lambda: summate(leaf, num_nodes=2, edges=torch.tensor([[0, 0], [0, 1]])), "no edge"),
        (lambda: summate(leaf, num_nodes=2, edges=torch.tensor([0, 1])), "shape"),
        (lambda: compile(multiply(leaf, other)), "the root must be one node"),
        (lambda: compile(summate(leaf, num_nodes=1), dtype=torch.float16), "dtype"),
        (lambda: summate(leaf, num_nodes=1).duplicate(inputs(0, 3, BINARY)), "2 children"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    for call in (
        lambda: multiply(leaf, 3),
        lambda: summate(leaf, num_nodes=1.0),
        lambda: inputs(0, 1, "categorical"),
        lambda: inputs(True, 1, BINARY),
        lambda: compile(3),
        lambda: multiply(leaf, edges=torch.tensor([[0.0]])),
        lambda: Categorical(2.0),
    ):
        with pytest.raises(TypeError):
            call()


def test_parameters(leaf):
    mixed = summate(leaf, num_nodes=1)
    for node, values, message in (
        (mixed, [[0.5, 0.6]], "off by 0.1"),
        (mixed, [[1.5, -0.5]], "negative"),
        (mixed, [0.5, 0.5], "shape"),
        (mixed, [[torch.nan, 1.0]], "finite"),
        (leaf, [[0.5, 0.6], [0.5, 0.5]], "divide each row"),
        (inputs(0, 1, Gaussian()), [[0.0, 0.0]], "positive"),
        (inputs(0, 1, circuits.Bernoulli()), [[1.5]], "between 0 and 1"),
        (inputs(0, 1, circuits.DiscretizedLogistic(3)), [[1.0, -1.0]], "positive"),
    ):
        with pytest.raises(ValueError, match=message):
            node.set_parameters(torch.tensor(values))
    mixed.set_parameters(torch.tensor([[1.0, 0.0]]))  # zeros are no error
    assert mixed.duplicate().parameters.tolist() == [1, 0]


def test_weights_and_order_of_calls():
    circuit, x = build("hmm")
    with pytest.raises(RuntimeError, match="needs a forward pass"):
        circuit.backward()
    circuit(x)
    for weights, message in (
        (torch.ones(3), r"shape \[81\]"),
        (-torch.ones(81), "not negative"),
        (torch.full((81,), torch.nan), "finite"),
    ):
        with pytest.raises(ValueError, match=message):
            circuit.backward(weights)


def test_seeds_decide_the_parameters():
    first, second, other = (build("pd", seed=seed)[0] for seed in (0, 0, 1))
    assert torch.equal(first.parameters_flat, second.parameters_flat)
    assert not torch.equal(first.parameters_flat, other.parameters_flat)


def test_copies_and_pickles_work_after_a_pass():
    circuit, x = build("hmm")
    expected = circuit(x).detach()
    for twin in (copy.deepcopy(circuit), pickle.loads(pickle.dumps(circuit))):
        assert torch.equal(twin(x).detach(), expected)


def test_moving_to_another_dtype():
    circuit, x = build("hmm")
    expected = circuit(x).detach()
    found = circuit.to(torch.float32)(x).detach()
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
