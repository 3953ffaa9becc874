"""A small project with a compiled part, and the real asv run on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"

CONF = """{
    "version": 1,
    "project": "tiny",
    "repo": ".",
    "branches": ["main"],
    "plugins": [".pytest_rightfast.asv_snapshot"],
    "environment_type": "snapshot",
    "launch_method": "forkserver",
    "benchmark_dir": "perf/asv",
    "env_dir": ".asv/env",
    "results_dir": ".asv/results",
    "html_dir": "html"
}
"""

BUILD = "cc -O1 -fPIC -shared -o src/tiny/core.so core.c"
PYPROJECT = f"""[tool.rightfast]
build = "{BUILD}"
build-inputs = ["core.c"]
"""

PACKAGE = """import ctypes, pathlib
import torch

core = ctypes.CDLL(str(pathlib.Path(__file__).parent / "core.so"))

def double(x):
    out = torch.empty_like(x)
    core.twice(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(out.data_ptr()), x.numel())
    return out
"""

# It sleeps, so that a loaded machine does not change which commit is the slow one.
CORE = """#include <time.h>
void twice(const float *x, float *out, int n) {{
    struct timespec pause = {{0, {milliseconds} * 1000000}};
    nanosleep(&pause, 0);
    for (int i = 0; i < n; ++i) out[i] = 2 * x[i] + {error};
}}
"""

CASES = """import tiny
import torch

def test_double(perf):
    x = torch.randn(1000)
    perf(tiny.double, x, reference=lambda x: 2 * x, moved_bytes=8 * x.numel())
"""

EXPORT = """from pytest_rightfast.asv_cases import export

export(globals(), arguments=["--benchmark-max-time", "0.1"])
"""


class Project:
    """A repository in a temporary folder, and asv on it with a home and caches of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tiny"
        self.root.mkdir()
        home = folder / "home"
        home.mkdir()
        self.env = {
            **os.environ,
            "HOME": str(home),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "RIGHTFAST_CACHE": str(folder / "cache"),
            "RIGHTFAST_LOCK": str(folder / "lock"),
            # As an editable install of head would: on the path of every process.
            "PYTHONPATH": os.pathsep.join([str(SRC), str(self.root / "src")]),
        }
        for role in ("AUTHOR", "COMMITTER"):
            self.env[f"GIT_{role}_NAME"] = "nobody"
            self.env[f"GIT_{role}_EMAIL"] = "nobody@example.invalid"
        self.git("init", "--quiet", "--initial-branch=main")
        self.put("asv.conf.json", CONF)
        self.put("pyproject.toml", PYPROJECT)
        self.put(".gitignore", "*.so\n/.asv/\n/html/\n__pycache__/\n")
        self.put("src/tiny/__init__.py", PACKAGE)
        self.put("perf/test_tiny.py", CASES)
        self.put("perf/asv/__init__.py", EXPORT)
        self.asv("machine", "--yes")

    def put(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def git(self, *arguments: str) -> str:
        command = ["git", *arguments]
        done = subprocess.run(
            command, cwd=self.root, env=self.env, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, message: str, *, milliseconds: int = 10, error: str = "0") -> str:
        self.put("core.c", CORE.format(milliseconds=milliseconds, error=error))
        # asv orders by the committer's date, in seconds.
        count = len(self.git("rev-list", "--all").split())
        self.env["GIT_COMMITTER_DATE"] = self.env["GIT_AUTHOR_DATE"] = f"{1700000000 + count} +0"
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def build(self) -> None:
        """In the working tree, as its developer would: there to be imported by mistake."""
        subprocess.run(BUILD, shell=True, cwd=self.root, check=True)

    def asv(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "asv", *arguments],
            cwd=self.root,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        print(f"$ asv {' '.join(arguments)} -> {done.returncode}\n{done.stdout}")
        return done


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    pytest.importorskip("asv")
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    return Project(tmp_path_factory.mktemp("asv"))
