"""What no linter knows of our workflows: which of them may write, and what they run."""

from __future__ import annotations

import re

import pytest
import steps
import yaml

FOLDER = steps.ROOT / ".github" / "workflows"
WORKFLOWS = {file.stem: yaml.safe_load(file.read_text()) for file in FOLDER.glob("*.yml")}
ACTIONS = {folder.name: folder / "action.yml" for folder in (steps.ROOT, steps.ROOT / "comment")}
TEXTS = [*FOLDER.glob("*.yml"), *ACTIONS.values()]


def of_jobs(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_they_are_there():
    assert {"ci", "perf", "perf-comment", "perf-gpu", "history"} == set(WORKFLOWS)


@pytest.mark.parametrize("file", TEXTS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_actions_of_others_are_pinned_and_say_their_version(file):
    used = re.findall(r"uses: (\S+)(.*)", file.read_text())
    for name, rest in used:
        local = name.startswith("./")
        assert local or re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", name), name
        assert local or re.match(r" # v\d+\.\d+\.\d+$", rest), name


@pytest.mark.parametrize("name", WORKFLOWS)
def test_no_expression_stands_in_a_script(name):
    for step in of_jobs(WORKFLOWS[name]):
        assert "${{" not in step.get("run", "")


def test_only_the_comment_and_the_history_may_write():
    writing = set()
    for name, workflow in WORKFLOWS.items():
        held = [workflow["permissions"], *(j.get("permissions") for j in workflow["jobs"].values())]
        if any("write" in one.values() for one in held if one):
            writing.add(name)
    assert writing == {"perf-comment", "history"}


def test_what_may_write_runs_nothing_of_a_pull_request():
    """`True` is what YAML makes of the key `on`."""
    for name in ("perf-comment", "history"):
        assert not {"pull_request", "pull_request_target"} & set(WORKFLOWS[name][True])
    for step in of_jobs(WORKFLOWS["perf-comment"]):
        assert "run" not in step
        assert "ref" not in step.get("with", {})


def test_the_comment_waits_for_the_workflows_that_gate():
    watched = WORKFLOWS["perf-comment"][True]["workflow_run"]["workflows"]
    assert watched == [WORKFLOWS["perf"]["name"], WORKFLOWS["perf-gpu"]["name"]]


@pytest.mark.parametrize(("workflow", "artifact"), [("perf", None), ("perf-gpu", "rightfast-gpu")])
def test_inputs_are_those_of_the_action(workflow, artifact):
    (step,) = [s for s in of_jobs(WORKFLOWS[workflow]) if s.get("uses") == "./"]
    known = yaml.safe_load((steps.ROOT / "action.yml").read_text())["inputs"]
    assert set(step["with"]) <= set(known)
    assert step["with"].get("artifact") == artifact


def test_a_forks_code_waits_for_a_reviewer_of_the_gpu():
    (job,) = WORKFLOWS["perf-gpu"]["jobs"].values()
    assert job["environment"].endswith("&& 'gpu' || 'gpu-forks' }}")
    assert "head.repo.full_name == github.repository" in job["environment"]
