"""pytest-benchmark below the plugin: its files, tables, comparisons and options on our samples."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_rightfast.results import load

GOOD = """
    import time

    def test_exp(perf):
        perf(torch.exp, torch.randn(64), reference=torch.exp)

    @pytest.mark.parametrize("n", [3, 4])
    def test_sum(perf, n):
        perf(torch.sum, torch.randn(n, 8), dim=0, reference=torch.sum)
"""
SLEEPY = """
    import time

    def exp(x):
        time.sleep({seconds})
        return x.exp()

    def test_exp(perf):
        perf(exp, torch.randn(64), reference=torch.exp)
"""


def saved(project: Any) -> list[Path]:
    return sorted(project.path.glob(".benchmarks/*/*.json"))


def names(file: Path) -> list[str]:
    return [bench["fullname"] for bench in json.loads(file.read_text())["benchmarks"]]


def test_save_then_compare(project):
    project.file("perf/test_it.py", GOOD)
    first = project.run("perf", "--benchmark-save=a")
    assert first.ret == 0
    (file,) = saved(project)
    assert names(file) == [
        "perf/test_it.py::test_exp",
        "perf/test_it.py::test_sum[3]",
        "perf/test_it.py::test_sum[4]",
    ]
    second = project.run("perf", "--benchmark-compare=a", "--benchmark-compare-fail=median:100000%")
    assert second.ret == 0
    second.stdout.fnmatch_lines_random(
        ["*Name (time in*Median*", "test_exp (0001_a)*", "test_exp (NOW)*"]
    )
    second.stdout.fnmatch_lines(["*vs stored*", "compared with 0001_a.json: passed: *"])


@pytest.mark.parametrize("chosen", ["--benchmark-compare", "--benchmark-compare=0001"])
def test_compare_with_the_last_or_by_number(project, chosen):
    project.file("test_it.py", GOOD)
    project.run("--benchmark-save=a")
    result = project.run(chosen)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["test_exp (0001_a)*", "compared with *: passed: *"])


def test_a_slowdown_fails(project):
    """A sleep of 2 ms and one of 100 ms: no noise of a shared machine hides that."""
    project.file("test_it.py", SLEEPY.format(seconds=0.002))
    assert project.run("--benchmark-save=a").ret == 0
    project.file("test_it.py", SLEEPY.format(seconds=0.1))
    result = project.run("--benchmark-compare=a", "--benchmark-compare-fail=median:400%")
    assert result.ret == 10
    assert "Performance has regressed" in result.stdout.str() + result.stderr.str()
    result.stdout.fnmatch_lines(["*UNDECIDED it: exp: *x the stored time*"])


@pytest.mark.parametrize("chosen", ["--benchmark-compare", "--benchmark-compare=nothing"])
def test_nothing_to_compare_with(project, chosen):
    project.file("test_it.py", GOOD)
    result = project.run(chosen)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--benchmark-compare finds no saved run*", "*remedy:*"])


def test_stored_file_that_cannot_be_read(project):
    project.file("test_it.py", GOOD)
    project.file("old.json", '{"benchmarks": [', head="")
    result = project.run("--benchmark-compare=old.json")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*cannot read the saved run old.json*", "*remedy:*"])


def test_json_carries_the_samples(project):
    project.file("test_it.py", GOOD)
    assert project.run("--benchmark-json=out.json", "--perf-json=rows.json").ret == 0
    content = json.loads((project.path / "out.json").read_text())
    rows = {row.id: row for row in load(project.path / "rows.json")}
    for bench in content["benchmarks"]:
        row = rows[bench["fullname"]]
        assert bench["stats"]["data"] == pytest.approx(row.samples, rel=1e-9)
        assert bench["stats"]["iterations"] == 1
        assert bench["options"]["timer"] == "rightfast"
        assert bench["extra_info"]["counters"] == row.counters
        assert bench["extra_info"]["threads"] == 1
        assert bench["group"] == row.case


def test_own_group(project):
    project.file(
        "test_it.py",
        """
        @pytest.mark.benchmark(group="mine")
        def test_exp(perf):
            perf(torch.exp, torch.randn(64), reference=torch.exp)
        """,
    )
    result = project.run()
    result.stdout.fnmatch_lines(["*benchmark 'mine': 1 tests*"])


def test_marker_sets_the_budget(project):
    project.file(
        "test_it.py",
        """
        import time

        def slow(x):
            time.sleep(0.002)
            return x.exp()

        @pytest.mark.benchmark(min_rounds=17, max_time=0.001)
        def test_exp(perf):
            assert len(perf(slow, torch.randn(64), reference=torch.exp).samples) == 17
        """,
    )
    assert project.run().ret == 0


@pytest.mark.skipif(not importlib.util.find_spec("pygal"), reason="the histogram needs pygal")
def test_histogram(project):
    project.file("test_it.py", GOOD)
    assert project.run("--benchmark-histogram=h").ret == 0
    assert list(project.path.glob("h*.svg"))


def test_disabled_verifies_and_counts_without_timing(project):
    project.file("test_it.py", GOOD)
    result = project.run("--benchmark-disable", "--perf-json=rows.json")
    assert result.ret == 0
    rows = load(project.path / "rows.json")
    assert [row.status for row in rows] == ["ok"] * 3
    assert all(row.samples == [] and row.counters["operators"] == 1 for row in rows)
    assert all(row.error is not None and row.error < 1e-6 for row in rows)


def test_disabled_still_finds_the_wrong(project):
    project.file(
        "test_it.py",
        """
        def test_exp(perf):
            perf(torch.exp, torch.randn(64), reference=torch.expm1)
        """,
    )
    assert project.run("--benchmark-disable").ret == 1


REFUSED = {
    "--benchmark-timer": "time.process_time",
    "--benchmark-precision": "0.01",
    "--benchmark-calibration-precision": "20",
    "--benchmark-warmup": "on",
    "--benchmark-warmup-iterations": "7",
    "--benchmark-min-time": "0.01",
    "--benchmark-cprofile": "tottime",
    "--benchmark-cprofile-loops": "3",
}


@pytest.mark.parametrize("option", REFUSED)
def test_options_of_its_own_loop_are_refused_by_name(project, option):
    project.file("test_it.py", GOOD)
    result = project.run(f"{option}={REFUSED[option]}", "--collect-only")
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"*{option} has no meaning for perf cases*", "*remedy:*"])


@pytest.mark.parametrize("keyword", ["warmup=True", "min_time=1", "timer=print", "precision=0.1"])
def test_markers_of_its_own_loop_are_refused_by_name(project, keyword):
    project.file(
        "test_it.py",
        f"""
        @pytest.mark.benchmark({keyword})
        def test_exp(perf):
            perf(torch.exp, torch.randn(64), reference=torch.exp)
        """,
    )
    result = project.run("--collect-only")
    assert result.ret == 4
    name = keyword.partition("=")[0]
    result.stderr.fnmatch_lines([f"*test_it.py::test_exp: *({name}=...)*", "*remedy:*"])


def test_remedy_deselect_works(project):
    """Ordinary benchmarks beside perf cases keep all of pytest-benchmark's options."""
    project.file("test_it.py", GOOD)
    project.file("test_plain.py", "def test_plain(benchmark):\n    benchmark(sum, [1, 2])\n")
    result = project.run("--benchmark-warmup=on", "-k", "test_plain")
    assert result.ret == 0
    result.assert_outcomes(passed=1, deselected=3)


def test_ordinary_benchmarks_beside_perf_cases(project):
    project.file("test_it.py", GOOD)
    project.file("test_plain.py", "def test_plain(benchmark):\n    benchmark(sum, [1, 2])\n")
    assert project.run("--benchmark-save=a").ret == 0
    (file,) = saved(project)
    assert names(file)[-1] == "test_plain.py::test_plain"
    assert len(names(file)) == 4


@pytest.mark.parametrize("fault", ["wrong", "assertion", "xfail", "skip", "exception"])
def test_a_case_that_is_not_right_is_not_saved(project, fault):
    """Wrong, or right and timed but then failed by the test itself."""
    after = {
        "wrong": "",
        "assertion": "assert row.median == 0, 'too slow'",
        "xfail": "pytest.xfail('known')",
        "skip": "pytest.skip('not now')",
        "exception": "raise KeyError('x')",
    }[fault]
    reference = "torch.expm1" if fault == "wrong" else "torch.exp"
    project.file(
        "test_it.py",
        f"""
        def test_right(perf):
            perf(torch.exp, torch.randn(8), reference=torch.exp)

        def test_not(perf):
            row = perf(torch.exp, torch.randn(8), reference={reference})
            {after}
        """,
    )
    result = project.run("--benchmark-save=a", "--benchmark-json=b.json", "--perf-json=rows.json")
    assert result.ret == (0 if fault in ("xfail", "skip") else 1)
    (file,) = saved(project)
    assert names(file) == names(project.path / "b.json") == ["test_it.py::test_right"]
    right, other = load(project.path / "rows.json")
    assert (right.status, other.status) == ("ok", "wrong" if fault == "wrong" else "error")
    assert other.samples == []
    assert other.reason
    if fault == "assertion":
        assert "too slow" in other.reason


class TestBaseline:
    """`--perf-baseline NAME`: made by a whole and clean run, compared with from then on."""

    ARGUMENTS = ("perf", "--perf-baseline=main")

    def test_made_then_compared(self, project):
        project.file("perf/test_it.py", GOOD)
        first = project.run(*self.ARGUMENTS)
        assert first.ret == 0
        first.stdout.fnmatch_lines(["this run was saved as the baseline 'main': 0001_main.json"])
        second = project.run(*self.ARGUMENTS)
        assert second.ret == 0
        second.stdout.fnmatch_lines(
            ["test_exp (0001_main)*", "compared with 0001_main.json: passed: *"]
        )
        assert len(saved(project)) == 1

    def test_new_and_gone(self, project):
        project.file("perf/test_it.py", GOOD)
        project.run(*self.ARGUMENTS)
        project.file("perf/test_it.py", GOOD.replace("test_exp", "test_new"))
        result = project.run(*self.ARGUMENTS)
        assert result.ret == 13
        result.stdout.fnmatch_lines(["*GONE it: exp:*", "compared with *: failed (missing*1 gone*"])

    @pytest.mark.parametrize(
        "partial",
        [
            ["-k", "sum"],
            ["-m", "not slow"],
            ["--deselect=perf/test_it.py::test_exp"],
            ["perf/test_it.py"],
            ["perf/test_it.py::test_exp"],
            ["--ignore=perf/test_other.py"],
            ["--lf"],
        ],
        ids=" ".join,
    )
    def test_never_from_a_part(self, project, partial):
        project.file("perf/test_it.py", GOOD)
        where = [] if partial[0].startswith("perf") else ["perf"]
        result = project.run("--perf-baseline=main", *where, *partial)
        assert result.ret == 0
        result.stdout.fnmatch_lines(["*does not become the baseline*: a part of the suite ran*"])
        assert saved(project) == []

    def test_never_from_a_failed_run(self, project):
        project.file("perf/test_it.py", GOOD)
        project.file(
            "perf/test_other.py", "def test_other(perf):\n    perf(abs, 1.0, reference=float)\n"
        )
        project.file("perf/test_bad.py", "def test_bad():\n    assert False\n")
        result = project.run(*self.ARGUMENTS)
        assert result.ret == 1
        result.stdout.fnmatch_lines(["*does not become the baseline*: it failed*"])
        assert saved(project) == []

    def test_never_without_times(self, project):
        project.file("perf/test_it.py", GOOD)
        assert project.run(*self.ARGUMENTS, "--benchmark-disable").ret == 0
        assert saved(project) == []

    def test_bad_names_and_two_comparisons(self, project):
        project.file("perf/test_it.py", GOOD)
        result = project.run("perf", "--perf-baseline=a/b")
        assert result.ret == 4
        result.stderr.fnmatch_lines(["*--perf-baseline*", "*expected:*", "*got:*a/b*"])
        result = project.run(*self.ARGUMENTS, "--benchmark-compare=x")
        assert result.ret == 4
        result.stderr.fnmatch_lines(["*--perf-baseline*", "*got:*both*"])

    def test_remote_storage(self, project):
        project.file("perf/test_it.py", GOOD)
        result = project.run(*self.ARGUMENTS, "--benchmark-storage=elasticsearch+http://x/y")
        assert result.ret == 4
        result.stderr.fnmatch_lines(["*needs a file storage*"])


def test_label_is_stable(project):
    """Objects of a fixture do not put addresses into saved runs."""
    project.file(
        "test_it.py",
        """
        class Thing:
            pass

        @pytest.mark.parametrize("thing", [Thing()], ids=["thing"])
        @pytest.mark.perf_backends(ours=torch.exp)
        def test_exp(perf, thing, backend):
            perf(backend, torch.randn(4), reference=torch.exp)
        """,
    )
    assert project.run("--benchmark-save=a").ret == 0
    (bench,) = json.loads(saved(project)[0].read_text())["benchmarks"]
    assert bench["params"]["backend"] == "ours"
    assert re.search("0x[0-9a-f]+", json.dumps(bench["options"])) is None
