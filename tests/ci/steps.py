"""The steps of a composite action, run here as a runner would: bash, environment, conditions.

Only expressions that the actions use are known; another one fails the test, so that nothing is
skipped by accident. Steps of other people's actions are noted, not run.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import yaml

import pytest_rightfast

ROOT = Path(__file__).parents[2]
SOURCE = Path(pytest_rightfast.__file__).parents[1]  # a copy, where a mutant is tested


@dataclass
class Ran:
    """What came of it: exit code of the job, everything printed, the runner's files, steps."""

    code: int = 0
    said: str = ""
    summary: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)


def run(action: Path, inputs: dict[str, str], cwd: Path, scratch: Path, env: dict[str, str]) -> Ran:
    """Run the `run:` steps of an action file; after a failure only those that say so."""
    content = yaml.safe_load(action.read_text())
    unknown = set(inputs) - set(content["inputs"])
    assert not unknown, unknown
    known = {"github.action_path": str(action.parent), "runner.temp": str(scratch)}
    known["github.token"] = "secret"
    for name, one in content["inputs"].items():
        known[f"inputs.{name}"] = inputs.get(name, evaluate(str(one.get("default", "")), known))
    ran = Ran()
    files = {name: scratch / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    for file in files.values():
        file.write_text("")
    for step in content["runs"]["steps"]:
        if ran.code and step.get("if") != "${{ !cancelled() }}":
            continue
        ran.done.append(step["name"])
        if "uses" not in step:
            _step(step, known, cwd, {**env, **{k: str(f) for k, f in files.items()}}, ran)
    ran.summary = files["GITHUB_STEP_SUMMARY"].read_text()
    lines = files["GITHUB_OUTPUT"].read_text().splitlines()
    ran.outputs = dict(line.split("=", 1) for line in lines)
    return ran


def _step(step, known, cwd, env, ran) -> None:
    assert step["shell"] == "bash"
    assert "${{" not in step["run"], "an expression in a script is an injection"
    script = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
    own = {name: evaluate(str(value), known) for name, value in step.get("env", {}).items()}
    place = cwd / evaluate(step.get("working-directory", "."), known)
    done = subprocess.run(
        script, cwd=place, env={**env, **own}, capture_output=True, text=True, timeout=500
    )
    ran.said += done.stdout + done.stderr
    ran.code = ran.code or done.returncode


def evaluate(text: str, known: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ *([^}]*?) *\}\}", lambda match: known[match[1]], text)


def plain_environment() -> dict[str, str]:
    """Without what a runner, or the gate's own variables, would have set."""
    own = ("GITHUB_", "RIGHTFAST_", "RUNNER_", "PYTEST_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(own)}
    return {**kept, "PYTHONPATH": str(SOURCE)}
