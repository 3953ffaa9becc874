"""The benchmarks that asv gets, and which process measures: without running a case."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_rightfast import asv_benchmarks, asv_cases
from pytest_rightfast.asv_rows import Rows, is_wrong
from pytest_rightfast.asv_side import Answer
from pytest_rightfast.errors import PerfError
from pytest_rightfast.results import Row

CASE = "perf/test_a.py::test_b"


def row(*, status="ok", inputs="f", reason=None, copy_seconds=0.1):
    return Row(
        CASE,
        CASE,
        "b",
        status=status,
        reason=reason,
        samples=[0.25, 0.5, 0.125] if status == "ok" else [],
        error=3e-8,
        copy_seconds=copy_seconds,
        counters={"operators": 3},
        inputs=inputs,
    )


@dataclass
class FakeSide:
    """Answers in place of a process; `asked` says whose perf file each question was for."""

    root: Path
    answers: list[Answer]
    top: Path | None = None
    asked: list[str] = field(default_factory=list)

    @property
    def perf(self):
        return self.root / "perf"

    def ask(self, arguments, *, own_perf=False, timeout=0.0):
        self.asked.append("own" if own_perf else "head")
        return self.answers.pop(0)


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Rows of a commit; `own=True` gives it a perf file of its own."""
    monkeypatch.setenv("RIGHTFAST_CACHE", str(tmp_path / "cache"))
    for name in ("head", "own"):
        (tmp_path / name / "perf").mkdir(parents=True)
        (tmp_path / name / "perf" / "test_a.py").touch()

    def build(*answers, own=False, commit="c"):
        monkeypatch.setenv("ASV_COMMIT", commit)
        side = FakeSide(tmp_path / "head", list(answers), tmp_path / "own" if own else None)
        return Rows(side, [], 60.0)

    return build


def benchmarks(rows, *, parameters=("",), base=CASE):
    cases = [{"id": base, "base": base, "parameters": p, "source": "def f"} for p in parameters]
    made = asv_benchmarks.Maker(rows, base, cases, rows.side.perf, 2, 60.0).all(
        ("operators", "absent")
    )
    return {one.benchmark_name: one for one in made}


def test_names_are_stable(make):
    assert list(benchmarks(make())) == [
        "test_a.time_b",
        "test_a.track_wrong_b",
        "test_a.track_error_b",
        "test_a.track_percent_of_copy_b",
        "test_a.track_operators_b",
        "test_a.track_absent_b",
    ]


def test_folders_classes_and_dashes_are_in_the_name(make):
    found = benchmarks(make(), base="perf/sub-part/test_a.py::TestC::test_d")
    assert "sub_part.test_a.TestC.time_d" in found


def test_asv_itself_reads_the_samples(make):
    time = pytest.importorskip("asv_runner.benchmarks.time")
    found = benchmarks(make(Answer(row=row())))["test_a.time_b"]
    benchmark = time.TimeBenchmark(found.benchmark_name, found, [found])
    assert benchmark.do_setup() is False
    assert benchmark.do_run() == {"samples": [0.25, 0.5, 0.125], "number": 1}
    assert (benchmark.version, benchmark.code, benchmark.rounds) == ("1", "def f", 2)


def test_a_wrong_case_is_skipped_by_asv(make):
    time = pytest.importorskip("asv_runner.benchmarks.time")
    rows = make(Answer(row=row(status="wrong", reason="element 3")))
    found = benchmarks(rows)
    benchmark = time.TimeBenchmark("time_b", found["test_a.time_b"], [found["test_a.time_b"]])
    assert benchmark.do_setup() is True
    assert found["test_a.track_wrong_b"]() == 1
    assert math.isnan(found["test_a.track_error_b"]())


def test_parameters_are_those_of_the_node_id(make):
    rows = make(Answer(row=row()))
    found = benchmarks(rows, parameters=("x-1", "y"))["test_a.track_operators_b"]
    assert repr(found.params) == "[[x-1, y]]"
    assert found(found.params[0][0]) == 3


def test_tracks_read_one_row(make):
    rows = make(Answer(row=row()))
    found = benchmarks(rows)
    assert found["test_a.track_wrong_b"]() == 0
    assert found["test_a.track_operators_b"]() == 3
    assert math.isnan(found["test_a.track_absent_b"]())
    assert found["test_a.track_error_b"]() == 3e-8  # 2^-25
    assert found["test_a.track_percent_of_copy_b"]()["samples"] == [250.0, 500.0, 125.0]
    assert rows.side.asked == ["head"]


def test_each_round_is_a_process_of_its_own(make):
    rows = make(Answer(row=row()), Answer(row=row()))
    rows.all(CASE)
    rows.next(CASE)
    assert len(rows.side.asked) == 1  # a row that no round has taken is not measured again
    rows.next(CASE)
    assert len(rows.side.asked) == 2


def test_wrong_in_one_round_is_wrong(make):
    rows = make(Answer(row=row(status="wrong")), Answer(row=row()))
    rows.next(CASE)
    assert is_wrong(rows.next(CASE))
    assert is_wrong(rows.all(CASE))


def test_a_new_command_forgets(make):
    rows = make(Answer(row=row()), Answer(row=row()))
    rows.all(CASE)
    rows.reset([])
    rows.all(CASE)
    assert len(rows.side.asked) == 2


@pytest.mark.parametrize(
    ("answer", "status", "wrong"),
    [
        (Answer(reason="killed by SIGSEGV"), "error", 1),
        (Answer(failed={"perf/test_a.py": "ImportError"}), "error", 1),
        (Answer(row=row(status="error", reason="TypeError")), "error", 1),
        (Answer(skipped=True, reason="no such device"), "unsupported", math.nan),
        (Answer(row=row(status="unsupported")), "unsupported", math.nan),
        (Answer(), "absent", math.nan),
    ],
)
def test_what_counts_as_wrong(make, answer, status, wrong):
    rows = make(answer)
    assert rows.all(CASE)[0].status == status
    assert benchmarks(rows)["test_a.track_wrong_b"]() == pytest.approx(wrong, nan_ok=True)


def test_new_on_head_is_absent_on_base(make):
    rows = make(Answer(reason="AttributeError"), Answer(), own=True)
    assert rows.all(CASE)[0].status == "absent"
    assert rows.side.asked == ["head", "own"]


def test_broken_on_base_is_not_new(make):
    failed = Answer(failed={"perf/test_a.py": "ImportError"})
    assert make(failed, failed, own=True).all(CASE)[0].status == "error"


def test_own_perf_file_counts_only_with_the_same_inputs(make):
    broken = Answer(row=row(status="error"))
    make(Answer(row=row(inputs="f")), commit="head").all(CASE)
    same = make(broken, Answer(row=row(inputs="f")), own=True, commit="one").all(CASE)[0]
    other = make(broken, Answer(row=row(inputs="g")), own=True, commit="two").all(CASE)[0]
    assert same.row is not None
    assert (other.status, other.row) == ("ok", None)


def test_inputs_that_differ_between_commits_are_not_compared(make):
    make(Answer(row=row(inputs="f")), commit="one").all(CASE)
    other = make(Answer(row=row(inputs="g")), commit="two").all(CASE)[0]
    assert (other.status, other.row) == ("ok", None)


def test_all_commits_share_one_copy_limit(make):
    make(Answer(row=row(copy_seconds=0.1)), commit="one").all(CASE)
    other = make(Answer(row=row(copy_seconds=0.3)), commit="two").all(CASE)[0]
    assert other.row.copy_seconds == 0.1


def test_at_most_a_thousand_samples_over_the_whole_run():
    found = asv_benchmarks._thinned([float(i) for i in range(2500)])
    assert len(found) <= asv_benchmarks.MOST_SAMPLES
    assert found[-1] >= 2497


def test_no_cases_says_what_to_do(make):
    rows = make(Answer(failed={"perf/test_a.py": "ImportError: no module"}))
    with pytest.raises(PerfError, match=r"(?s)ImportError: no module.*--collect-only"):
        asv_cases._cases(rows)


@pytest.mark.parametrize(
    ("python", "requirements", "why"),
    [("2.7", {}, "uses the Python that runs asv"), ("same", {"numpy": "1"}, "installs nothing")],
)
def test_snapshot_refuses_what_it_cannot_give(python, requirements, why):
    pytest.importorskip("asv")
    from asv.environment import EnvironmentUnavailable

    from pytest_rightfast.asv_snapshot import Snapshot

    with pytest.raises(EnvironmentUnavailable, match=why):
        Snapshot(SimpleNamespace(), python, requirements, {})
