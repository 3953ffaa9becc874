"""The circuits' kernels compile for a GPU that is not there, also for what the interpreter cannot
tell apart: a batch of one, which becomes a constant, and every precision."""

import pytest
import torch

pytest.importorskip("triton")

from pytest_rightfast.triton_aot import compile_ahead
from pytest_rightfast.triton_recorder import record
from rightfast.circuits import Categorical, compile, gpu, rat_spn

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


@pytest.mark.parametrize("function", [one_sample, several_in_bf16, powers_in_three_parts])
def test_compiles(function):
    launches = record(function)
    assert len(launches) >= 10
    for launch in launches:
        assert compile_ahead(launch.spec, 90).asm["cubin"]
