"""`--benchmark-compare` and `--perf-baseline` as a gate: verdicts, exit codes, pairs, baselines.

Each fault of pytest-benchmark's own comparison is closed: what is new, missing or skipped is said;
a repeated `--benchmark-compare-fail` is refused; another machine or Python decides no time; the
same code does not fail by noise.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

CODE = """
import torch

def work(x):
    for _ in range({rounds}):
        y = x.exp()
    return y
"""
PERF = """
    import code_under_test

    def test_exp(perf):
        perf(code_under_test.work, torch.randn(20000), reference=torch.exp)

    def test_sum(perf):
        perf(torch.sum, torch.randn(8, 8), dim=0, reference=torch.sum)
"""
BASELINE = ("perf", "--perf-baseline=main")
# importlib makes a namespace package of the folder `perf`, of which the gate is given one file.
SETTINGS = """
[tool.pytest.ini_options]
pythonpath = ["src"]
addopts = "--import-mode=importlib"
"""


@pytest.fixture
def history(project, monkeypatch, tmp_path_factory):
    """A committed project with a baseline; its storage is ignored by git."""
    around = tmp_path_factory.mktemp("around")
    monkeypatch.setenv("RIGHTFAST_CACHE", str(around / "cache"))
    monkeypatch.setenv("RIGHTFAST_LOCK", str(around / "lock"))
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@b.c")
    project.file("perf/test_it.py", PERF)
    project.file("src/code_under_test.py", CODE.format(rounds=1), head="")
    project.file("pyproject.toml", SETTINGS, head="")
    project.file(".gitignore", ".benchmarks\n__pycache__\n.pytest_cache\n", head="")
    commit(project, "init", "-q")
    assert project.run(*BASELINE).ret == 0
    return project


def commit(project: Any, *before: str) -> None:
    for arguments in (before, ("add", "-A"), ("commit", "-qm", "change")):
        if arguments:
            subprocess.run(["git", *arguments], cwd=project.path, check=True)


def change(project: Any, edit: Any) -> Path:
    """Edit the stored run; returns its file."""
    (file,) = project.path.glob(".benchmarks/*/*_main.json")
    content = json.loads(file.read_text())
    edit(content)
    file.write_text(json.dumps(content))
    return Path(file)


def scale_times(content: Any, by: float = 0.05) -> None:
    for bench in content["benchmarks"]:
        for name in ("median", "q3"):
            bench["stats"][name] *= by


def test_a_slowdown_is_confirmed_by_pairs(history):
    history.file("src/code_under_test.py", CODE.format(rounds=8), head="")
    result = history.run(*BASELINE, "--perf-budget=200")
    assert result.ret == 10
    result.stdout.fnmatch_lines(  # noise may make a suspect of the other one, which pairs clear
        [
            "compare: [12] suspects, in pairs against * of 0001_main.json",
            "  SLOWER it: exp: lower bound * is above 1.030x*",
            "compared with 0001_main.json: failed (slower, exit 10)*",
        ]
    )


@pytest.mark.slow
def test_noise_is_cleared_by_pairs(history):
    """The stored run claims to be twenty times as fast; the same code against itself is not."""
    change(history, scale_times)
    result = history.run(*BASELINE, "--perf-budget=100", "--perf-min-effect=25%")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*compare: 2 suspects, in pairs*", "compared with *: passed*"])
    assert "SLOWER" not in result.stdout.str()


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda content: content["commit_info"].update(dirty=True), "uncommitted changes"),
        (lambda content: content["commit_info"].update(id="unversioned"), "does not say which"),
        (lambda content: content["commit_info"].update(id="0" * 40), "0000"),
    ],
)
def test_what_cannot_be_confirmed_says_so(history, edit, why):
    change(history, lambda content: (scale_times(content), edit(content)))
    result = history.run(*BASELINE)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*UNDECIDED*", f"*2 suspects are not confirmed: *{why}*"])


def test_without_a_budget_suspects_stay_undecided(history):
    change(history, scale_times)
    result = history.run(*BASELINE, "--perf-budget=0")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*2 suspects are not confirmed: --perf-budget is 0*"])


def test_another_machine_and_another_python_decide_no_time(history):
    """A baseline from elsewhere is found, judges answers and counters, and calls nothing slower."""

    def elsewhere(content: Any) -> None:
        scale_times(content)
        for bench in content["benchmarks"]:
            bench["extra_info"]["environment"].update(python="3.99.0", host="another")

    file = change(history, elsewhere)
    folder = file.parents[1] / "Linux-CPython-3.99-64bit"
    folder.mkdir()
    file.rename(folder / file.name)
    result = history.run(*BASELINE, "--perf-budget=0")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*UNDECIDED*the stored time is of another python*"])
    wrong = CODE.format(rounds=1).replace("return y", "return y + 1e-3")
    history.file("src/code_under_test.py", wrong, head="")
    assert history.run(*BASELINE, "--perf-budget=0").ret == 11


@pytest.mark.parametrize(
    ("old", "new", "code", "verdict"),
    [
        ("return y", "return y + 1e-3", 11, "WRONG"),
        ("return y", "return y * (1 + 1e-6)", 11, "LESS ACCURATE"),
        ("return y", "return y.clone()", 12, "COSTLIER"),
        ("return y", "raise KeyError('x')", 13, "NOT MEASURED"),
        ("return y", "import pytest; pytest.skip('no')", 13, "NOT MEASURED"),
    ],
)
def test_answers_costs_and_presence_fail_at_once(history, old, new, code, verdict):
    history.file("src/code_under_test.py", CODE.format(rounds=1).replace(old, new), head="")
    result = history.run(*BASELINE, "--perf-budget=0")
    assert result.ret == code
    result.stdout.fnmatch_lines([f"*{verdict} it: exp:*", f"compared with *exit {code})*"])


def test_a_case_that_is_gone(history):
    history.file("perf/test_it.py", PERF.replace("def test_sum", "def not_a_test"))
    result = history.run(*BASELINE, "--perf-budget=0")
    assert result.ret == 13
    result.stdout.fnmatch_lines(["*GONE it: sum:*"])
    assert history.run(*BASELINE, "-k", "exp", "--perf-budget=0").ret == 0


def test_accepted_costs_pass(history):
    history.file("src/code_under_test.py", CODE.format(rounds=2), head="")
    assert history.run(*BASELINE, "--perf-budget=0").ret == 12
    history.file(
        "perf/accepted.toml",
        '[[accept]]\ncase = "*"\nverdict = "costlier"\nlimit = "3x"\nreason = "agreed"\n'
        "expires = 2999-01-01\n",
        head="",
    )
    result = history.run(*BASELINE, "--perf-budget=0")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*costlier accepted: *agreed*"])


def test_our_code_comes_before_pytest_benchmarks_own(history):
    """Wrong and slower than `--benchmark-compare-fail` allows: the wrong answer names the code."""
    change(history, scale_times)
    fails = ("--benchmark-compare-fail=median:1%", "--perf-budget=0")
    result = history.run(*BASELINE, *fails)
    assert result.ret == 10
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    code = CODE.format(rounds=1).replace("return y", "return y + 1e-3")
    history.file("src/code_under_test.py", code, head="")
    assert history.run(*BASELINE, *fails).ret == 11


def test_a_repeated_compare_fail_is_refused(history):
    twice = ("--benchmark-compare-fail=mean:1%", "--benchmark-compare-fail=min:900%")
    result = history.run(*BASELINE, *twice)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*given twice*", "*remedy:*mean:10% min:5%*"])


def test_fractions_of_a_percent(history):
    """pytest-benchmark refuses `5.5%`, by name; our own threshold takes it."""
    assert history.run(*BASELINE, "--benchmark-compare-fail=mean:5.5%").ret == 4
    assert history.run(*BASELINE, "--perf-min-effect=5.5%", "--perf-budget=0").ret == 0


def test_a_baseline_is_replaced_on_purpose_alone(history):
    history.run(*BASELINE, "--perf-budget=0")
    assert len(list(history.path.glob(".benchmarks/*/*.json"))) == 1
    result = history.run("perf", "--perf-save-baseline=main")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["this run was saved as the baseline 'main': 0002_main.json"])
    result = history.run(*BASELINE, "--perf-budget=0")
    result.stdout.fnmatch_lines(["compared with 0002_main.json: *"])
    result = history.run("perf", "-k", "exp", "--perf-save-baseline=main")
    result.stdout.fnmatch_lines(["*does not become the baseline 'main': a part of the suite ran*"])


def test_compare_without_a_name_means_main_not_the_last_run(history):
    history.run("perf", "--benchmark-save=later")
    result = history.run("perf", "--benchmark-compare", "--perf-budget=0")
    result.stdout.fnmatch_lines(["compared with 0001_main.json: *"])


def test_this_machines_own_baseline_comes_first(history):
    """Of two machines that share a storage, each is compared with its own."""

    def other(content: Any) -> None:
        for bench in content["benchmarks"]:
            bench["extra_info"]["environment"]["host"] = "another"

    (file,) = history.path.glob(".benchmarks/*/*_main.json")
    own = file.read_text()
    change(history, other).rename(file.with_name("0007_main.json"))
    file.write_text(own)
    result = history.run(*BASELINE, "--perf-budget=0")
    result.stdout.fnmatch_lines(["compared with 0001_main.json: *"])


def test_an_unreadable_accepted_file_fails(history):
    history.file("perf/accepted.toml", "[[accept", head="")
    result = history.run(*BASELINE, "--perf-budget=0")
    assert result.ret == 4
    result.stdout.fnmatch_lines(["*accepted.toml*not valid TOML*"])


def test_all_cases_gone_beside_other_tests(history):
    history.file("perf/test_it.py", "def test_other():\n    pass\n")
    result = history.run(*BASELINE, "--perf-budget=0")
    assert result.ret == 13
    result.stdout.fnmatch_lines(["*GONE it: exp:*"])


def test_a_skipped_case_of_a_file_that_was_asked_for(history):
    skipped = PERF.replace("def test_sum", '@pytest.mark.skip(reason="x")\n    def test_sum')
    history.file("perf/test_it.py", skipped)
    result = history.run("perf/test_it.py", "--perf-baseline=main", "--perf-budget=0")
    assert result.ret == 13
    result.stdout.fnmatch_lines(["*NOT MEASURED it: sum: *it was to run, and did not"])


def test_a_wrong_answer_that_the_test_hushes_up(project):
    project.file(
        "test_it.py",
        """
        def test_right(perf):
            perf(torch.exp, torch.randn(8), reference=torch.exp)

        def test_hushed(perf):
            try:
                perf(torch.exp, torch.randn(8), reference=torch.expm1)
            except AssertionError:
                pass
        """,
    )
    assert project.run().ret == 11


def test_ordinary_benchmarks_are_left_to_pytest_benchmark(project):
    project.file("test_plain.py", "def test_plain(benchmark):\n    benchmark(sum, [1, 2])\n")
    assert project.run("--benchmark-save=a").ret == 0
    project.file("test_plain.py", "def test_other(benchmark):\n    benchmark(sum, [1, 2])\n")
    assert project.run("--benchmark-compare=a").ret == 0
