"""`rightfast report --format pytorch`: every row and nothing made up."""

from __future__ import annotations

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
def records(rows, tmp_path):
    source, target = tmp_path / "run.json", tmp_path / "records.json"
    save(source, rows)
    assert cli.main(["report", str(source), "--format", "pytorch", "-o", str(target)]) == 0
    return json.loads(target.read_text())


def text_maps(record):
    yield record["benchmark"]["extra_info"]
    yield record["metric"]["extra_info"]
    for runner in record["runners"]:
        yield runner["extra_info"]


def test_records_fit_the_dashboards_table(records):
    """Types as in its schema: maps hold text, values are numbers, names are there."""
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


def test_a_wrong_case_has_no_latency(records):
    found = {
        (record["model"]["backend"], record["metric"]["name"]): record["metric"]
        for record in records
    }
    names = ("wrong", "latency", "error", "operators", "allocations")
    assert set(found) == {("ours", name) for name in names} | {("theirs", "wrong")}
    assert found["ours", "latency"]["benchmark_values"] == [2e-6, 1e-6, 3e-6]
    assert found["theirs", "wrong"]["benchmark_values"] == [1.0]
    assert found["ours", "allocations"]["extra_info"] == {"unit": "inexact count"}
