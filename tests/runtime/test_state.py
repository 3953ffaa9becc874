"""Errors of what a pass leaves, and of what recording it does: docs/runtime.md."""

from __future__ import annotations

import pytest
import torch

from pytest_rightfast import CallLog, call
from rightfast.runtime import NotRecorded, Tape

from .subject import WIDTH, Fast, Plain, compare, reasons, rows

RECORD = pytest.mark.parametrize("record", [None, True])


@RECORD
def test_06_state_is_set_by_every_call(backend, record):
    b32, b16 = rows(32), rows(16)
    steps = [call(b32), call(b16)] * 2 + [call(b32), call.backward()] * 3
    compare(backend, [*steps, call(b16), call.backward()], record=record)


@RECORD
def test_07_state_belongs_to_the_latest_call(backend, record):
    x = rows(3)
    a, b = call(x, log=True), call(x, scale=3.0)
    steps = [a, call.backward(), a, call.backward(), b, b, call.backward()]
    steps += [a, call.backward(), b, a, call.backward(), call.backward()]
    compare(backend, steps, record=record)


@RECORD
def test_02_recording_runs_once_for_real(backend, record):
    """Flows of the recording step equal an eager step's and a replay's, linear and log."""
    for log in (False, True):
        steps = [call(rows(3, seed=n), log=log) for n in range(5)]
        for made in compare(backend, steps, record=record):
            assert made.forwards.recordings == 1


@RECORD
def test_02_random_numbers_are_drawn_once(backend, record):
    compare(backend, [call(rows(3, seed=n), noise=True) for n in range(5)], record=record)


def test_25_from_any_state_of_the_generator():
    """150 scrambled states: the answers, and the state that is left, are an eager run's."""
    for seed in range(150):
        left = []
        for make in (Plain, lambda: Fast(Tape(), record=True)):
            torch.manual_seed(seed)
            made = make()
            got = [made(torch.randn(2, WIDTH), noise=True) for _ in range(3)]
            left.append([*got, torch.get_rng_state()])
        assert all(map(torch.equal, *left)), seed


def test_04_a_callback_runs_every_time(backend):
    with pytest.warns(NotRecorded, match="option 'hook' is callable") as found:
        compare(backend, [call(rows(3), hook=CallLog())] * 4, recorded=False, record=True)
    assert reasons(found) == 2  # one for each of the two objects that were made
