"""The circuits' kernels compile for a GPU that is not there, also for what the interpreter cannot
tell apart: a batch of one, which becomes a constant, and every precision."""

import pytest
import torch

pytest.importorskip("triton")

from pytest_rightfast.triton_aot import compile_ahead, inspect
from pytest_rightfast.triton_recorder import record
from rightfast.circuits import (
    Bernoulli,
    Categorical,
    Gaussian,
    compile,
    conditional_sample,
    em_step,
    gpu,
    hmm,
    inputs,
    multiply,
    rat_spn,
    sample,
    summate,
)
from rightfast.circuits.gpu import lowering, tiles

pytestmark = pytest.mark.slow


def run(batch, precision, log_space=False, **options):
    """Forward, backward and gradient, with a missing value."""
    gpu.takes = lambda device, dtype: dtype == torch.float32
    root = rat_spn(8, 4, Categorical(3), depth=2, num_repetitions=2)
    circuit = compile(root, precision=precision)
    x = torch.zeros(batch, 8, dtype=torch.int64)
    missing = torch.zeros_like(x).bool()
    values = circuit(x, missing_mask=missing, **options)
    circuit.backward(log_space=log_space)
    if values.requires_grad:
        values.sum().backward()


# What a child process can import.
def one_sample():
    run(1, "ieee")


def several_in_bf16():
    run(17, "bf16")


def powers_in_three_parts():
    run(16, "tf32x3", algorithm="general_ll", alpha=0.5)


def maxima():
    run(17, "ieee", algorithm="mpe")


def one_maximum():
    run(1, "ieee", algorithm="mpe")


def log_space_and_a_temperature():
    run(17, "tf32", log_space=True, temperature=2.0)


def one_in_log_space():
    run(1, "bf16", log_space=True)


def full_tiles(precision):
    """Those of maxima, and of flows in log space."""
    gpu.takes = lambda device, dtype: dtype == torch.float32
    tiles.SMS = tiles.ENOUGH = 1
    circuit = compile(hmm(3, 64, Categorical(64), homogeneous=False), precision=precision)
    x = torch.zeros(64, 3, dtype=torch.int64)
    with torch.no_grad():
        circuit(x, "mpe", missing_mask=x == 1)
        circuit.backward()
        circuit(x)
        circuit.backward(log_space=True)


def full_in_float32():
    full_tiles("ieee")


def full_in_three_parts():
    full_tiles("tf32x3")


def full_in_tf32():
    full_tiles("tf32")


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


def decoding():
    """The walk of an "mpe" pass."""
    gpu.takes = lambda device, dtype: dtype == torch.float32
    circuit = compile(rat_spn(8, 4, Categorical(3), depth=2, num_repetitions=2), precision="ieee")
    x = torch.zeros(5, 8, dtype=torch.int64)
    with torch.no_grad():
        circuit(x, "mpe", missing_mask=x == 0)
    circuit.state.walk(None)


FUNCTIONS = [
    one_sample,
    several_in_bf16,
    powers_in_three_parts,
    maxima,
    one_maximum,
    log_space_and_a_temperature,
    one_in_log_space,
    queries_and_blocks,
    queries_of_one,
    decoding,
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_compiles(function):
    launches = record(function)
    assert len(launches) >= 6
    for launch in launches:
        assert compile_ahead(launch.spec, 90).asm["cubin"]


@pytest.mark.parametrize("function", [full_in_float32, full_in_three_parts, full_in_tf32])
def test_full_tiles_do_not_spill(function):
    found = {launch.spec.fn.__name__: launch.spec for launch in record(function)}
    own = [name for name in found if name.startswith(("max_", "mode_", "log_", "quotients"))]
    assert len(own) >= 7
    for name in own:
        counts = inspect(found[name], 90)
        assert not sum(counts[key] for key in counts if key.startswith("local_")), name
