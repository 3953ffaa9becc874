"""Ways to run the plugin: one case in this process, or a small project in a pytest of its own.

torch and what the plugin imports late are imported here first: an in-process run drops from
`sys.modules` what it imported itself, and torch does not survive being imported twice.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy  # noqa: F401
import pytest
import tabulate  # noqa: F401
import torch
import torch.autograd.profiler
import torch.utils._python_dispatch
import torch.utils.deterministic

import pytest_rightfast.plugin
from pytest_rightfast.case import Backend
from pytest_rightfast.fixture import Perf, PerfSession
from pytest_rightfast.options import Options
from pytest_rightfast.results import Row

PACKAGE = Path(pytest_rightfast.plugin.__file__).parent
QUICK = ("--benchmark-max-time=0.02", "--benchmark-min-rounds=3")


def _plugin_arguments() -> list[str]:
    """Installed, the plugin comes by its entry point; otherwise it has to be named."""
    points = metadata.entry_points(group="pytest11")
    installed = any(point.value == "pytest_rightfast.plugin" for point in points)
    return [] if installed else ["-p", "pytest_rightfast.plugin"]


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


class OneCase:
    """Runs `perf(...)` on one case without a test around it."""

    def __init__(self, root: Path, timing: bool) -> None:
        options = Options(timing=timing, max_time=0.01, min_rounds=3)
        self.session = PerfSession(options, root)
        self.row: Row | None = None
        self.count = 0

    def __call__(self, function: Callable[..., Any], /, *args: Any, **keywords: Any) -> Row:
        """The row of a case; raises what the test would."""
        self.count += 1
        test = f"test_x.py::test_{self.count}"
        perf = Perf(self.session, test, test, None, 1)
        try:
            return perf(function, *args, **keywords)
        finally:
            self.row = perf.row

    def peer(self, function: Callable[..., Any], /, *args: Any, **keywords: Any) -> Row:
        """The row of a case whose backend is a peer, whatever came of it."""
        with pytest.raises(pytest.skip.Exception):
            self(Backend("theirs", function, "peer"), *args, **keywords)
        assert self.row is not None
        return self.row


@pytest.fixture
def verify(tmp_path: Path) -> OneCase:
    """One case, verified and counted, not timed."""
    return OneCase(tmp_path, timing=False)


@pytest.fixture
def measure(tmp_path: Path) -> OneCase:
    """One case through all stages, with a tiny budget."""
    return OneCase(tmp_path, timing=True)


class Project:
    """A throw-away project of perf files."""

    HEAD = "import numpy as np\nimport pytest\nimport torch\n"

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester, self.path = pytester, pytester.path

    def file(self, name: str, source: str, head: str | None = None) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        head = self.HEAD if head is None else head
        path.write_text(head + textwrap.dedent(source), encoding="utf-8")
        return path

    def run(self, *arguments: str) -> pytest.RunResult:
        """pytest in this process, with a small budget. It shares torch with the tests."""
        return self.pytester.runpytest_inprocess(*self.arguments(*arguments))

    def apart(self, *arguments: str) -> pytest.RunResult:
        """pytest in a process of its own, for what would outlast the run."""
        return self.pytester.runpytest_subprocess(*self.arguments(*arguments))

    @staticmethod
    def arguments(*arguments: str) -> list[str]:
        chosen = [
            *_plugin_arguments(),
            "--import-mode=importlib",
            "-p",
            "no:hypothesispytest",
            *arguments,
        ]
        given = {argument.partition("=")[0] for argument in arguments}
        return chosen + [one for one in QUICK if one.partition("=")[0] not in given]


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    return Project(pytester)


@pytest.fixture(autouse=True)
def same_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Child processes test this very copy of the plugin, from whatever folder they start."""
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE.parent), prepend=os.pathsep)


@pytest.fixture
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a script in a fresh interpreter that finds the same package."""

    def run(script: str, *arguments: str, **keywords: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, **keywords)

    return run
