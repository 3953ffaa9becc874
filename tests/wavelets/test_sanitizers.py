"""The native kernels under the address and undefined-behaviour sanitizers, built apart."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNS = (
    "instruction_set or long_line or refuse or gradcheck or half or complex or volume or any_axes "
    "or many_pieces or past_the_caches or of_every_set or any_border"
)
FILES = ("native", "properties", "haar", "lifting")


def library(name):
    """The compiler's own copy of a runtime, to load before Python's first allocation."""
    asked = ["g++", f"-print-file-name={name}"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_no_overrun_and_no_undefined_behaviour(tmp_path):
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "src").mkdir()
    shutil.copytree(ROOT / "kernels", tmp_path / "kernels", ignore=shutil.ignore_patterns("*.so"))
    build = {**os.environ, "RIGHTFAST_SANITIZE": "address,undefined"}
    command = [sys.executable, "setup.py", "build_ext", "--inplace"]
    subprocess.run(command, cwd=tmp_path, env=build, check=True, timeout=900)
    run = {
        **os.environ,
        "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')}",
        "ASAN_OPTIONS": "detect_leaks=0",  # Python keeps what it has
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "kernels"), str(ROOT / "src")]),
    }
    tests = [str(ROOT / "tests/wavelets" / f"test_{name}.py") for name in FILES]
    inner = [sys.executable, "-m", "pytest", *tests, "-q", "-x", "-m", "not slow", "-k", RUNS]
    where = "import rightfast_kernels; print(rightfast_kernels.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where], env=run, cwd=ROOT, capture_output=True, text=True
    )
    assert str(tmp_path) in found.stdout
    result = subprocess.run(inner, env=run, cwd=ROOT, capture_output=True, text=True, timeout=3000)
    assert result.returncode == 0, (result.stdout + result.stderr)[-6000:]
