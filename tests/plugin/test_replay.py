"""Samples on their way into pytest-benchmark."""

from __future__ import annotations

import functools
import json

import pytest

from pytest_rightfast.replay import ReplayTimer, _plain
from pytest_rightfast.results import load


def test_pairs_of_readings_differ_by_the_samples():
    timer = ReplayTimer()
    timer.load([0.5, 0.25])
    assert [timer() for _ in range(4)] == [0.0, 0.5, 0.0, 0.25]
    with pytest.raises(StopIteration):
        timer()


def test_labels_are_the_same_in_every_run():
    class Thing:
        pass

    assert _plain(3) == 3
    assert _plain("a") == "a"
    assert _plain(None) is None
    for value in (Thing(), functools.partial(print, 1), test_labels_are_the_same_in_every_run):
        assert "0x" not in _plain(value)
    assert "Thing" in _plain(Thing())


def test_samples_arrive_unchanged_and_in_order(project):
    """Also very short and very long ones, and whatever pytest-benchmark's own options say."""
    project.file(
        "test_it.py",
        """
        SAMPLES = [3e-9, 1e-9, 2.5, 7e-4, 1e-9]

        def test_it(perf, monkeypatch):
            from pytest_rightfast import clock_cpu
            row = perf(torch.exp, torch.randn(8), reference=torch.exp)
            row.samples[:] = SAMPLES
        """,
    )
    arguments = ("--benchmark-json=out.json", "--perf-json=rows.json", "--benchmark-disable-gc")
    assert project.run(*arguments).ret == 0
    (bench,) = json.loads((project.path / "out.json").read_text())["benchmarks"]
    (row,) = load(project.path / "rows.json")
    assert row.samples == bench["stats"]["data"] == [3e-9, 1e-9, 2.5, 7e-4, 1e-9]
    assert bench["stats"]["median"] == 3e-9
    assert bench["stats"]["rounds"] == 5


def test_a_case_without_a_time_leaves_no_warning(project):
    project.file(
        "test_it.py",
        """
        def test_it(perf):
            perf(torch.exp, torch.randn(8), reference=torch.exp)
        """,
    )
    result = project.run("--benchmark-disable")
    assert result.ret == 0
    assert "not used" not in result.stdout.str() + result.stderr.str()
