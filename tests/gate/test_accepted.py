import datetime

import pytest

from pytest_rightfast.accepted import AcceptedError, load, parse
from pytest_rightfast.exits import conclude
from pytest_rightfast.verdicts import Finding, Judgement, Verdict

TODAY = datetime.date(2026, 6, 1)
CASE = "perf/test_wave.py::test_haar[(256, 256)-kernel]"
GOOD = {
    "case": CASE,
    "verdict": "slower",
    "limit": "1.15x",
    "reason": "bounds checks",
    "expires": datetime.date(2026, 6, 1),
}


def slower(size=1.1):
    return Judgement(CASE, (Finding(Verdict.SLOWER, "slow", size),), compared=True)


def costlier(*counters):
    found = (Finding(Verdict.COSTLIER, n, size, added, n) for n, size, added in counters)
    return Judgement(CASE, tuple(found), compared=True)


def accept(judgement, today=TODAY, **row):
    return parse({"accept": [{**GOOD, **row}]}, "accepted.toml").apply(judgement, today)


def code(judgement):
    return conclude([judgement]).code


def test_a_waiver_within_its_limit_excuses_and_keeps_the_verdict():
    found = accept(slower())
    assert code(found) == 0
    assert found.verdict is Verdict.SLOWER
    assert "bounds checks" in next(iter(found.excused.values()))


def test_a_waiver_has_a_ceiling():
    assert code(accept(slower(1.16))) == 10
    assert code(accept(slower(1.12), limit="12%")) == 0
    assert code(accept(slower(1.13), limit="12%")) == 10


def test_a_waiver_ends_after_its_day():
    assert code(accept(slower(), TODAY)) == 0
    tomorrow = TODAY + datetime.timedelta(days=1)
    assert code(accept(slower(), tomorrow)) == 10
    assert len(parse({"accept": [GOOD]}, "f").expired(tomorrow)) == 1
    assert not parse({"accept": [GOOD]}, "f").expired(TODAY)


def test_a_waiver_covers_its_own_verdict_only():
    assert code(accept(slower(), verdict="less accurate")) == 10


def test_patterns_read_brackets_as_they_stand():
    assert code(accept(slower(), case="perf/*::test_haar[(256, 256)-*]")) == 0
    assert code(accept(slower(), case="perf/*::test_haar[(64, 64)-*]")) == 10


def test_a_counter_is_accepted_by_what_is_added_and_by_name():
    grown = costlier(("allocations", 1.5, 1), ("bytes", 2.0, 4096))
    one = {"verdict": "costlier", "limit": "+1", "counter": "allocations"}
    assert code(accept(grown, **one)) == 12
    assert code(accept(costlier(("allocations", 1.5, 1)), **one)) == 0
    assert code(accept(costlier(("allocations", 1.5, 2)), **one)) == 12
    assert code(accept(grown, verdict="costlier", limit="2x")) == 0


def test_a_deleted_case_can_be_accepted():
    gone = Judgement(CASE, (Finding(Verdict.GONE, "deleted"),), compared=False)
    row = {k: v for k, v in GOOD.items() if k != "limit"} | {"verdict": "gone"}
    assert parse({"accept": [row]}, "f").apply(gone, TODAY).excused


def test_quarantine_excuses_every_finding_until_it_expires():
    wrong = Judgement(CASE, (Finding(Verdict.WRONG, "off"), *slower().findings), compared=True)
    row = {"case": "perf/*", "reason": "flaky disk", "expires": TODAY}
    file = parse({"quarantine": [row]}, "f")
    assert code(file.apply(wrong, TODAY)) == 0
    assert code(file.apply(wrong, TODAY + datetime.timedelta(days=1))) == 11


def test_entries_that_match_no_case_are_found():
    file = parse({"accept": [GOOD]}, "f")
    assert not file.unused([CASE])
    assert file.unused(["perf/test_wave.py::test_renamed"]) == file.entries


BAD = [
    ({"limt": "2x"}, "'limt'"),
    ({"reason": None}, "reason = a text"),
    ({"reason": "  "}, "reason = a text"),
    ({"case": 3}, "case = a text"),
    ({"expires": None}, "hold for ever"),
    ({"expires": "soon"}, "got 'soon'"),
    ({"expires": "2026-02-30"}, "2026-02-30"),
    ({"expires": datetime.datetime(2026, 1, 1, 5)}, "with a time"),
    ({"limit": "fast"}, "got 'fast'"),
    ({"limit": None}, "got None"),
    ({"limit": 1.2}, "got 1.2"),
    ({"limit": "0.9x"}, "above 1x"),
    ({"limit": "12"}, "got '12'"),
    ({"limit": "+1"}, r"got '\+1'"),
    ({"limit": "+1.5x"}, "got"),
    ({"verdict": "wrong"}, "quarantine"),
    ({"verdict": "gone"}, "no limit"),
    ({"counter": "ops"}, "'costlier'"),
]


@pytest.mark.parametrize(("change", "words"), BAD)
def test_a_bad_entry_is_named_with_expected_and_got(change, words):
    row = {k: v for k, v in {**GOOD, **change}.items() if v is not None}
    with pytest.raises(AcceptedError, match=words) as caught:
        parse({"accept": [GOOD, row]}, "perf/accepted.toml")
    message = str(caught.value)
    assert message.startswith("perf/accepted.toml: [[accept]] entry 2: expected ")


def test_unknown_tables_and_single_brackets_are_refused():
    with pytest.raises(AcceptedError, match="'acept'"):
        parse({"acept": [GOOD]}, "f")
    with pytest.raises(AcceptedError, match="two brackets"):
        parse({"accept": GOOD}, "f")


def test_the_file_is_read_as_toml(tmp_path):
    path = tmp_path / "accepted.toml"
    assert load(path).entries == ()
    path.write_text(
        '[[accept]]\ncase = "a"\nverdict = "slower"\nlimit = "12%"\nreason = "r"\n'
        "expires = 2026-01-02\n[[quarantine]]\ncase = 'b'\nreason = 's'\nexpires = 2026-01-03\n"
    )
    assert [e.expires.day for e in load(path).entries] == [2, 3]


@pytest.mark.parametrize("content", [b"[[accept", b"\xff\xfe"])
def test_a_file_that_is_no_toml_is_an_error_not_an_empty_list(tmp_path, content):
    path = tmp_path / "accepted.toml"
    path.write_bytes(content)
    with pytest.raises(AcceptedError, match=r"accepted\.toml"):
        load(path)
