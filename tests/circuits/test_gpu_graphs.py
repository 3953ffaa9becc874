"""Recorded passes of circuits: every step of a sequence equals one that was not recorded, bit by
bit. On the tape with interpreted kernels, in a process of their own, and on CUDA where there is
one."""

import copy
import inspect

import pytest
import torch

pytest.importorskip("triton")

from rightfast.circuits import Circuit, FreeParameters, compile, em_step, mini_batch_em

from .common import STRUCTURES, assignments
from .gpu_cases import DEVICE, INTERPRETED, again_interpreted, by_kernels, here

pytestmark = pytest.mark.filterwarnings("error::rightfast.runtime.NotRecorded")


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    by_kernels(monkeypatch, recorded=True)


def pair(name="hmm"):
    """(recorded, not recorded, data)"""
    root, categories = STRUCTURES[name]()
    one = compile(root, graphs=True, precision="ieee").to(DEVICE)
    return one, compile(root, precision="ieee").to(DEVICE), assignments(categories).to(DEVICE)


def count(circuit):
    """(recordings, replays) of all passes but M-steps."""
    spaces = {id(w): w for w in circuit.engine()._free}
    if circuit.state is not None:
        spaces[id(circuit.state.workspace)] = circuit.state.workspace
    graphs = [g for w in spaces.values() for g in (w.forward, w.backward)]
    return sum(len(g) for g in graphs), sum(g.replays for g in graphs)


def equal_step(circuits, x, weights=None, log_space=False, **options):
    """The same values, rows and flows after a forward and a backward pass."""
    found = []
    for one in circuits:
        with torch.no_grad():
            values = one(x, **options)
        flows = one.backward(weights, log_space=log_space).rows
        found.append((values, one.state.n[2:].clone(), flows[2:].clone(), one.flows.clone()))
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)
    return found[0][0]


@here
@pytest.mark.parametrize("name", ["hmm", pytest.param("pd", marks=pytest.mark.slow)])
def test_batches_of_several_sizes(name):
    one, other, x = pair(name)
    for start, batch in ((0, 8), (5, 3), (2, 8), (1, 20), (7, 8)):
        equal_step((one, other), x[start : start + batch])
    recordings, replays = count(one)
    assert replays >= 2
    assert recordings <= 6  # of three sizes


@here
def test_options_that_change():
    one, other, x = pair()
    x = x[:6]
    missing = torch.zeros_like(x).bool()
    missing[:, 1] = True
    for options in (
        {},
        {"missing_mask": missing},
        {"algorithm": "general_ll", "alpha": 0.5},
        {},
        {"missing_mask": ~missing},
        {"algorithm": "general_ll", "alpha": 2.0},
        {"algorithm": "general_ll", "alpha": 0.5},
        {"algorithm": "mpe"},
        {"algorithm": "mpe", "missing_mask": missing},
        {"temperature": 2.0},
        {"temperature": 0.5, "log_space": True},
        {"temperature": 2.0, "log_space": True},
        {"algorithm": "general_ll", "alpha": 0.5, "log_space": True},
        {"algorithm": "mpe"},
        {"temperature": 2.0},
        {"algorithm": "general_ll", "alpha": 1.0},
    ):
        equal_step((one, other), x, **options)
    assert count(one)[1] >= 6


VARIANTS = {
    "algorithm": {"algorithm": "mpe"},
    "alpha": {"algorithm": "general_ll", "alpha": 0.5},
    "temperature": {"temperature": 2.0},
    "missing_mask": {"missing_mask": torch.tensor([True, False, False, True])},
    "weights": {"weights": torch.linspace(0, 1, 6)},
    "log_space": {"log_space": True},
}


def test_every_option_has_a_variant():
    given = [*inspect.signature(Circuit.forward).parameters]
    given += inspect.signature(Circuit.backward).parameters
    assert set(given) - {"self", "x"} == set(VARIANTS)


@here
@pytest.mark.parametrize("name", VARIANTS)
def test_an_option_that_comes_and_goes(name):
    one, other, x = pair()
    variant = {
        key: value.to(DEVICE) if isinstance(value, torch.Tensor) else value
        for key, value in VARIANTS[name].items()
    }
    for number, options in enumerate(({}, variant, {}, variant)):
        equal_step((one, other), x[number : number + 6], **options)
    assert count(one)[1] >= 4


@here
def test_parameters_that_change_in_place_and_that_are_others():
    one, other, x = pair()
    for number in range(4):
        equal_step((one, other), x[number : number + 6])
        if number == 1:
            new = compile(STRUCTURES["hmm"]()[0], seed=7).parameters_flat.detach().to(DEVICE)
            for circuit in (one, other):
                circuit.parameters_flat.data = new.clone()
            continue
        for circuit in (one, other):
            em_step(circuit, 0.5, 0.1)
        assert torch.equal(one.parameters_flat, other.parameters_flat)


@here
def test_training_gives_the_same_bits():
    one, other, x = pair("hclt-tree")
    for number in range(4):
        values = [mini_batch_em(c, x[number : number + 9], step_size=0.3) for c in (one, other)]
        assert torch.equal(*values)
        assert torch.equal(one.parameters_flat, other.parameters_flat)


@here
def test_passes_that_are_held_keep_their_memory():
    one, other, x = pair()
    for start in (0, 3, 6):
        grads = []
        for circuit in (one, other):
            circuit.parameters_flat.grad = None
            first, second = circuit(x[start : start + 5]), circuit(x[start + 1 : start + 6])
            (first.sum() + 2 * second.sum()).backward()
            grads.append(circuit.parameters_flat.grad)
        assert torch.equal(*grads)


@here
def test_results_are_the_callers_own():
    one, _, x = pair()
    with torch.no_grad():
        values = [one(x[i : i + 4]) for i in range(4)]
        for i, found in enumerate(values):
            assert torch.equal(found, one(x[i : i + 4]))


@here
def test_other_passes_between():
    one, other, x = pair()
    for circuit in (one, other):
        with torch.no_grad():
            circuit(x[:5], "mpe")
        circuit.backward()
    equal_step((one, other), x[:5])
    for circuit in (one, other):
        circuit.zero_flows()
        circuit.double()(x[:5])
        circuit.float()
    equal_step((one, other), x[:5])
    equal_step((one, other), x[3:8])


@here
def test_many_sizes_take_two_graphs_each():
    one, _, x = pair("one-variable")
    x = x.repeat(9, 1)
    replays = []
    for _ in range(3):
        for size in (10, 17, 24, 14, 21):
            with torch.no_grad():
                one(x[:size])
            one.backward()
        recordings, replayed = count(one)
        assert recordings <= 2 * 5
        replays.append(replayed)
    assert replays[2] == replays[1] + 2 * 5


@here
def test_a_copy_has_recorded_nothing():
    one, other, x = pair()
    equal_step((one, other), x[:5])
    again = copy.deepcopy(one)
    again.zero_flows()
    other.zero_flows()
    equal_step((again, other), x[2:7])


@here
def test_other_parameters_than_its_own():
    one, _, x = pair()
    free = FreeParameters(one)
    value = free(x[:6]).sum()
    value.backward()
    assert free.free.grad is not None
    assert free.free.grad.isfinite().all()


@pytest.mark.skipif(INTERPRETED, reason="runs above")
@pytest.mark.parametrize("part", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_interpreted(part):
    again_interpreted(__file__, part)
