"""Circuits by Triton kernels, interpreted on the CPU, against torch operations in float64."""

import pytest
import torch

pytest.importorskip("triton")

from rightfast.circuits import Categorical, rat_spn
from rightfast.circuits.gpu import lowering
from rightfast.circuits.options import Pass

from .gpu_cases import (
    INTERPRETED,
    SERVED,
    again_interpreted,
    built,
    by_kernels,
    check,
    check_derivative,
    check_em,
    interpreted,
)


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    by_kernels(monkeypatch)


# The others are slow: one of every kind of structure is enough for each change.
QUICK = ("hmm", "hclt-tree", "pd", "rat", "shared", "mixed-leaves", "ragged")


@interpreted
@pytest.mark.parametrize(
    ("name", "zeros"),
    [
        *(pytest.param(n, True, marks=() if n in QUICK else pytest.mark.slow) for n in SERVED),
        ("hmm", False),
        ("pd", False),
    ],
)
def test_structures(name, zeros, monkeypatch):
    """With zeros, scaled elements are kept, as they are where there are many sums."""
    monkeypatch.setattr(lowering, "ONE_TILE", 0 if zeros else 64)
    circuit, exact, x = built(name, zeros)
    x = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[:10]]
    check(circuit, exact, x)
    check_em(circuit, exact)
    check_derivative(circuit, exact, x)


@interpreted
def test_products_that_many_elements_share():
    """Those of leaf regions, which become rows; and the list of their elements."""
    root = rat_spn(20, 4, Categorical(2), depth=2, num_repetitions=2)
    circuit, exact, _ = built((root, [2]), zeros=True, share=0.1)
    x = torch.randint(2, (20, 20), generator=torch.Generator().manual_seed(0))
    missing = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.4
    check(circuit, exact, x, missing)
    check_em(circuit, exact)
    check_derivative(circuit, exact, x)
    assert circuit.engine().tables.rows == circuit.plan.num_rows + 2 * 4 * 4


@interpreted
@pytest.mark.parametrize(
    ("name", "zeros"),
    [pytest.param("pd", True, marks=pytest.mark.slow), ("shared", True), ("shared", False)],
)
def test_sums_that_come_in_parts(name, zeros, monkeypatch):
    """Here those of two children and more."""
    monkeypatch.setattr(lowering, "LEAST_CHILDREN", 1)
    circuit, exact, x = built(name, zeros)
    check(circuit, exact, x[:9])
    check_em(circuit, exact)
    check_derivative(circuit, exact, x[:9])
    check(circuit, exact, x[:9], options=Pass("general_ll", 0.5))
    assert circuit.engine().tables.sums > circuit.plan.num_rows - circuit.plan.num_input_rows


@interpreted
@pytest.mark.parametrize("name", ["hmm", "pd"])
def test_missing_values_and_weights(name):
    circuit, exact, x = built(name)
    x = x[:20]
    generator = torch.Generator().manual_seed(0)
    missing = torch.rand(x.shape, generator=generator) < 0.4
    check(circuit, exact, x, missing, torch.rand(len(x), generator=generator))
    check_derivative(circuit, exact, x, missing)


@interpreted
@pytest.mark.slow
def test_long_sums_of_flows():
    """Of few different numbers, which float32 rounds the same way each time."""
    circuit, exact, x = built("one-variable")
    x = x.repeat(6000, 1)
    for one in (circuit, exact):
        with torch.no_grad():
            one(x)
        one.backward()
    off = circuit.flows.double() - exact.flows
    assert float((off / exact.flows).abs().max()) < 3e-6


@interpreted
def test_powers():
    circuit, exact, x = built("hclt-tree", zeros=True)
    check(circuit, exact, x[:20], options=Pass("general_ll", 0.5))
    check(circuit, exact, x[:20], options=Pass("general_ll", 2.0))


@pytest.mark.skipif(INTERPRETED, reason="runs above")
@pytest.mark.parametrize("part", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_interpreted(part):
    again_interpreted(__file__, part)
