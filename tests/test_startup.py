"""Every pytest run in an environment loads the plugin, so it must not cost what torch costs."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest_rightfast

SCRIPT = """
import sys, pytest
code = pytest.main({arguments})
heavy = sorted({{"torch", "numpy", "triton", "matplotlib", "tabulate"}} & set(sys.modules))
print("code", int(code), "heavy", heavy, "plugin", "pytest_rightfast.plugin" in sys.modules)
"""


def run(folder: Path, *arguments: str) -> str:
    installed = "rightfast" in metadata.entry_points(group="pytest11").names
    named = [] if installed else ["-p", "pytest_rightfast.plugin"]
    # Plugins of other packages, which import numpy.
    others = ["-p", "no:hypothesispytest", "-p", "no:zarr"]
    chosen = [*named, *others, "-q", *arguments]
    source = str(Path(pytest_rightfast.__file__).parents[1])
    path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(arguments=chosen)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout + done.stderr


def test_an_ordinary_run_imports_no_torch(tmp_path):
    (tmp_path / "test_plain.py").write_text("def test_plain():\n    pass\n")
    output = run(tmp_path, "test_plain.py")
    assert "code 0 heavy [] plugin True" in output


def test_a_run_that_collects_perf_cases_imports_no_torch_of_its_own(tmp_path):
    (tmp_path / "test_case.py").write_text("def test_case(perf):\n    pass\n")
    output = run(tmp_path, "--collect-only", "test_case.py", "--perf-baseline=main")
    assert "code 0 heavy [] plugin True" in output


def test_the_package_alone_imports_no_torch(tmp_path):
    script = (
        "import sys, pytest_rightfast, pytest_rightfast.results, pytest_rightfast.cli;"
        "print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    source = str(Path(pytest_rightfast.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "False"]
