"""The circuits' kernels compile for a GPU that is not there, also for what the interpreter cannot
tell apart: a batch of one, which becomes a constant, and every precision."""

import pytest
import torch

pytest.importorskip("triton")

from pytest_rightfast.triton_aot import compile_ahead
from pytest_rightfast.triton_recorder import record
from rightfast.circuits import (
    Bernoulli,
    Categorical,
    Gaussian,
    compile,
    conditional_sample,
    em_step,
    gpu,
    inputs,
    multiply,
    rat_spn,
    sample,
    summate,
)
from rightfast.circuits.gpu import lowering

pytestmark = pytest.mark.slow


def run(batch, precision, alpha):
    """Forward, backward and gradient, with a missing value."""
    gpu.takes = lambda device, dtype: dtype == torch.float32
    root = rat_spn(8, 4, Categorical(3), depth=2, num_repetitions=2)
    circuit = compile(root, precision=precision)
    x = torch.zeros(batch, 8, dtype=torch.int64)
    missing = torch.zeros_like(x).bool()
    options = {"algorithm": "general_ll", "alpha": alpha} if alpha != 1 else {}
    values = circuit(x, missing_mask=missing, **options)
    circuit.backward()
    values.sum().backward()


# What a child process can import.
def one_sample():
    run(1, "ieee", 1.0)


def several_in_bf16():
    run(17, "bf16", 1.0)


def powers_in_three_parts():
    run(16, "tf32x3", 0.5)


def queries_and_blocks(batch=17):
    """Samples with evidence and without, of sums that have all edges, in parts and with edges of
    their own; and the M-step."""
    gpu.takes = lambda device, dtype: dtype == torch.float32
    lowering.LEAST_CHILDREN = 2
    edges = torch.tensor([[0, 0, 1, 1, 2, 3, 3], [0, 1, 0, 1, 2, 2, 3]])
    leaf = [inputs(v, 4, dist) for v, dist in enumerate([Categorical(3), Bernoulli(), Gaussian()])]
    some = summate(multiply(*leaf), num_nodes=4, edges=edges)
    for root in (
        summate(some, num_nodes=1),
        rat_spn(8, 4, Categorical(3), depth=2, num_repetitions=2),
    ):
        circuit = compile(root, precision="ieee")
        x = sample(circuit, batch, 0).float()
        conditional_sample(circuit, x, torch.ones_like(x).bool(), 0)
        circuit(x)
        circuit.backward()
        em_step(circuit, 0.5, 0.1, keep_zero_params=False)
        em_step(circuit)


def queries_of_one():
    queries_and_blocks(1)


def maxima():
    """The walk of an "mpe" pass."""
    gpu.takes = lambda device, dtype: dtype == torch.float32
    circuit = compile(rat_spn(8, 4, Categorical(3), depth=2, num_repetitions=2), precision="ieee")
    x = torch.zeros(5, 8, dtype=torch.int64)
    with torch.no_grad():
        circuit(x, missing_mask=x == 0)
    circuit.state.walk(None)


@pytest.mark.parametrize(
    "function",
    [
        one_sample,
        several_in_bf16,
        powers_in_three_parts,
        queries_and_blocks,
        queries_of_one,
        maxima,
    ],
)
def test_compiles(function):
    launches = record(function)
    assert len(launches) >= 10
    for launch in launches:
        assert compile_ahead(launch.spec, 90).asm["cubin"]
