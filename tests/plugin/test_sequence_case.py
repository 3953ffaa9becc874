"""`measured.sequence` as a case: its row, its stages, its errors."""

from __future__ import annotations

import pytest
import torch

from pytest_rightfast import CaseError, Schedule, WrongAnswer, call
from pytest_rightfast.fixture import Perf, PerfSession
from pytest_rightfast.options import Options

X, Y = torch.arange(4.0) + 1, torch.arange(4.0) - 7


class Right:
    def __call__(self, x):
        return x * 2.0


class Stale:
    """Right for so many calls."""

    def __init__(self, calls):
        self.left = calls

    def __call__(self, x):
        self.left -= 1
        return x * (2.0 if self.left >= 0 else 3.0)


class Adds:
    def __init__(self):
        self.total = 0.0

    def __call__(self, x):
        self.total = self.total + x
        return self.total * 1.0

    def reset(self):
        self.total = 0.0


@pytest.fixture
def measured(tmp_path):
    session = PerfSession(Options(max_time=0.01, min_rounds=20), tmp_path)
    return Perf(session, "test_x.py::test_y", "test_x.py::test_y", None, 1)


def test_a_verified_sequence_has_a_row_without_time(measured):
    row = measured.sequence(make=Right, fresh=Right, steps=[call(X), call(Y)])
    assert (row.status, row.backend, row.samples, row.counters) == ("ok", "sequence", [], {})
    assert measured.session.options.timing  # of the next test


def test_a_wrong_one_has_a_row_with_its_minimal_schedule(measured):
    with pytest.raises(WrongAnswer, match="minimal failing schedule, 2 of 3 steps"):
        measured.sequence(make=lambda: Stale(1), fresh=Right, steps=[call(X)] * 3)
    assert measured.row.status == "wrong"
    assert "minimal failing schedule" in measured.row.reason
    assert measured.session.options.timing


def test_an_impossible_one_has_a_row_too(measured):
    with pytest.raises(CaseError, match="does not do on a fresh object"):
        measured.sequence(make=Right, fresh=Right, steps=[call.typo()])
    assert measured.row.status == "error"


def test_tolerances_are_asked_for(tmp_path):
    def run(**options):
        session = PerfSession(Options(timing=False), tmp_path)
        near = lambda: lambda x: x * (2.0 + 2**-20)  # noqa: E731
        measured = Perf(session, "t.py::t", "t.py::t", None, 1)
        return measured.sequence(make=near, fresh=Right, steps=[call(X)], **options).status

    with pytest.raises(WrongAnswer):
        run()
    with pytest.raises(WrongAnswer):
        run(rtol=1e-7)
    assert [run(exact=False), run(rtol=1e-5), run(atol=1e-2, rtol=0.0)] == ["ok"] * 3


def test_a_timed_sequence_is_sampled_and_counted_as_one_unit(measured):
    row = measured.sequence(make=Right, fresh=Right, steps=[call(X), call(Y)], timed=True)
    assert len(row.samples) >= 20
    assert row.counters["operators/aten::mul.Tensor"] == 2


def test_the_second_pass_is_verified_step_by_step(measured):
    with pytest.raises(WrongAnswer, match="step 5"):
        measured.sequence(make=lambda: Stale(5), fresh=Right, steps=[call(X)] * 3, timed=True)


def test_timed_rounds_are_verified(measured):
    with pytest.raises(WrongAnswer, match="of a repeated pass"):
        measured.sequence(make=lambda: Stale(40), fresh=Right, steps=[call(X)] * 3, timed=True)
    assert measured.row.samples == []


def test_a_schedule_whose_second_pass_means_something_else_is_not_timed(measured):
    with pytest.raises(CaseError, match="second pass means something else"):
        measured.sequence(
            make=Adds, fresh=Adds, steps=[call(X), call(Y)], stateful=True, timed=True
        )


def test_a_schedule_that_resets_is_timed(measured):
    steps = [call.reset(), call(X), call(Y)]
    row = measured.sequence(make=Adds, fresh=Adds, steps=steps, stateful=True, timed=True)
    assert row.samples


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([Schedule("a", (call(X),)), Schedule("b", (call(Y),))], "one schedule"),
        ([call(X).raising(ValueError)], "cannot raise"),
    ],
)
def test_what_is_no_unit_is_not_timed(measured, steps, says):
    with pytest.raises(CaseError, match=says):
        measured.sequence(make=Right, fresh=Right, steps=steps, timed=True)
