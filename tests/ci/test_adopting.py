"""docs/adopting.md: every file and diff in it, applied to a project and run."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata

import pytest
import steps

from pytest_rightfast.results import load

TEXT = (steps.ROOT / "docs" / "adopting.md").read_text()
OPERATORS = """
import torch

def softmax(x):
    shifted = (x - x.amax(-1, keepdim=True)).exp()
    return shifted / shifted.sum(-1, keepdim=True)

def layer_norm(x):
    wide = x.double()
    centred = wide - wide.mean(-1, keepdim=True)
    return (centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()).to(x.dtype)

def draw(generator):
    return (torch.randn(8, 64, generator=generator),)

TABLE = {"relu": lambda x: x.clamp(min=0), "square": lambda x: x * x}
"""
PROJECT = """
[tool.pytest.ini_options]
pythonpath = ["."]
"""
# Section -> its perf file, the tests in it, and which of them the mistakes below make wrong.
SECTIONS = {
    "A table of callables": (
        "test_operators.py",
        [f"test_operators[{n}-{b}]" for n in ("relu", "square") for b in ("ours", "torch")],
        {"test_operators[square-ours]"},
    ),
    "An asv class": (
        "test_norm.py",
        [f"test_layer[{w}-{d}]" for w in (64, 512) for d in ("float32", "bfloat16")],
        {"test_layer[64-float32]", "test_layer[512-float32]"},  # too little for bfloat16
    ),
    "A benchmark script with providers": (
        "test_softmax.py",
        [f"test_softmax[{b}-{w}]" for b in ("ours", "torch") for w in (256, 4096)],
        {"test_softmax[ours-256]", "test_softmax[ours-4096]"},
    ),
    "An operator registry": (
        "test_registry.py",
        [f"test_operators[softmax-{w}-{v}]" for w in (64, 1024) for v in ("eager", "fast")],
        {"test_operators[softmax-64-fast]", "test_operators[softmax-1024-fast]"},
    ),
}
MISTAKES = {"x * x": "x * abs(x)", "1e-5": "1e-2", "return shifted /": "return 1.001 * shifted /"}


def statuses(folder, source):
    """Write all files, apply all diffs, run pytest; status by perf file and test."""
    for name, content in re.findall(r'^```python title="(\S+)"\n(.*?)^```$', TEXT, re.M | re.S):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "operators.py").write_text(source)
    for diff in re.findall(r"^```diff\n(.*?)^```$", TEXT, re.M | re.S):
        subprocess.run(["git", "apply", "-"], cwd=folder, input=diff, text=True, check=True)
    command = [sys.executable, "-m", "pytest", "perf", "--benchmark-disable"]
    command += ["--perf-json", "rows.json"]
    if not metadata.entry_points(group="pytest11", name="rightfast"):
        command += ["-p", "pytest_rightfast.plugin"]
    env = steps.plain_environment()
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert (folder / "rows.json").exists(), done.stdout + done.stderr
    found: dict[str, dict[str, str]] = {}
    for row in load(folder / "rows.json"):
        names = row.id.split("::")
        found.setdefault(names[0].removeprefix("perf/"), {})[names[-1]] = row.status
    return found


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    return statuses(tmp_path_factory.mktemp("right"), OPERATORS)


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    source = OPERATORS
    for old, new in MISTAKES.items():
        assert old in source
        source = source.replace(old, new)
    return statuses(tmp_path_factory.mktemp("wrong"), source)


def test_every_section_with_a_diff_is_run():
    sections = re.findall(r"^## (.*?)$(.*?)(?=^## |\Z)", TEXT, re.M | re.S)
    assert [name for name, text in sections if "```diff" in text] == list(SECTIONS)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_diff_makes_its_cases(right, section):
    file, tests, _ = SECTIONS[section]
    assert right[file] == dict.fromkeys(tests, "ok")


@pytest.mark.parametrize("section", SECTIONS)
def test_a_mistake_is_seen(wrong, section):
    file, tests, bad = SECTIONS[section]
    assert wrong[file] == {name: "wrong" if name in bad else "ok" for name in tests}
