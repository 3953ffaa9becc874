"""`--perf-repeats`: fresh processes in turn, the true median of theirs, wrong in any is wrong."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pytest_rightfast.repeats import join
from pytest_rightfast.results import Row, load

# Each process notes itself where all can see it.
PROJECT = """
    import os
    from pathlib import Path
    NOTES = Path(__file__).with_name("notes")

    def noted(name, answer=0.0):
        def function(x):
            return x.exp() + answer
        with NOTES.open("a") as file:
            file.write(f"{os.getpid()} {name}\\n")
        return function

    def test_one(perf):
        perf(noted("one"), torch.randn(8), reference=np.exp)

    def test_two(perf):
        perf(noted("two"), torch.randn(8), reference=np.exp)
"""


def test_fresh_processes_take_turns_case_by_case(project):
    project.file("test_it.py", PROJECT)
    result = project.run("--perf-repeats=3", "--perf-json=rows.json")
    assert result.ret == 0
    lines = [line.split() for line in (project.path / "notes").read_text().splitlines()]
    here = lines[0][0]  # this process builds the case and measures nothing
    turns = [line for line in lines if line[0] != here]
    assert [name for _, name in turns] == ["one"] * 3 + ["two"] * 3
    first, second = [pid for pid, _ in turns[:3]], [pid for pid, _ in turns[3:]]
    assert len(set(first)) == 3
    assert second == first[::-1]
    for row in load(project.path / "rows.json"):
        assert len(row.processes) == 3
        assert min(row.processes) >= 3
        assert sum(row.processes) == len(row.samples)
        assert row.counters["operators"] == 2
    result.stdout.fnmatch_lines(["cpu, 1 thread, system heap, median of 3 processes", "*2 ok*"])


def test_what_goes_wrong_in_one_process_alone(project):
    """The second process to come is wrong, fails, dies; the case after is measured all the same."""
    project.file(
        "test_it.py",
        """
        import os, sys
        from pathlib import Path

        def only_second(name, turn=3):
            place = Path(__file__).with_name(name)
            with place.open("a") as file:
                file.write("x")
            return "worker" in str(sys.argv) + str(sys.orig_argv) and len(place.read_text()) == turn

        def test_wrong(perf):
            shift = 1.0 * only_second("wrong")
            perf(lambda x: x.exp() + shift, torch.randn(8), reference=np.exp)

        def test_raises(perf):
            row = perf(torch.exp, torch.randn(8), reference=np.exp)
            assert not only_second("raises", 2), "only here"

        def test_dies(perf):
            if only_second("dies"):
                os._exit(7)
            perf(torch.exp, torch.randn(8), reference=np.exp)

        def test_after(perf):
            perf(torch.exp, torch.randn(8), reference=np.exp)
        """,
    )
    result = project.apart("--perf-repeats=2", "--perf-json=rows.json")
    assert result.ret == 1
    wrong, raises, dies, after = load(project.path / "rows.json")
    assert (wrong.status, wrong.samples, wrong.processes) == ("wrong", [], [])
    assert "of 2: output: 8 of 8 elements are wrong" in wrong.reason
    assert raises.status == dies.status == "error"
    assert "only here" in raises.reason
    assert "exited with 7" in dies.reason
    assert after.status == "ok"
    assert len(after.processes) == 2


def test_peers_skips_and_no_timing(project):
    project.file(
        "test_it.py",
        """
        from pytest_rightfast import Unsupported, peer

        def none(x):
            raise Unsupported("not this one")

        @pytest.mark.perf_backends(good=torch.exp, bad=peer(torch.sin), none=none)
        def test_it(perf, backend):
            perf(backend, torch.randn(8), reference=np.exp)
        """,
    )
    result = project.run("--perf-repeats=2", "--perf-json=rows.json", "--benchmark-disable")
    result.assert_outcomes(passed=1, skipped=2)
    good, bad, none = load(project.path / "rows.json")
    assert (good.status, good.samples, good.processes) == ("ok", [], [])
    assert bad.status == "wrong"
    assert bad.reason.startswith("output: 8 of 8")  # all agree, so none is named
    assert (none.status, none.reason) == ("unsupported", "not this one")


def test_samples_enter_pytest_benchmark(project):
    project.file("test_it.py", PROJECT)
    assert project.run("--perf-repeats=2", "--benchmark-json=b.json", "--perf-json=r.json").ret == 0
    found = json.loads((project.path / "b.json").read_text())["benchmarks"]
    rows = load(project.path / "r.json")
    assert [len(one["stats"]["data"]) for one in found] == [len(row.samples) for row in rows]


def one(*samples: float, **fields: object) -> Row:
    return replace(Row("i", "c", "b", samples=list(samples), inputs="f"), **fields)  # type: ignore[arg-type]


def test_the_median_is_that_of_the_processes():
    """Of all samples it would be 1; an even number of processes has two in the middle."""
    odd = join([one(1.0, 1.0, 1.0, 1.0, 1.0), one(4.0), one(6.0, 6.0)])
    assert odd.median == 4.0
    assert odd.spread == pytest.approx(5 / 4)
    assert odd.interval == (1.0, 6.0)
    assert odd.by_process == [[1.0] * 5, [4.0], [6.0, 6.0]]
    even = join([one(1.0, 1.0, 1.0), one(8.0), one(2.0, 2.0), one(4.0)])
    assert even.median == 3.0


def test_what_differs_between_processes_is_not_exact():
    counted = [one(1.0, counters={"operators": 2, "bytes": n}, errors={"x": n}) for n in (1, 2)]
    joined = join([*counted, one(1.0, counters={"operators": 2}, inexact=["bytes"], error=3.0)])
    assert joined.counters == {"operators": 2}
    assert joined.inexact == ["bytes"]
    assert joined.errors == {"x": 2}
    assert joined.error == 3.0
    assert joined.inputs == "f"
    assert join([one(1.0), one(1.0, inputs="g")]).inputs == ""


@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", ""])
def test_bad_numbers(project, value):
    result = project.run(f"--perf-repeats={value}")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--perf-repeats*", "*expected:*", "*got:*"])


@pytest.mark.parametrize(
    "option", ["--perf-repeats=2", "--perf-profile", "--perf-shard=1/2", "--perf-resume"]
)
def test_not_for_the_gate(project, option):
    result = project.run("--perf-against=HEAD", option)
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"*{option.partition('=')[0]} is not for the gate*", "*remedy:*"])
