"""Exact counts: what one call does, the same each time, or named as inexact."""

from __future__ import annotations

import sys

import pytest
import torch

from pytest_rightfast.counters import count, dispatched, memory, work

X = torch.randn(1000, generator=torch.Generator().manual_seed(5))


def test_operators_by_name():
    counts = dispatched(lambda: (X.sin() + X.sin()).sum())
    assert counts["operators"] == 4
    assert counts["operators/aten::sin"] == 2
    assert counts["operators/aten::add.Tensor"] == 1


def test_memory():
    counts = memory(lambda: X.sin().cos())
    assert counts["allocations"] == 2
    assert counts["allocated_bytes"] == 8000
    assert counts["peak_bytes"] == 8000
    chain = memory(lambda: X.sin().cos().exp().log())
    assert (chain["allocated_bytes"], chain["peak_bytes"]) == (16000, 8000)


def test_an_in_place_call_allocates_nothing():
    y = X.clone()
    assert memory(lambda: y.mul_(X))["allocations"] == 0


def test_memory_inside_of_one_operator():
    """Scratch space of C++ code counts, though no operator returns it."""
    assert memory(lambda: X.sort())["allocations"] >= 2


def test_python_calls():
    def inner():
        return X.sin()

    exact, inexact = count(lambda: [inner() for _ in range(5)])
    flat, _ = count(lambda: X.sin())
    assert exact["python_calls"] >= flat["python_calls"] + 5
    assert inexact == []


def test_what_does_not_repeat_is_named():
    turn = iter(range(100))

    def moody():
        return X.sin() if next(turn) % 4 < 2 else X.sin().cos()

    exact, inexact = count(moody)
    assert "operators" not in exact
    assert {"operators", "operators/aten::cos", "allocated_bytes"} <= set(inexact)
    assert exact["operators/aten::sin"] == 1


def test_resets_are_not_counted():
    y = X.clone()
    resets = []

    def reset():
        resets.append(1)
        y.copy_(X)

    exact, _ = count(lambda: y.mul_(2), reset)
    assert exact["operators"] == 1
    assert len(resets) >= 2
    assert "operators/aten::copy_" not in exact


def test_profilers_of_others_are_left_alone():
    def note(frame, event, arg):
        pass

    sys.setprofile(note)
    try:
        exact, _ = count(lambda: X.sin())
        assert sys.getprofile() is note
    finally:
        sys.setprofile(None)
    assert exact["operators"] == 1
    assert "python_calls" not in exact


@pytest.mark.parametrize("fails", [True, False])
def test_profile_is_off_afterwards(fails):
    def call():
        if fails:
            raise KeyError

    for counter in (lambda: count(call), lambda: work(call)):
        if fails:
            with pytest.raises(KeyError):
                counter()
        else:
            counter()
        assert sys.getprofile() is None


def test_work_of_python_and_of_operators():
    operators, calls = work(lambda: X.sin().cos())
    assert operators == 2
    assert calls >= 2
    assert work(len, [])[0] == 0


def test_rows_carry_the_counts(verify):
    row = verify(lambda x: x.sin() + x, X, reference=lambda x: x.sin() + x)
    assert row.counters["operators"] == 2
    assert row.counters["allocated_bytes"] == 8000
    assert row.inexact == []


def test_counts_of_gradients_and_of_in_place_calls(verify):
    row = verify(torch.sin, X, reference=torch.sin, backward="only")
    assert row.counters["operators/aten::cos"] == 1
    assert "operators/aten::sin" not in row.counters
    row = verify(torch.sin, X, reference=torch.sin, backward="with_forward")
    assert row.counters["operators/aten::sin"] == 1
    row = verify(torch.Tensor.add_, X, X, mutates=(0,), reference=torch.add)
    assert row.counters["operators"] == 1
