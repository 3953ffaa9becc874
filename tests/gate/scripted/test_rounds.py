"""When pairs run, on which arms, and when they end."""

import pytest

CASE = "perf/test_a.py::test_a"


def test_an_effect_below_the_threshold_passes_and_a_case_may_have_its_own(judged, script, verdict):
    slow = {"seconds": {"head": 1.08e-3}}
    assert verdict(judged(script(**slow))) == ("slower", 10)
    table = {"cases": {"*test_a": {"min-effect": "12%"}}}
    assert verdict(judged(script(**slow), table)) == ("same", 0)
    assert verdict(judged(script(**slow), {"min-effect": "12%"})) == ("same", 0)


def test_settled_cases_are_timed_no_further(judged, script):
    made = script(seconds={"head": 1.3e-3})
    assert judged(made).pairs == 6


@pytest.mark.parametrize("budget", [1, 7, 30])
def test_the_last_pair_ends_within_the_budget(judged, budget, script):
    made = script(seconds={"head": 1.04e-3})  # not to be settled
    made.pair_seconds = 2.0
    report = judged(made, {"budget": budget, "min-effect": "4%"})
    assert report.pairs == {1: 1, 7: 3, 30: 14}[budget]
    # Fewer than four pairs judge no time at all: that is never green.
    assert int(report.result.code) == (0 if budget == 30 else 13)
    assert made.now <= max(budget, made.pair_seconds)


def test_a_case_that_only_verifies_is_compared_but_not_timed(judged, script, verdict):
    made = script(counts={"head": {"allocations": 2}})
    made.timed = False
    report = judged(made)
    assert (verdict(report), report.pairs) == (("costlier", 12), 0)
    made = script()
    made.timed = False
    assert verdict(judged(made)) == ("same", 0)


def test_the_arm_with_bases_own_perf_file_starts_only_where_it_is_needed(judged, script):
    made = script()
    made.own = [CASE]
    judged(made)
    assert made.started[0] == ["base", "again", "head", "own"]
    assert all(names == ["head", "base", "again"] for names in made.started[1:])


def test_a_case_that_runs_with_bases_own_file_has_an_a_a_arm_of_its_own(judged, script, verdict):
    made = script(verified={"base": ("raised", "no such name")})
    made.own = [CASE]
    made.seconds |= {"own": 1e-3, "own again": 1e-3, "base": 9e-3, "again": 9e-3}
    report = judged(made)
    assert verdict(report) == ("same", 0)
    assert made.started[0] == ["base", "again", "head", "own", "own again"]
    assert all(names == ["head", "own", "own again"] for names in made.started[1:])


@pytest.mark.parametrize("times", [2, 10])
def test_one_call_of_three_that_became_slow_is_slower(judged, script, verdict, times):
    """The typical call is what it was."""
    report = judged(script(burdens={"head": times}))
    assert verdict(report) == ("slower", 10)
    (finding,) = report.judgements[0].findings
    assert "mean of all calls" in finding.reason


def test_calls_that_are_slow_on_both_sides_are_no_change(judged, script, verdict):
    report = judged(script(burdens=dict.fromkeys(("base", "again", "head"), 5)))
    assert verdict(report) == ("same", 0)
