"""Operators by name, a project's own beside ATen's; traces that load and hold them; shards."""

from __future__ import annotations

import json

import pytest

from pytest_rightfast import profiles
from pytest_rightfast.results import Row, load
from pytest_rightfast.tables import tables

PROJECT = """
    from pytest_rightfast import peer

    @torch.library.custom_op("toy::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @pytest.mark.perf_backends(own=double, plain=peer(lambda x: x + x), wrong=peer(torch.exp))
    @pytest.mark.parametrize("n", [8, 64])
    def test_it(perf, backend, n):
        perf(backend, torch.randn(n), reference=lambda x: x * 2)

    def test_in_place(perf):
        perf(torch.Tensor.add_, torch.randn(8), torch.randn(8), mutates=(0,), reference=torch.add)
"""
PLAIN = PROJECT[: PROJECT.index("    @torch.library")] + PROJECT[PROJECT.index("    @pytest") :]
PLAIN = PLAIN.replace("own=double", "own=lambda x: x * 2")


def names(row):
    return [one["name"] for one in row.profile["operators"]]


@pytest.mark.parametrize("options", [[], ["--perf-repeats=2"]], ids=["here", "repeats"])
def test_a_run_with_profile_and_traces(project, options):
    project.file("test_it.py", PROJECT)
    # Apart: an operator is registered once in a process.
    given = ["--perf-profile", "--perf-trace=traces", "--perf-json=rows.json", *options]
    result = project.apart(*given)
    assert result.ret == 0
    rows = load(project.path / "rows.json")
    own, plain, wrong = (one(rows, f"test_it[{name}-8]") for name in ("own", "plain", "wrong"))
    assert {"toy::double", "aten::mul"} <= set(names(own))
    assert "toy::double" not in names(plain)
    assert "aten::add" in names(plain)
    assert wrong.profile == {}
    place = one(rows, "test_in_place").profile["operators"]
    assert [found["calls"] for found in place if found["name"] == "aten::add_"] == [1]
    assert own.profile["unprofiled_seconds"] > 0
    result.stdout.fnmatch_lines(
        [
            "*time by operator",
            "*toy::double*",
            "  it: it[[]8] own: * a call under the profiler, * without: *x",
        ]
    )
    traces = {
        file.name.partition(".py_")[2].partition(".")[0]: file
        for file in project.path.glob("traces/*")
    }
    assert len(traces) == 5  # of seven rows two are wrong
    assert "toy::double" in slices(traces["test_it_own-8"])
    assert "toy::double" not in slices(traces["test_it_plain-8"])
    assert "aten::add_" in slices(traces["test_in_place"])


TWO = """
    @pytest.mark.parametrize("n", [1, 2])
    def test_it(perf, n):
        perf(torch.exp, torch.randn(8), reference=torch.exp)
"""


@pytest.mark.parametrize("gate", [[], ["--perf-against=HEAD"]], ids=["run", "gate"])
@pytest.mark.parametrize("folder", ["a_file", "a_file/traces", "/proc/x/y"])
def test_a_folder_of_traces_that_cannot_be_made(project, folder, gate):
    project.file("test_it.py", TWO)
    (project.path / "a_file").write_text("x")
    result = project.run(f"--perf-trace={folder}", *gate)
    assert result.ret == 4
    said = ["*--perf-trace names what cannot be written", "*expected: a folder*", f"*{folder}*"]
    result.stderr.fnmatch_lines([*said, "*remedy:*"])


@pytest.mark.parametrize("options", [[], ["--perf-repeats=2"]], ids=["here", "repeats"])
def test_a_trace_that_is_lost_is_not_the_backends_fault(project, options):
    """The folder, hidden from pytest, goes away after the start; no case loses its time."""
    lose = """
    import pathlib, shutil
    shutil.rmtree(".traces", ignore_errors=True)
    pathlib.Path(".traces").write_text("x")
    """
    project.file("test_it.py", lose + TWO)
    given = ["--perf-profile", "--perf-trace=.traces", "--perf-json=rows.json", *options]
    result = project.apart(*given)
    rows = load(project.path / "rows.json")
    assert [(row.status, bool(row.samples), bool(row.profile)) for row in rows] == [
        ("ok", True, True)
    ] * 2
    lines = ["traces in .traces*; 2 of 2 cases have none*"]
    if not options:
        lines += ["*a trace cannot be written*", "*expected:*", "*got:*", "*remedy:*"]
    result.stdout.fnmatch_lines(lines)
    assert result.ret == 0


def one(rows, name):
    return next(row for row in rows if row.id.endswith(name))


def slices(file):
    """Names in a trace, which is of the Trace Event Format that Perfetto opens."""
    events = json.loads(file.read_text())["traceEvents"]
    assert all({"ph", "name"} <= event.keys() for event in events)
    found = [event for event in events if event["ph"] == "X"]
    assert all({"ts", "dur", "pid", "tid"} <= event.keys() for event in found)
    return {event["name"] for event in found}


def test_without_the_option_nothing_is_profiled(project):
    project.file("test_it.py", PLAIN)
    result = project.run("--perf-json=rows.json")
    assert all(row.profile == {} for row in load(project.path / "rows.json"))
    result.stdout.no_fnmatch_line("*time by operator*")


def test_the_rest_of_many_operators_is_one_line():
    operators = [
        {"name": f"aten::op{n}", "calls": 1.0, "self": 1e-6, "device_self": 0.0} for n in range(20)
    ]
    profile = {"calls": 10, "seconds": 4e-5, "unprofiled_seconds": 2e-5, "operators": operators}
    row = Row("t.py::test_a", "t.py::test_a", "b", samples=[2e-5], profile=profile)
    text = list(tables([row]))[3]
    assert text.count("aten::op") == profiles.MOST_LINES
    assert "8 others" in text
    assert "40%" in text
    assert "on device" not in text
    assert "40.0 us a call under the profiler, 20.0 us without: 2.0x" in text
    operators[0]["device_self"] = 5e-6
    assert "on device" in list(tables([row]))[3]


def test_shards_are_a_partition_that_keeps_cases_whole(project):
    project.file("test_it.py", PLAIN)
    project.file("test_plain.py", "def test_plain():\n    pass\n")
    whole = project.run("--perf-json=whole.json", "--benchmark-disable")
    assert whole.ret == 0
    parts = []
    for number in (1, 2):
        file = project.path / f"{number}.json"
        result = project.run(
            f"--perf-shard={number}/2", f"--perf-json={file}", "--benchmark-disable"
        )
        assert result.ret == 0
        result.stdout.fnmatch_lines(["*deselected*"])
        parts.append(load(file))
    assert [sorted({row.case for row in part}) for part in parts] == [
        ["test_it.py::test_in_place", "test_it.py::test_it[8]"],
        ["test_it.py::test_it[64]"],
    ]
    together = sorted(row.id for part in parts for row in part)
    assert together == sorted(row.id for row in load(project.path / "whole.json"))


@pytest.mark.parametrize("value", ["0/2", "3/2", "1", "1/0", "a/b", "-1/2", "1/2/3", ""])
def test_bad_shards(project, value):
    result = project.run(f"--perf-shard={value}")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--perf-shard*", "*expected:*", "*got:*", "*remedy:*"])
