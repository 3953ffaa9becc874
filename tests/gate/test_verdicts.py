import math

import pytest

from pytest_rightfast.exits import (
    CODES,
    DEFAULT_FAIL_ON,
    PRECEDENCE,
    ExitCode,
    conclude,
    parse_fail_on,
)
from pytest_rightfast.statistics import Decision, Outcome
from pytest_rightfast.verdicts import (
    SEVERITY,
    Facts,
    Judgement,
    Side,
    Status,
    Verdict,
    exact_counters,
    judge,
)

OK = Side(Status.OK)


def timed(outcome, ratio=1.0):
    return Decision(outcome, ratio, ratio, ratio, 0.05, 9, "as measured")


def verdict(base=OK, head=OK, **more):
    more.setdefault("decision", timed(Outcome.SAME))
    return judge(Facts("a.py::test", base, head, **more))


@pytest.mark.parametrize("outcome", Outcome)
def test_time_alone_gives_the_tests_outcome(outcome):
    found = verdict(decision=timed(outcome, 1.2))
    assert found.verdict == outcome.value
    assert found.compared
    assert found.reason == "as measured"


STRUCTURE = [
    ("ok", "wrong", "wrong"),
    ("absent", "wrong", "wrong"),
    ("raised", "wrong", "wrong"),
    ("wrong", "wrong", "wrong on both"),
    ("wrong", "ok", "fixed"),
    ("ok", "implausible", "implausible"),
    ("implausible", "ok", "not comparable"),
    ("absent", "ok", "new"),
    ("raised", "ok", "not comparable"),
    ("not measured", "ok", "not measured"),
    ("ok", "not measured", "not measured"),
    ("ok", "raised", "not measured"),
    ("raised", "raised", "not measured"),
    ("ok", "absent", "gone"),
    ("wrong", "absent", "gone"),
    ("ok", "skipped", "not measured"),
    ("skipped", "skipped", "not comparable"),
    ("absent", "skipped", "not comparable"),
    ("skipped", "ok", "not comparable"),
    ("absent", "raised", "not measured"),
]


@pytest.mark.parametrize(("base", "head", "expected"), STRUCTURE)
def test_two_states_give_one_verdict(base, head, expected):
    found = verdict(Side(Status(base), "why"), Side(Status(head), "why"))
    assert found.verdict == expected
    assert not found.compared


@pytest.mark.parametrize("base", Status)
@pytest.mark.parametrize("head", Status)
def test_no_pair_of_states_is_without_a_verdict(base, head):
    found = verdict(Side(base), Side(head))
    assert found.compared == (base == head == Status.OK)


def test_an_import_error_on_base_is_never_new():
    found = verdict(Side(Status.RAISED, "ImportError: no module named y"))
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert "ImportError" in found.reason


def test_other_inputs_are_not_comparable():
    found = verdict(differ="the inputs' fingerprints differ", decision=timed(Outcome.SLOWER, 2.0))
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert not found.compared


def test_accuracy_is_judged_against_its_limit():
    assert verdict(error_ratio=1.4).verdict is Verdict.SAME
    assert verdict(error_ratio=2.0).verdict is Verdict.LESS_ACCURATE
    assert verdict(error_ratio=2.0, accuracy_limit=3.0).verdict is Verdict.SAME


def test_one_more_allocation_is_costlier_and_less_is_not():
    found = verdict(counters={"allocations": (2, 3), "launches": (5, 4)})
    assert found.verdict is Verdict.COSTLIER
    assert (found.findings[0].size, found.findings[0].added) == (1.5, 1)
    assert verdict(counters={"allocations": (3, 2)}).verdict is Verdict.SAME


def test_the_first_allocation_is_infinitely_more():
    assert verdict(counters={"allocations": (0, 1)}).findings[0].size == math.inf


def test_faster_at_one_more_allocation_is_shown_as_a_trade():
    found = verdict(decision=timed(Outcome.FASTER, 0.5), counters={"allocations": (2, 3)})
    assert [f.verdict for f in found.findings] == ["costlier", "faster"]
    assert "a trade for speed: allocations 2 -> 3" in found.reason


def test_every_finding_is_kept_and_the_gravest_names_the_case():
    found = verdict(
        decision=timed(Outcome.SLOWER, 1.3), counters={"bytes": (1, 2)}, error_ratio=9.0
    )
    assert [f.verdict for f in found.findings] == ["less accurate", "slower", "costlier"]


class TestCounters:
    SAME = ({"torch": "2.13"}, {"torch": "2.13"})

    def test_only_counts_that_agree_between_passes_gate(self):
        base = [{"ops": 5, "bytes": 10}, {"ops": 5, "bytes": 11}]
        head = [{"ops": 6, "bytes": 12}, {"ops": 6, "bytes": 12}]
        assert exact_counters(base, head, *self.SAME) == {"ops": (5, 6)}

    def test_one_pass_proves_nothing(self):
        assert exact_counters([{"ops": 5}], [{"ops": 6}] * 2, *self.SAME) == {}

    def test_other_versions_gate_nothing(self):
        twice = [{"ops": 5}] * 2
        assert exact_counters(twice, twice, {"torch": "2.12"}, {"torch": "2.13"}) == {}


class TestExit:
    def test_passes_where_nothing_fails(self):
        assert conclude([verdict()]).code == 0

    def test_an_improvement_never_fails(self):
        assert conclude([verdict(decision=timed(Outcome.FASTER, 0.5))]).code == 0

    @pytest.mark.parametrize(
        ("facts", "code"),
        [
            ({"decision": timed(Outcome.SLOWER, 1.2)}, 10),
            ({"head": Side(Status.WRONG)}, 11),
            ({"error_ratio": 2.0}, 11),
            ({"head": Side(Status.IMPLAUSIBLE)}, 11),
            ({"counters": {"ops": (1, 2)}}, 12),
            ({"head": Side(Status.ABSENT)}, 13),
            ({"head": Side(Status.NOT_MEASURED)}, 13),
            ({"decision": timed(Outcome.UNDECIDED)}, 0),
            ({"base": Side(Status.ABSENT)}, 0),
            ({"base": Side(Status.RAISED)}, 0),
        ],
    )
    def test_each_verdict_has_its_code(self, facts, code):
        assert conclude([verdict(), verdict(**facts)]).code == code

    def test_zero_compared_cases_fail(self):
        for judgements in ([], [verdict(base=Side(Status.ABSENT))]):
            result = conclude(judgements, fail_on=frozenset())
            assert result.code == ExitCode.MISSING
            assert "no case was compared" in result.reasons[0]

    def test_codes_lie_outside_pytests_and_have_one_order(self):
        assert set(CODES) == set(Verdict)
        assert set(CODES.values()) == set(PRECEDENCE)
        assert all(code == 0 or code > 5 for code in ExitCode)

    def test_precedence(self):
        slower = verdict(decision=timed(Outcome.SLOWER, 1.2))
        costlier = verdict(counters={"ops": (1, 2)})
        gone = verdict(head=Side(Status.ABSENT))
        wrong = verdict(head=Side(Status.WRONG))
        assert conclude([costlier, slower]).code == ExitCode.SLOWER
        assert conclude([costlier, slower, gone]).code == ExitCode.MISSING
        assert conclude([costlier, slower, gone, wrong]).code == ExitCode.ANSWERS

    def test_a_second_finding_fails_though_the_first_is_not_asked_for(self):
        found = verdict(decision=timed(Outcome.SLOWER, 1.3), error_ratio=9.0)
        assert conclude([found], fail_on=frozenset({Verdict.SLOWER})).code == ExitCode.SLOWER

    def test_an_excused_finding_does_not_fail(self):
        slow = verdict(decision=timed(Outcome.SLOWER, 1.2))
        excused = Judgement(slow.case, slow.findings, True, {slow.findings[0]: "agreed"})
        assert conclude([excused]).code == 0
        assert excused.verdict is Verdict.SLOWER

    def test_advisory_mode_fails_nothing_but_says_what_would(self):
        slow = verdict(decision=timed(Outcome.SLOWER, 1.2))
        result = conclude([slow], advisory=True)
        assert (result.code, result.would) == (0, 10)
        assert "slower" in result.reasons[0]

    def test_advisory_mode_still_fails_where_nothing_was_compared(self):
        assert conclude([], advisory=True).code == ExitCode.MISSING

    def test_fail_on_is_parsed_strictly(self):
        assert parse_fail_on("slower, wrong-on-both") == {Verdict.SLOWER, Verdict.WRONG_ON_BOTH}
        with pytest.raises(ValueError, match=r"expected verdicts of .*got 'slow'"):
            parse_fail_on("slow")

    def test_undecided_fails_only_on_request(self):
        undecided = verdict(decision=timed(Outcome.UNDECIDED))
        asked = DEFAULT_FAIL_ON | {Verdict.UNDECIDED}
        assert conclude([undecided], fail_on=asked).code == ExitCode.OTHER


def test_severity_covers_what_two_sides_that_ran_can_show():
    for outcome in Outcome:
        assert Verdict(outcome.value) in SEVERITY
