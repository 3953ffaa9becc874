"""The results file: round trip, refusals that say what is wrong, atomic writes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pytest_rightfast import ResultsError
from pytest_rightfast.results import SCHEMA, STATUSES, Row, load, save

ROW = Row(
    "perf/test_a.py::test_b[1-ours]",
    "perf/test_a.py::test_b[1]",
    "ours",
    samples=[1e-6, 2.5e-6, 1.25e-6],
    loops=80,
    first_call=0.001,
    error=3e-8,
    worst_error=1e-7,
    counters={"operators": 2},
    inexact=["python_calls"],
    state={"flush_denormal": True},
    environment={"affinity": [0, 1], "gpu": None},
)


def changed(tmp_path: Path, **fields: Any) -> Path:
    """A file whose only row differs from a right one in some fields."""
    path = tmp_path / "rows.json"
    save(path, [ROW])
    content = json.loads(path.read_text())
    content["rows"][0].update(fields)
    path.write_text(json.dumps(content))
    return path


def test_round_trip(tmp_path):
    rows = [ROW, *(Row("i", "c", "b", status=status, reason="é\n") for status in STATUSES)]
    save(tmp_path / "new" / "rows.json", rows)
    assert load(tmp_path / "new" / "rows.json") == rows
    assert load(str(tmp_path / "new" / "rows.json"))[0].median == 1.25e-6


def test_no_rows(tmp_path):
    save(tmp_path / "rows.json", [])
    assert load(tmp_path / "rows.json") == []


@pytest.mark.parametrize("keep", [0.0, 0.01, 0.5, 0.99])
def test_truncated(tmp_path, keep):
    path = tmp_path / "rows.json"
    save(path, [ROW])
    text = path.read_text().rstrip()
    path.write_text(text[: int(len(text) * keep)])
    with pytest.raises(ResultsError, match=r"(?s)no complete JSON.*expected:.*remedy:"):
        load(path)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[]", "not a rightfast results file"),
        ("3", "not a rightfast results file"),
        ('{"benchmarks": []}', "read by --benchmark-compare"),
        ("", r"(?s)no complete JSON.*got: +an empty file"),
        ('{"schema": 1, "rows": []}', r"(?s)an older schema.*expected: 2.*got: +1.*remedy"),
        ('{"schema": 3, "rows": []}', r"(?s)another schema.*expected: 2.*got: +3"),
        ('{"schema": "2", "rows": []}', "another schema"),
        ('{"schema": 1, "kind": "gate", "cases": []}', "the report of a gate"),
        ('{"schema": true, "rows": []}', "another schema"),
        ('{"schema": 2}', "no rows"),
        ('{"schema": 2, "rows": {}}', "no rows"),
        ('{"schema": 2, "rows": [3]}', "row 0 does not fit"),
        ('{"schema": 2, "rows": [{"id": "a"}]}', "row 0 does not fit"),
        ("\x00\x01", "no complete JSON"),
    ],
)
def test_foreign_files(tmp_path, text, match):
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(ResultsError, match=match):
        load(path)


def test_no_file_no_text(tmp_path):
    with pytest.raises(ResultsError, match="cannot read"):
        load(tmp_path / "absent.json")
    with pytest.raises(ResultsError, match="cannot read"):
        load(tmp_path)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ResultsError, match="cannot read"):
        load(tmp_path / "binary.json")


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "fine"},
        {"status": None},
        {"unknown": 1},
        {"samples": [0.0]},
        {"samples": [-1.0]},
        {"samples": ["1"]},
        {"samples": [True]},
        {"samples": None},
        {"samples": 3.0},
        {"samples": "abc"},
        {"id": 3},
        {"threads": "1"},
        {"counters": []},
        {"error": "small"},
        {"role": "boss"},
        {"processes": [3, 1]},
        {"heap": 1},
    ],
    ids=str,
)
def test_fields_that_do_not_fit(tmp_path, fields):
    with pytest.raises(ResultsError, match="row 0"):
        load(changed(tmp_path, **fields))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_what_is_no_number(tmp_path, number):
    for fields in ({"samples": [12345.0]}, {"environment": {"x": 12345.0}}):
        path = changed(tmp_path, **fields)
        path.write_text(path.read_text().replace("12345.0", number))
        if number != "1e999" or "samples" in fields:  # elsewhere a large number is a number
            with pytest.raises(ResultsError):
                load(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}])
def test_what_is_no_json_is_not_written(tmp_path, value):
    path = tmp_path / "rows.json"
    save(path, [ROW])
    before = path.read_bytes()
    with pytest.raises(ResultsError, match="not strict JSON"):
        save(path, [Row("i", "c", "b", environment={"x": value})])
    assert path.read_bytes() == before


@pytest.mark.parametrize("step", ["fsync", "replace", "fdopen"])
def test_a_failing_write_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "rows.json"
    save(path, [ROW])
    before = path.read_bytes()

    def full(*args: Any, **keywords: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, step, full)
        with pytest.raises(ResultsError, match=r"(?s)No space left.*remedy:"):
            save(path, [ROW, ROW])
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["rows.json"]


def test_modes_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        save(tmp_path / "rows.json", [ROW])
    finally:
        os.umask(before)
    assert (tmp_path / "rows.json").stat().st_mode & 0o777 == 0o640


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="cannot write"):
        save(tmp_path / "file" / "rows.json", [ROW])


def test_documented():
    assert SCHEMA == 2
    for name in Row.__dataclass_fields__:
        assert name in (Row.__doc__ or ""), name


def test_median_and_spread():
    assert Row("i", "c", "b").median is None
    assert Row("i", "c", "b", samples=[1.0]).spread is None
    assert Row("i", "c", "b", samples=[1.0, 2.0, 3.0, 4.0]).spread == pytest.approx(1.0)
