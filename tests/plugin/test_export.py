"""`rightfast export`: every row and nothing made up, in the forms that others read."""

from __future__ import annotations

import csv
import json

import pytest

from pytest_rightfast import cli
from pytest_rightfast.results import Row, save

ENVIRONMENT = {"host": "box", "cpu": "X, 3 GHz", "cpu_count": 2, "gpu": None, "torch": "2.13.0"}
ENVIRONMENT |= {"affinity": [0, 1], "dirty": False, "python": "3.11"}


@pytest.fixture
def rows():
    case = "perf/test_a.py::test_a[64]"
    return [
        Row(
            f"{case[:-1]}-ours]",
            case,
            "ours",
            samples=[2e-6, 1e-6, 3e-6],
            error=1e-7,
            counters={"operators": 3, "allocations": 1},
            inexact=["allocations"],
            environment=ENVIRONMENT,
        ),
        Row(f"{case[:-1]}-theirs]", case, "theirs", "peer", "wrong", 'first at (0, 1), "a"\nb'),
        Row("perf/test_a.py::test_b", "perf/test_a.py::test_b", "f", status="unsupported"),
    ]


@pytest.fixture
def export(rows, tmp_path):
    def run(*words):
        save(tmp_path / "run.json", rows)
        target = tmp_path / "out"
        assert cli.main(["export", str(tmp_path / "run.json"), "-o", str(target), *words]) == 0
        return target.read_text()

    return run


def test_csv_has_a_line_for_each_row(export, rows):
    first, wrong, none = csv.DictReader(export("--format", "csv").splitlines(keepends=True))
    assert [one["id"] for one in (first, wrong, none)] == [row.id for row in rows]
    assert [float(first[name]) for name in ("median", "least", "most")] == [2e-6, 1e-6, 3e-6]
    assert first["rounds"] == "3"
    assert (first["counter.operators"], first["environment.affinity"]) == ("3", "0 1")
    assert first["environment.cpu"] == "X, 3 GHz"
    assert wrong["reason"] == 'first at (0, 1), "a"\nb'
    assert (wrong["median"], wrong["counter.operators"], none["status"]) == ("", "", "unsupported")


def text_maps(record):
    yield record["benchmark"]["extra_info"]
    yield record["metric"]["extra_info"]
    for runner in record["runners"]:
        yield runner["extra_info"]


def test_records_fit_the_dashboards_table(export):
    """Types as in its schema: maps hold text, values are numbers, names are there."""
    records = json.loads(export("--format", "pytorch"))
    for record in records:
        assert set(record) == {"benchmark", "model", "metric", "runners", "dependencies"}
        assert record["benchmark"]["name"]
        assert record["model"]["name"]
        assert all(type(value) is float for value in record["metric"]["benchmark_values"])
        for found in text_maps(record):
            assert all(type(value) is str for value in found.values())
        for runner in record["runners"]:
            assert type(runner["cpu_count"]) is int
    assert records[0]["dependencies"]["torch"] == {"repo": "pytorch/pytorch", "version": "2.13.0"}
    assert records[0]["runners"][0]["name"] == "box"


def test_a_wrong_case_has_no_latency(export):
    found = {
        (record["model"]["backend"], record["metric"]["name"]): record["metric"]
        for record in json.loads(export("--format", "pytorch"))
    }
    names = ("wrong", "latency", "error", "operators", "allocations")
    assert set(found) == {("ours", name) for name in names} | {("theirs", "wrong")}
    assert found["ours", "latency"]["benchmark_values"] == [2e-6, 1e-6, 3e-6]
    assert found["theirs", "wrong"]["benchmark_values"] == [1.0]
    assert found["ours", "allocations"]["extra_info"] == {"unit": "inexact count"}


def test_without_a_file_it_is_printed(rows, tmp_path, capsys):
    save(tmp_path / "run.json", rows)
    assert cli.main(["export", str(tmp_path / "run.json"), "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("id,case,backend,")


def test_what_is_no_run_is_refused(tmp_path, capsys):
    (tmp_path / "run.json").write_text("[]")
    target = tmp_path / "out"
    words = ["export", str(tmp_path / "run.json"), "--format", "csv", "-o", str(target)]
    assert cli.main(words) == 2
    assert "is not a rightfast results file" in capsys.readouterr().err
    assert not target.exists()
