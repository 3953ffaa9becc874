"""What the reports hold, and what strangers can't put into them."""

import json

import pytest

from pytest_rightfast import comment, gate_markdown, gate_report, gate_stored

CASE = "perf/test_a.py::test_a"


def test_noise_floor_and_smallest_visible_effect_are_reported(judged, script):
    report = judged(script(seconds={"head": 1.3e-3}))
    text = "\n".join(gate_report.lines(report))
    assert "visible" in text
    assert "floor" in text
    (case,) = gate_report.as_json(report)["cases"]
    assert 0 < case["noise_floor"] < 0.02
    assert 0.03 < case["smallest_visible"] < 0.1
    assert len(case["aa_log_ratios"]) == len(case["log_ratios"]) == report.pairs == 6
    assert case["low"] < case["ratio"] < case["high"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seconds": {"head": 1.3e-3}}, True),
        ({"verified": {"head": ("wrong", "x")}}, False),
        ({}, False),
    ],
)
def test_the_way_to_agree_is_named_where_agreeing_is_possible(judged, script, changes, named):
    text = "\n".join(gate_report.lines(judged(script(**changes))))
    assert ("agree to it in perf/accepted.toml" in text) is named


HOSTILE = "a | b\n\n# head <img src=x> `code` [link](http://evil.example) @everyone **bold** $x$"


@pytest.fixture
def hostile(judged, script):
    name = f"perf/test_a.py::test_a[{HOSTILE}]"
    made = script([CASE, name])
    made.verified["head"] = ("wrong", HOSTILE)
    return judged(made)


def test_markdown_escapes_what_strangers_wrote(hostile):
    text = gate_markdown.document(hostile)
    for active in (
        "<img",
        "`code`",
        "[link]",
        "http://",
        "@everyone",
        "**bold**",
        "$x$",
        "\n# head",
    ):
        assert active not in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 4
    assert {line.count("|") for line in table} == {len(gate_report.HEADERS) + 1}


def test_json_is_strict_and_holds_what_strangers_wrote_as_it_is(hostile):
    text = json.dumps(gate_report.as_json(hostile), allow_nan=False)
    assert json.loads(text)["cases"][0]["findings"][0]["reason"] == HOSTILE


def test_the_comment_reads_what_the_gate_writes(judged, script):
    report = judged(script(seconds={"head": 1.3e-3}))
    data = json.dumps(gate_report.as_json(report)).encode()
    stored = gate_stored.parse(data)
    assert [str(one.verdict) for one in stored.cases] == ["slower"]
    assert stored.exit_code == 10
    assert abs(stored.cases[0].ratio - 1.3) < 0.03
    text = comment.render(stored, "key", "https://example.invalid/run", "failure")
    for cell in gate_report.rows(report)[0][:-1]:
        assert gate_markdown.escape(cell) in text


def test_the_table_has_room_for_the_largest_distance_alone(judged, script):
    report = judged(script())
    said = "<= 0 ulp: 149176, <= 1 ulp: 224586; largest 7 ulp at output[0], element 1; within"
    report.cases[0].outputs = said
    lines = list(gate_report.lines(report))
    assert any(line.rstrip().endswith("%  largest 7 ulp") for line in lines)
    assert f"  answers of a: a: {said}" in lines
    assert f"- answers of {gate_markdown.escape(f'a: a: {said}')}" in gate_markdown.document(report)
    report.cases[0].outputs = "identical bits"
    assert "answers of" not in "\n".join(gate_report.lines(report))
