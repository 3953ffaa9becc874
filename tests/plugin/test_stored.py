"""What a stored run decides, and what it leaves to pairs. Pure: rows in, verdicts out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_rightfast import stored
from pytest_rightfast.config import Config
from pytest_rightfast.errors import ResultsError
from pytest_rightfast.exits import ExitCode, conclude
from pytest_rightfast.results import Row
from pytest_rightfast.stored import Bench, Stored

CASE = "perf/test_a.py::test_a"
HERE = {"python": "3.11.7", "torch": "2.13.0", "host": "one", "cpu": "x", "cpu_count": 2}
BENCH = Bench(1.0, 1.02, "subject", {"draw 0": 1e-7}, {"allocations": 1}, "abc", 1, HERE)


def row(**changes: Any) -> Row:
    known: dict[str, Any] = {
        "samples": [0.98, 1.0, 1.02],
        "errors": {"draw 0": 1e-7},
        "counters": {"allocations": 1},
        "inputs": "abc",
        "environment": HERE,
    }
    return Row(CASE, CASE, "ours", **(known | changes))


def judged(*rows: Row, bench: Bench = BENCH, whole: bool = True) -> tuple[list[str], ExitCode]:
    run = Stored("0001_main.json", "c0ffee", False, {CASE: bench})
    doubts = stored.suspects(rows, run)
    found = stored.judgements(rows, run, doubts, Config(), whole)
    return [str(one.verdict) for one in found], conclude(found).code


@pytest.mark.parametrize(
    ("changes", "verdict", "code"),
    [
        ({}, "same", 0),
        ({"status": "wrong", "samples": []}, "wrong", 11),
        ({"errors": {"draw 0": 2e-7}}, "less accurate", 11),
        ({"errors": {"draw 0": 1.2e-7}}, "same", 0),
        ({"counters": {"allocations": 2}}, "costlier", 12),
        ({"counters": {"allocations": 1, "python_calls": 9}}, "same", 0),
        ({"status": "error", "samples": []}, "not measured", 13),
        ({"status": "unsupported", "samples": []}, "not measured", 13),
        ({"inputs": "other"}, "not comparable", 13),  # and nothing else was compared
        # A slower time alone decides nothing.
        ({"samples": [9.0, 9.1, 9.2]}, "undecided", 0),
        # The gravest finding gives the verdict and the exit code.
        ({"errors": {"draw 0": 1e-3}, "counters": {"allocations": 2}}, "less accurate", 11),
    ],
)
def test_what_fails_at_once(changes, verdict, code):
    assert judged(row(**changes)) == ([verdict], code)


def test_other_versions_count_differently():
    newer = HERE | {"torch": "2.14.0"}
    assert judged(row(counters={"allocations": 2}, environment=newer))[0] == ["undecided"]


def test_gone_and_new():
    new = replace(row(), id="perf/test_a.py::test_b")
    assert judged(new) == (["new", "gone"], 13)
    assert judged(new, whole=False)[0] == ["new"]
    assert judged(row(), new) == (["same", "new"], 0)


def test_a_peer_is_neither_judged_nor_gone():
    assert judged(row(role="peer"), row()) == (["same"], 0)
    theirs = replace(BENCH, role="peer")
    run = Stored("a", "c0ffee", False, {CASE: BENCH, "theirs": theirs})
    found = stored.judgements([row()], run, [], Config(), whole=True)
    assert [one.case for one in found] == [CASE]


def test_a_subject_that_became_a_peer_is_not_measured():
    assert judged(row(role="peer")) == (["not measured"], 13)


def test_what_was_to_run_and_did_not_is_not_measured():
    run = Stored("a", "c0ffee", False, {CASE: BENCH, "b": BENCH})
    found = stored.judgements([row()], run, [], Config(), whole=False, asked=[CASE, "b"])
    assert [str(one.verdict) for one in found] == ["same", "not measured"]


@pytest.mark.parametrize(
    "change",
    [
        {"stats": {"median": float("nan"), "q3": 1.0}},
        {"stats": {"median": 0, "q3": 1.0}},
        {"stats": {"median": -1.0, "q3": 1.0}},
        {"stats": {"median": 1.0, "q3": float("nan")}},
        {"stats": {"median": 10**400, "q3": 10**400}},
        {"stats": {"median": 2.0, "q3": 1.0}},
        {"extra_info": {"errors": "none"}},
        {"extra_info": {"counters": {"allocations": "many"}}},
        {"extra_info": {"environment": ["here"]}},
    ],
    ids=str,
)
def test_a_damaged_run_is_refused(change):
    bench = {"fullname": CASE, "stats": {"median": 1.0, "q3": 1.1}, "extra_info": {}} | change
    with pytest.raises(ResultsError, match="remedy"):
        stored.parse("a", {"benchmarks": [bench]})


def test_a_case_may_have_its_own_accuracy_limit():
    from pytest_rightfast.config import parse

    config = parse({"cases": {"*test_a": {"accuracy-limit": 3.0}}}, "toml")
    run = Stored("a", "c0ffee", False, {CASE: BENCH})
    (found,) = stored.judgements([row(errors={"draw 0": 2e-7})], run, [], config, whole=True)
    assert found.verdict == "same"


class TestSuspects:
    def found(self, *rows: Row, **benches: Bench) -> list[tuple[str, float]]:
        run = Stored("a", "c0ffee", False, benches or {CASE: BENCH})
        return [(one.id, round(one.ratio, 2)) for one in stored.suspects(rows, run)]

    def test_slower_by_a_tenth_and_apart(self):
        assert self.found(row(samples=[1.19, 1.2, 1.21])) == [(CASE, 1.2)]
        assert self.found(row(samples=[1.05, 1.06, 1.07])) == []

    def test_samples_that_overlap_are_no_suspects(self):
        assert self.found(row(samples=[0.9, 0.95, 1.2, 1.3, 1.4])) == []

    def test_a_wide_stored_run_blinds_no_case(self):
        assert self.found(row(samples=[1.6] * 3), **{CASE: replace(BENCH, upper=9.0)}) == [
            (CASE, 1.6)
        ]

    def test_worst_first_and_those_from_elsewhere_last(self):
        ids = ["a", "b", "c"]
        benches = dict.fromkeys(ids, BENCH) | {"b": replace(BENCH, threads=2)}
        rows = [replace(row(samples=[s] * 3), id=i) for i, s in zip(ids, (1.3, 9.0, 1.7))]
        assert self.found(*rows, **benches) == [("c", 1.7), ("a", 1.3), ("b", 0)]

    @pytest.mark.parametrize(
        ("ours", "peers", "expected"),
        [
            (1.3, [1.2] * 5, []),
            (1.6, [1.2] * 5, [(CASE, 1.6)]),
            (1.45, [1.3] * 5, [(CASE, 1.45)]),
            (2.2, [2.0] * 5, [(CASE, 2.2)]),  # a peer may have a reason of its own
            (1.3, [1.3] * 4, [(CASE, 1.3)]),  # too few to tell
            (1.3, [0.5, 1.0, 1.0, 1.3, 9.0], [(CASE, 1.3)]),
            (1.2, [0.5] * 5, [(CASE, 1.2)]),
            (1.0, [0.5] * 5, []),  # a faster machine makes no suspects
        ],
    )
    def test_a_machine_that_is_slower_for_peers_too(self, ours, peers, expected):
        names = [f"peer {number}" for number in range(len(peers))]
        benches = {CASE: BENCH} | dict.fromkeys(names, replace(BENCH, role="peer"))
        others = [
            replace(row(samples=[seconds] * 3), id=name, role="peer")
            for name, seconds in zip(names, peers)
        ]
        assert self.found(row(samples=[ours] * 3), *others, **benches) == expected

    @pytest.mark.parametrize("key", stored.CONDITIONS)
    def test_a_time_from_elsewhere_decides_nothing(self, key):
        assert self.found(row(environment=HERE | {key: "another"})) == [(CASE, 0)]

    def test_neither_does_one_of_another_thread_count(self):
        assert self.found(row(threads=4)) == [(CASE, 0)]


def test_runs_without_our_fields_have_times_alone():
    content = {
        "commit_info": {"id": "unversioned", "dirty": False},
        "benchmarks": [{"fullname": CASE, "stats": {"median": 1.0, "q3": 1.1}}],
    }
    run = stored.parse("a", content)
    assert run.commit is None
    (found,) = stored.suspects([row()], run)
    assert "machine" in found.reason
