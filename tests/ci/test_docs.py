"""What the README and docs/ci.md show: a real report, right YAML, a case that runs."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import steps
import yaml

DOCS = steps.ROOT / "docs"
README = (steps.ROOT / "README.md").read_text()
WORKFLOWS = {
    f"{file.stem}-{number}": text
    for file in (steps.ROOT / "README.md", DOCS / "ci.md")
    for number, text in enumerate(
        re.findall(r"^```yaml\n(.*?)^```$", file.read_text(), re.M | re.S)
    )
    if "jobs:" in text
}


def test_the_report_in_the_readme_is_the_one_that_was_made():
    assert f"```\n{(DOCS / 'gate.txt').read_text()}```\n" in README


def test_the_picture_is_drawn_from_it():
    spec = importlib.util.spec_from_file_location("picture", DOCS / "picture.py")
    picture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(picture)
    text = (DOCS / "gate.txt").read_text()
    assert (DOCS / "gate.svg").read_text() == picture.draw(text)
    assert "&lt;b&gt;\u00a0\u00a0x" in picture.draw("<b>  x")


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflows_in_the_docs(name, tmp_path):
    content = yaml.safe_load(WORKFLOWS[name])
    for job in content["jobs"].values():
        for step in job["steps"]:
            owner, _, rest = step.get("uses", "").partition("/rightfast")
            if owner == "OWNER":
                action = steps.ROOT / rest.partition("@")[0].strip("/") / "action.yml"
                known = yaml.safe_load(action.read_text())["inputs"]
                assert set(step.get("with", ())) <= set(known)
    linter = shutil.which("actionlint", path=Path(sys.executable).parent) or shutil.which(
        "actionlint"
    )
    if linter is None:
        pytest.skip("actionlint is not installed")
    file = tmp_path / "workflow.yml"
    file.write_text(WORKFLOWS[name])
    done = subprocess.run([linter, file], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_every_input_is_documented():
    inputs = yaml.safe_load((steps.ROOT / "action.yml").read_text())["inputs"]
    rows = "\n".join(re.findall(r"^\|(.*?)\|", (DOCS / "ci.md").read_text(), re.M))
    assert set(inputs) <= set(re.findall(r"`([\w-]+)`", rows))


def pytest_in(folder, *arguments):
    command = [sys.executable, "-m", "pytest", "perf", "--benchmark-disable", *arguments]
    if not metadata.entry_points(group="pytest11", name="rightfast"):
        command += ["-p", "pytest_rightfast.plugin"]
    env = steps.plain_environment()
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


@pytest.fixture
def example(tmp_path):
    return shutil.copytree(DOCS / "example", tmp_path / "example")


def test_the_readmes_case_runs_on_the_example(example):
    (case,) = re.findall(r"^```python\n(import torch\nfrom fastops.*?)^```$", README, re.M | re.S)
    (example / "perf" / "test_fastops.py").write_text(case)
    done = pytest_in(example)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_the_change_is_wrong_where_the_report_says_so(example):
    subprocess.run(["git", "apply", "change.diff"], cwd=example, check=True)
    done = pytest_in(example)
    assert done.returncode == 1
    assert "1 failed, 3 passed" in done.stdout
    assert "family large" in done.stdout
