"""Facts of two sides -> verdicts and exit codes; waivers, thresholds, advisory mode."""

import pytest

from pytest_rightfast import gate, gate_report

CASE = "perf/test_a.py::test_a"
CALLS = {"base": 1, "again": 1, "head": 9}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("same", 0)),
        ({"seconds": {"head": 1.3e-3}}, ("slower", 10)),
        ({"seconds": {"head": 0.7e-3}}, ("faster", 0)),
        ({"verified": {"head": ("wrong", "by one")}}, ("wrong", 11)),
        ({"verified": {"base": ("wrong", "x"), "head": ("wrong", "x")}}, ("wrong on both", 11)),
        ({"errors": {"head": {"draw 0": 1e-7, "large": 2e-7}}}, ("same", 0)),
        ({"errors": {"head": {"draw 0": 2e-7}}}, ("less accurate", 11)),
        ({"counts": {"head": {"allocations": 2}}}, ("costlier", 12)),
        ({"wrong_rounds": {"head": "off by one"}}, ("wrong", 11)),
        ({"too_fast": {"head": "implausible: 1 us"}}, ("implausible", 11)),
        ({"counts": {arm: {"python_calls": n} for arm, n in CALLS.items()}}, ("same", 0)),
        ({"dies": ["head"]}, ("not measured", 13)),
        ({"dies": ["base"]}, ("not measured", 13)),
        ({"verified": {"head": ("raised", "boom")}}, ("not measured", 13)),
        ({"verified": {"head": ("skipped", "no")}}, ("not measured", 13)),
        # Nothing was compared: that fails, whatever the reason.
        ({"verified": {"base": ("wrong", "x")}}, ("fixed", 13)),
        ({"verified": {"base": ("raised", "x")}}, ("not comparable", 13)),
        (
            {"verified": {"base": ("skipped", "x"), "head": ("skipped", "x")}},
            ("not comparable", 13),
        ),
    ],
)
def test_verdict_and_exit_code(judged, changes, expected, script, verdict):
    assert verdict(judged(script(**changes))) == expected


def test_a_death_in_a_timed_round_is_blamed_on_its_arm(judged, script):
    report = judged(script(dies=["base"]))
    assert report.judgements[0].reason == "base not measured: base: sample: killed by SIGKILL"


def test_no_case_at_all_fails(judged, script):
    report = judged(script(cases=[]))
    assert report.result.code == 13
    assert report.result.reasons == ("no case was compared (0 seen)",)


def test_gone_beside_a_case_that_is_compared(judged, script):
    made = script()
    made.own = [CASE, "perf/test_a.py::test_old"]
    report = judged(made)
    assert [str(j.verdict) for j in report.judgements] == ["same", "gone"]
    assert report.result.code == 13


def test_a_case_may_have_its_own_accuracy_limit(judged, script, verdict):
    less = {"errors": {"head": {"draw 0": 2e-7}}}
    table = {"cases": {"*": {"accuracy-limit": 3}}}
    assert verdict(judged(script(**less), table)) == ("same", 0)


def test_advisory_mode_says_what_it_would_do(judged, script):
    report = judged(script(seconds={"head": 1.3e-3}), {"advisory": True})
    assert (report.result.code, report.result.would) == (0, 10)
    assert "advisory: would fail (slower, exit 10)" in gate_report.conclusion(report)


def test_fail_on(judged, script, verdict):
    slow = {"seconds": {"head": 1.3e-3}}
    assert verdict(judged(script(**slow), {"fail-on": ["wrong"]})) == ("slower", 0)
    assert verdict(judged(script(), {"fail-on": ["same"]})) == ("same", 14)


ACCEPT = """
[[accept]]
case = "perf/test_a.py::test_a"
verdict = "costlier"
limit = "+1"
reason = "bounds checks"
expires = {}
"""
QUARANTINE = """
[[quarantine]]
case = "*"
reason = "a shared disk"
expires = {}
"""


@pytest.mark.parametrize("table", [ACCEPT, QUARANTINE])
@pytest.mark.parametrize(("expires", "code"), [("2999-01-01", 0), ("2001-01-01", 12)])
def test_a_waiver_holds_until_it_expires_and_is_always_printed(
    judged, table, expires, code, script, verdict
):
    costly = script(counts={"head": {"allocations": 2}})
    report = judged(costly, accepted=table.format(expires))
    assert verdict(report) == ("costlier", code)
    (note,) = report.notes
    assert ("expired" in note) == (code == 12)
    assert "(until " in note
    assert ("costlier accepted:" in "\n".join(gate_report.lines(report))) == (code == 0)


def test_a_waiver_covers_no_more_than_its_limit(judged, script, verdict):
    costly = script(counts={"head": {"allocations": 3}})
    assert verdict(judged(costly, accepted=ACCEPT.format("2999-01-01"))) == ("costlier", 12)


def test_a_waiver_that_matches_no_case_is_named(judged, script):
    text = ACCEPT.format("2999-01-01").replace("test_a.py", "test_b.py")
    assert judged(script(), accepted=text).notes[0].endswith("matches no case")


def test_a_file_that_base_cannot_import_never_makes_its_cases_new(judged, script, verdict):
    failed = {"perf/test_a.py": "E   ImportError: no toy.helpers"}
    report = judged(script(failed={"base": failed}))
    assert verdict(report) == ("not comparable", 13)
    assert "no toy.helpers" in report.judgements[0].reason
    assert report.notes == ["base: perf/test_a.py failed: ImportError: no toy.helpers"]


def test_a_file_that_head_cannot_import_makes_nothing_gone(judged, script, verdict):
    made = script(failed={"head": {"perf/test_a.py": "E   SyntaxError: bad"}})
    made.own = [CASE]
    assert verdict(judged(made)) == ("not measured", 13)


def test_other_inputs_are_not_comparable(judged, script, verdict):
    assert verdict(judged(script(inputs={"head": "others"}))) == ("not comparable", 13)


@pytest.mark.parametrize("arm", ["base", "head"])
def test_foreign_code_is_not_measured(judged, script, verdict, arm):
    report = judged(script(stray={arm: "it ran code from outside"}))
    assert verdict(report) == ("not measured", 13)


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("perf", True),
        (".", True),
        ("perf/test_a.py", True),
        ("perf/test_a.py::test_a", True),
        ("perf/test_a.py::test_b", False),
        ("perf/test_b.py", False),
        ("perf/test", False),
        ("other", False),
    ],
)
def test_only_what_was_asked_for_can_be_gone(path, inside):
    assert gate._selected(f"{CASE}[1]", (path,)) is inside
    assert gate._selected(CASE, (path,)) is inside
