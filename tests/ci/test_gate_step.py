"""The gate's action, run as a runner would: on a real project, and with a gate that is made up."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import steps
from hub import REPOSITORY, Hub, serve

from pytest_rightfast import ci, comment, gate_stored
from pytest_rightfast.errors import PerfError

ACTION = steps.ROOT / "action.yml"
FOREIGN = steps.ROOT / "tests" / "gate" / "data" / "foreign"
# What `python` is in these tests: pip is noted, not run; the gate may be made up.
PYTHON = """#!/usr/bin/env bash
if [[ "$*" == "-m pip install"* ]]; then echo "pip: ${@: -1}"; exit; fi
exec %s "$@"
"""
MADE_UP = """
import os, sys
from pathlib import Path

words = sys.argv[1:]
print("words", words)
if os.environ.get("MARKDOWN"):
    Path(words[words.index("--markdown") + 1]).write_text(os.environ["MARKDOWN"])
sys.exit(int(os.environ["CODE"]))
"""


@pytest.fixture
def act(tmp_path):
    """Run the action on a pull request; keywords are the environment's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    python = folder / "python"
    python.write_text(PYTHON % sys.executable)
    python.chmod(0o755)
    project, scratch = tmp_path / "project", tmp_path / "runner"
    project.mkdir(exist_ok=True)
    scratch.mkdir()

    def run(inputs=None, **environment):
        env = {**steps.plain_environment(), "HOME": str(tmp_path), "GITHUB_BASE_REF": "main"}
        env["PATH"] = os.pathsep.join([str(folder), env["PATH"]])
        return steps.run(ACTION, inputs or {}, project, scratch, {**env, **environment})

    return run


@pytest.fixture
def made_up(act, tmp_path):
    """The action with a gate that ends as it is told."""
    package = tmp_path / "fake" / "pytest_rightfast"
    shutil.copytree(steps.SOURCE / "pytest_rightfast", package)
    (package / "__main__.py").write_text(MADE_UP)

    def run(code=0, markdown="## report", inputs=None, **environment):
        path = {"PYTHONPATH": str(package.parent), "CODE": str(code), "MARKDOWN": markdown}
        return act(inputs, **path, **environment)

    return run


@pytest.mark.parametrize("code", [0, 1, 2, 4, 10, 11, 12, 13, 14, 15])
def test_the_job_ends_with_the_gates_code_and_the_summary_is_there(made_up, code):
    ran = made_up(code)
    assert ran.code == code
    assert ran.outputs == {"exit-code": str(code)}
    assert ran.summary == "## report\n"
    assert ran.done == ["Install rightfast", "Keep builds", "Gate", "Keep the report"]
    assert f"pip: {steps.ROOT}" in ran.said


def test_a_gate_that_died_has_a_summary_too(made_up):
    ran = made_up(-9, markdown="")
    assert ran.code == 247
    assert "the gate ended with -9" in ran.summary or "247" in ran.summary


def test_inputs_become_the_gates_words(made_up, tmp_path):
    inputs = {"against": "v1.0", "paths": "perf more", "budget": "60", "min-effect": "5%"}
    inputs |= {"fail-on": "slower,wrong", "advisory": "true", "device": "cuda", "threads": "2"}
    ran = made_up(inputs={**inputs, "arguments": "-k 'a or b'"})
    out = tmp_path / "runner" / "rightfast"
    words = ["gate", "v1.0", "perf", "more", "--json", f"{out}/rightfast.json"]
    words += ["--markdown", f"{out}/rightfast.md", "--budget", "60", "--min-effect", "5%"]
    words += ["--fail-on", "slower,wrong", "--device", "cuda", "--threads", "2", "--advisory"]
    assert f"words {[*words, '--', '-k', 'a or b']}" in ran.said


def test_a_shells_words_in_an_input_are_no_commands(made_up, tmp_path):
    made_up(inputs={"against": "$(touch owned)`touch owned`;touch owned", "paths": "a;touch owned"})
    assert not list(tmp_path.rglob("owned"))


def test_by_default_the_pull_requests_base_is_compared_with(made_up):
    assert "words ['gate', 'origin/main', 'perf', " in made_up().said


def test_without_a_base_the_step_says_what_to_do(made_up):
    ran = made_up(GITHUB_BASE_REF="", GITHUB_EVENT_NAME="schedule")
    assert ran.code == 15
    for text in (ran.said, ran.summary):
        assert "nothing to compare with" in text
        assert "schedule" in text
    assert "::error::rightfast: nothing to compare with%0A  expected:" in ran.said


def test_a_misspelt_flag_is_refused():
    with pytest.raises(PerfError, match="expected: true or false"):
        ci.command({"RIGHTFAST_ADVISORY": "yes", "RIGHTFAST_AGAINST": "main"}, Path())


@pytest.fixture
def labelled(made_up, tmp_path):
    """The made-up gate, on pull request 7 whose labels are the hub's."""

    def run(code, labels, inputs=None, broken=False, event=None):
        hub = Hub()
        hub.labels, hub.broken = labels, broken
        file = tmp_path / "event.json"
        known = {"pull_request": {"number": 7, "labels": [{"name": "perf-override"}]}}
        file.write_text(json.dumps(known if event is None else event))
        with serve(hub) as address:
            env = {"GITHUB_API_URL": address, "GITHUB_REPOSITORY": REPOSITORY}
            return made_up(code, inputs=inputs, GITHUB_EVENT_PATH=str(file), **env)

    return run


@pytest.mark.parametrize(
    ("code", "ends"), [(10, 0), (12, 0), (14, 0), (11, 11), (13, 13), (15, 15)]
)
def test_a_label_excuses_time_and_cost_alone(labelled, code, ends):
    ran = labelled(code, ["bug", "perf-override"])
    assert ran.code == ends
    assert ran.outputs == {"exit-code": str(ends)}
    assert ("overridden by the label perf-override" in ran.summary) == (ends == 0)


def test_the_label_is_read_live(labelled):
    """The event still has the label that was taken away since."""
    assert labelled(10, []).code == 10


def test_the_label_can_be_another_or_none(labelled):
    assert labelled(10, ["slow-ok"], {"override-label": "slow-ok"}).code == 0
    assert labelled(10, ["perf-override"], {"override-label": "slow-ok"}).code == 10
    assert labelled(10, ["perf-override"], {"override-label": ""}).code == 10


def test_labels_that_cannot_be_read_excuse_nothing(labelled):
    ran = labelled(10, ["perf-override"], broken=True)
    assert ran.code == 10
    assert "::warning::rightfast: the labels can't be read" in ran.said


def test_a_push_has_no_labels(labelled):
    assert labelled(10, ["perf-override"], event={"ref": "main"}).code == 10


@pytest.fixture
def clone(tmp_path, act):
    """A clone of a foreign project, as actions/checkout leaves it: detached, with origin/main."""
    origin, project = tmp_path / "origin", tmp_path / "project"
    shutil.copytree(FOREIGN, origin)
    file = origin / "perf" / "test_toy.py"
    parts = file.read_text().split("\n\n\n")
    kept = [part for part in parts if not part.startswith(("def test_", "@")) or "double" in part]
    file.write_text("\n\n\n".join(kept) + "\n")

    def git(*words, cwd=origin):
        who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.invalid")
        command = ["git", *who, *words]
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "--quiet", "--initial-branch=main")
    git("add", "--all")
    git("commit", "--quiet", "--message", "base")
    git("switch", "--quiet", "--create", "topic")

    def head(old=None, new=None, depth=None):
        file = origin / "src" / "toy" / "__init__.py"
        assert old is None or old in file.read_text()
        file.write_text(file.read_text().replace(old, new) if old else file.read_text() + "\n#\n")
        git("commit", "--quiet", "--all", "--message", "change")
        project.rmdir()
        shallow = ["--depth", depth, "--branch", "topic"] if depth else []
        git("clone", "--quiet", "--no-local", *shallow, f"file://{origin}", project, cwd=tmp_path)
        git("checkout", "--quiet", git("rev-parse", "HEAD"), cwd=project)
        return project

    return head


def test_a_change_that_is_right_passes(act, clone, tmp_path):
    """A sequence has no time, so the gate ends after its first pair."""
    clone()
    ran = act({"arguments": "-k test_steps"}, RIGHTFAST_LOCK=str(tmp_path / "lock"))
    assert ran.code == 0, ran.said
    out = tmp_path / "runner" / "rightfast"
    assert json.loads((out / ci.JSON).read_text())["exit_code"] == 0
    assert ran.summary.startswith("## rightfast: passed&#58; 1 ")
    assert ran.summary.strip() == (out / ci.MARKDOWN).read_text().strip()
    assert (tmp_path / ".cache" / "rightfast" / "builds").is_dir()  # what the cache step keeps


def test_a_change_that_is_wrong_fails(act, clone, tmp_path):
    clone("y = x.clone()", "y = x.abs()")
    ran = act({"arguments": "-k test_double"}, RIGHTFAST_LOCK=str(tmp_path / "lock"))
    assert ran.code == 11, ran.said
    assert ran.outputs == {"exit-code": "11"}
    assert "- **wrong** perf/test&#95;toy.py&#58;&#58;test&#95;double: " in ran.summary
    assert ran.done[-1] == "Keep the report"
    stored = gate_stored.parse((tmp_path / "runner" / "rightfast" / ci.JSON).read_bytes())
    assert "| toy&#58; double | wrong |" in comment.render(stored, "key", "", "failure")


def test_a_shallow_clone_says_what_to_do(act, clone):
    clone(depth="1")
    ran = act()
    assert ran.code == 15
    assert "fetch" in ran.said
    assert "the gate could not run" in ran.summary
