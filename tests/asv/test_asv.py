"""The real asv on a repository of commits: fast, fast, 1.5x slower, wrong, not to build, fixed.

Without network: the snapshot environment installs nothing.
"""

import json
import math
import re

import pytest

from pytest_rightfast import checkouts, git
from pytest_rightfast.asv_side import Side
from pytest_rightfast.errors import PerfError

pytestmark = pytest.mark.slow

TRIPLE = "\ndef triple(x):\n    return 3 * x\n"
NEW_CASE = """import tiny
import torch

def test_triple(perf):
    perf(tiny.triple, torch.randn(100), reference=lambda x: 3 * x)
"""
ONE_ROUND = ("-a", "rounds=1")


@pytest.fixture(scope="module")
def commits(project):
    """Commit by name. The last one, as it lies in the working tree, brings a new case."""
    made = {"fast": project.commit("fast"), "fast too": project.commit("fast too")}
    made["slow"] = project.commit("slow", milliseconds=15)
    made["wrong"] = project.commit("wrong", milliseconds=15, error="1")
    project.git("branch", "aside")
    made["unbuildable"] = project.commit("unbuildable", error="no C")
    project.put(
        "src/tiny/__init__.py", (project.root / "src/tiny/__init__.py").read_text() + TRIPLE
    )
    project.put("perf/test_triple.py", NEW_CASE)
    made["fixed"] = project.commit("fixed", milliseconds=15)
    project.build()
    return made


def results(project, commit):
    """Numbers of one commit by benchmark; None where asv skipped it."""
    (file,) = (project.root / ".asv/results").glob(f"*/{commit[:8]}-*.json")
    return {
        name: value[0] and value[0][0]
        for name, value in json.loads(file.read_text())["results"].items()
    }


def table(output):
    """Change, before, after and ratio by benchmark."""
    rows = re.findall(r"^\|(.*)\|$", output, re.MULTILINE)[2:]
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    return {name: rest for *rest, name in cells}


def test_history(project, commits):
    done = project.asv("run", "main", *ONE_ROUND, "-b", "double")
    assert done.returncode == 2  # asv's code for "something was skipped"
    assert f"{commits['unbuildable'][:8]} cannot be built" in done.stdout
    assert "error: " in done.stdout  # the compiler's own words
    found = {name: results(project, commit) for name, commit in commits.items()}
    time, wrong = "test_tiny.time_double", "test_tiny.track_wrong_double"
    # Each commit's own compiled code, although head's lies built on the path of every process.
    assert found["fast"][time] == pytest.approx(0.0105, rel=0.15)
    assert found["fast too"][time] == pytest.approx(0.0105, rel=0.15)
    assert found["slow"][time] == pytest.approx(0.0155, rel=0.15)
    assert found["fixed"][time] == pytest.approx(0.0155, rel=0.15)
    assert math.isnan(found["wrong"][time])
    assert found["unbuildable"][time] is None
    assert [found[name][wrong] for name in ("fast", "wrong", "fixed")] == [0, 1, 0]
    assert found["slow"]["test_tiny.track_allocated_bytes_double"] == 4000
    assert found["slow"]["test_tiny.track_percent_of_copy_double"] > 100

    assert project.asv("publish").returncode == 0
    shown = json.loads((project.root / "html/regressions.json").read_text())["regressions"]
    (regression,) = [one for one in shown if one[0] == time]
    ((before, after, old, new),) = regression[6]
    revisions = json.loads((project.root / "html/index.json").read_text())["revision_to_hash"]
    assert before is None  # a single commit, not a range
    assert revisions[str(after)] == commits["slow"]
    assert new / old == pytest.approx(1.5, rel=0.2)


def test_slower_fails(project, commits):
    done = project.asv("continuous", commits["fast too"], commits["slow"], "-b", "double")
    assert done.returncode == 1
    slower = {"test_tiny.time_double", "test_tiny.track_percent_of_copy_double"}
    assert table(done.stdout).keys() == slower
    assert {row[0] for row in table(done.stdout).values()} == {"+"}


def test_newly_wrong_fails(project, commits):
    done = project.asv(
        "continuous", commits["slow"], commits["wrong"], *ONE_ROUND, "-b", "double", "-e"
    )
    assert done.returncode == 1
    assert table(done.stdout) == {"test_tiny.track_wrong_double": ["+", "0", "1", "n/a"]}
    assert "element" in done.stdout  # where and by how much, because of -e


def test_broken_already_does_not_block(project, commits):
    project.git("checkout", "--quiet", "aside")
    still = project.commit("still wrong", milliseconds=15, error="2")
    project.git("checkout", "--quiet", "main")
    done = project.asv("continuous", commits["wrong"], still, *ONE_ROUND, "-b", "double")
    assert done.returncode == 0
    assert not table(done.stdout)


def test_fixed_passes_and_new_is_not_applicable(project, commits):
    done = project.asv("continuous", commits["wrong"], commits["fixed"], *ONE_ROUND)
    assert done.returncode == 0
    assert table(done.stdout) == {"test_tiny.track_wrong_double": ["-", "1", "0", "0"]}
    assert math.isnan(results(project, commits["wrong"])["test_triple.time_triple"])
    assert math.isnan(results(project, commits["wrong"])["test_triple.track_wrong_triple"])
    assert results(project, commits["fixed"])["test_triple.track_wrong_triple"] == 0


def test_code_of_another_commit_gives_no_number(project, commits, monkeypatch):
    for name in ("RIGHTFAST_CACHE", "RIGHTFAST_LOCK"):
        monkeypatch.setenv(name, project.env[name])
    source = git.resolve(project.root, commits["fast"], merge_base=False)
    root = checkouts.prepare(source).root
    side = Side(project.root, project.root / "perf", root, root, [str(root / "src")])
    stray = "import ctypes\nctypes.CDLL('{}')\n\ndef test_a():\n    pass\n"
    project.put("perf/test_stray.py", stray.format(project.root / "src/tiny/core.so"))
    try:
        with pytest.raises(PerfError, match="outside its own checkout"):
            side.ask([str(project.root / "perf/test_stray.py")])
    finally:
        (project.root / "perf/test_stray.py").unlink()
