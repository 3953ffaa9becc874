"""Options: what a bad value says, and what a good one does."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from pytest_rightfast import CaseError, clocks
from pytest_rightfast.results import load

ONE = """
    def test_exp(perf, perf_device):
        perf(torch.exp, torch.randn(64, device=perf_device), reference=torch.exp)
"""

BAD = {
    "--perf-device": ["", "cpu:", "cpu:0", "cuda:x", "cuda:1:2", ":1", "CPU!", "cuda:٣"],
    "--perf-threads": ["", "0", "-1", "1,", "1,,2", "two", "1.5", "²", "9" * 5000],
    "--perf-cpus": ["", "x", "1-", "-1", "0,", "99999", "1-0", "0-999999", "0-99999999999", "²"],
}


@pytest.mark.parametrize(
    ("option", "value"), [(option, value) for option in BAD for value in BAD[option]]
)
def test_bad_values(project, option, value):
    """Exit code 4, the option's name, what was expected and what came; nothing ran."""
    project.file("test_it.py", "def test_it():\n    pass\n", head="")
    result = project.run(f"{option}={value}")
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"*{option}*", "*expected:*", "*got:*"])


@pytest.mark.parametrize("device", ["nonsense", "cuda:99", "meta"])
def test_device_that_is_not_there(project, device):
    project.file("test_it.py", ONE)
    result = project.run(f"--perf-device={device}")
    assert result.ret == 4
    result.stderr.fnmatch_lines(
        ["*--perf-device", "*expected: a device that torch finds*cpu*", f"*{device}", "*remedy:*"]
    )
    assert project.run(f"--perf-device={device}", "--collect-only").ret == 0


def test_several_thread_counts(project):
    """Each in force while its case runs, a table for each, and the number from before restored."""
    import torch

    project.file(
        "test_it.py",
        """
        def test_it(perf, perf_threads):
            row = perf(torch.exp, torch.randn(8), reference=torch.exp)
            assert row.threads == row.threads_asked == torch.get_num_threads() == perf_threads
        """,
    )
    before = torch.get_num_threads()
    result = project.run("--perf-threads=1,2,1", "--perf-json=rows.json")
    assert result.ret == 0
    assert torch.get_num_threads() == before
    rows = load(project.path / "rows.json")
    assert [(row.id, row.threads) for row in rows] == [
        ("test_it.py::test_it[1threads]", 1),
        ("test_it.py::test_it[2threads]", 2),
    ]
    result.stdout.fnmatch_lines(["cpu, 1 thread, system heap", "cpu, 2 threads, system heap"])


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs Linux")
def test_cpus_are_pinned_and_restored(project):
    before = os.sched_getaffinity(0)
    one = min(before)
    project.file(
        "test_it.py",
        f"""
        import os

        def test_it(perf):
            row = perf(torch.exp, torch.randn(8), reference=torch.exp)
            assert os.sched_getaffinity(0) == {{{one}}}
            assert row.environment["affinity"] == [{one}]
        """,
    )
    assert project.run(f"--perf-cpus={one}").ret == 0
    assert os.sched_getaffinity(0) == before
    project.file("test_it.py", "def test_it(perf):\n    assert False\n")
    assert project.run(f"--perf-cpus={one}-{one}").ret == 1
    assert os.sched_getaffinity(0) == before
    assert project.run(f"--perf-cpus={one}", "--perf-baseline=a/b").ret == 4
    assert os.sched_getaffinity(0) == before


def test_json_is_written_whatever_happens(project):
    """An old file must not pass for this run's."""
    project.file("test_it.py", ONE)
    assert project.run("--perf-json=out/rows.json").ret == 0
    assert len(load(project.path / "out/rows.json")) == 1
    assert project.run("--perf-json=out/rows.json", "-k", "nothing").ret == 5
    assert load(project.path / "out/rows.json") == []


@pytest.mark.parametrize("file", ["folder", "a_file/rows.json", "/proc/x/rows.json"])
@pytest.mark.parametrize("gate", [[], ["--perf-against=HEAD"]], ids=["run", "gate"])
def test_json_that_cannot_be_written(project, file, gate):
    """It is found before anything is measured."""
    project.file("test_it.py", ONE)
    (project.path / "folder").mkdir()
    (project.path / "a_file").write_text("x")
    result = project.run(f"--perf-json={file}", *gate)
    assert result.ret == 4
    said = ["*--perf-json names what cannot be written", "*expected: a file*", f"*got:*{file[:6]}*"]
    result.stderr.fnmatch_lines([*said, "*remedy:*"])
    assert "1 passed" not in result.stdout.str()


def test_json_that_cannot_be_written_any_more(project):
    """What became a folder meanwhile is told, and the table is shown."""
    project.file(
        "test_it.py",
        ONE
        + """
    def test_it():
        import os
        os.mkdir("rows.json")
""",
    )
    result = project.run("--perf-json=rows.json")
    assert result.ret == 4
    result.stdout.fnmatch_lines(["*1 ok*", "*cannot write rows.json*", "*remedy:*"])


def test_collect_only_never_judges(project):
    project.file("test_it.py", ONE)
    result = project.run("--collect-only", "--perf-json=rows.json", "--perf-baseline=main")
    assert result.ret == 0
    assert not (project.path / "rows.json").exists()
    assert not list(project.path.rglob("*.json"))


def test_without_pytest_benchmark(project):
    """The plugin stays out of the way, and says what is missing when it was asked for."""
    project.file("test_it.py", "def test_it():\n    pass\n", head="")
    plain = [one for one in project.arguments() if not one.startswith("--benchmark")]
    assert project.pytester.runpytest_inprocess(*plain, "-p", "no:benchmark").ret == 0
    asked = project.pytester.runpytest_inprocess(*plain, "-p", "no:benchmark", "--perf-threads=1")
    assert asked.ret == 4
    asked.stderr.fnmatch_lines(["*pytest-benchmark is not active*", "*remedy:*-p no:benchmark*"])


def test_xdist_is_refused(project):
    """Cases measured side by side would measure each other."""
    pytest.importorskip("xdist")
    project.file("test_it.py", ONE)
    result = project.apart("-n", "1", "-p", "xdist")
    assert result.ret == 1
    text = result.stdout.str() + result.stderr.str()
    assert "perf cases cannot share a machine with other workers" in text
    assert "-n 0" in text


def test_xdist_without_perf_cases(project):
    pytest.importorskip("xdist")
    project.file("test_it.py", "def test_it():\n    pass\n", head="")
    result = project.apart("-n", "1")
    assert result.ret == 0
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("given", [[torch.zeros(1)], [{"x": np.zeros(2)}], [torch.nn.Linear(1, 1)]])
def test_a_case_of_the_cpu_in_a_run_on_a_gpu(given):
    # Its call is over before the GPU's clock has begun: 1.3 us for a transform of 4 ms was seen.
    with pytest.raises(CaseError, match="perf_device"):
        clocks.check_device("cuda", [given, None])


@pytest.mark.parametrize("given", [[torch.zeros(1), torch.zeros(1, device="meta")], [1.0], []])
def test_a_case_of_the_gpu_or_without_tensors(given):
    clocks.check_device("cuda", given)
    clocks.check_device("cpu", [torch.zeros(1)])
