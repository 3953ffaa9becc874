"""The wheel in a bare environment, on somebody else's project: src layout, a compiled module,
installed in place, its perf folder gating a softmax. No numpy, no PyWavelets, no Triton."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import venv
from importlib import metadata
from pathlib import Path

import pytest

from pytest_rightfast.results import load

ROOT = Path(__file__).parents[2]
# What the plugin and torch need, and what builds the foreign project.
ROOTS = ("torch", "pytest", "pytest-benchmark", "tabulate", "platformdirs", "psutil", "setuptools")
ABSENT = ("numpy", "pywt", "triton", "matplotlib", "hypothesis", "ptwt")

SETUP = """
from setuptools import Extension, setup

setup(
    name="foreign",
    version="1.0",
    package_dir={"": "src"},
    packages=["foreign"],
    ext_modules=[Extension("foreign._softmax", ["src/foreign/softmax.c"])],
)
"""
C = r"""
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>

/* softmax of each row; the arguments are addresses of floats, rows and columns */
static PyObject *run(PyObject *self, PyObject *args)
{
    Py_ssize_t from, to, rows, cols;
    if (!PyArg_ParseTuple(args, "nnnn", &from, &to, &rows, &cols))
        return NULL;
    for (Py_ssize_t r = 0; r < rows; r++) {
        const float *x = (const float *)from + r * cols;
        float *y = (float *)to + r * cols, top = x[0];
        double sum = 0;
        for (Py_ssize_t c = 1; c < cols; c++)
            top = x[c] > top ? x[c] : top;
        for (Py_ssize_t c = 0; c < cols; c++)
            sum += y[c] = expf(x[c] - top);
        for (Py_ssize_t c = 0; c < cols; c++)
            y[c] = (float)(y[c] / sum);
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"run", run, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_softmax", NULL, -1, methods};
PyMODINIT_FUNC PyInit__softmax(void) { return PyModule_Create(&module); }
"""
WRAPPER = """
import torch

from . import _softmax


def softmax(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    _softmax.run(x.data_ptr(), out.data_ptr(), {rows}, x.shape[1])
    return out
"""
PERF = """
import torch
from foreign import softmax

from pytest_rightfast import peer


def theirs(x):
    return torch.softmax(x, -1)


def rough(x):
    return torch.softmax(x, -1) * 1.01


import pytest


@pytest.mark.perf_backends(ours=softmax, torch=peer(theirs), rough=peer(rough))
def test_softmax(perf, backend):
    perf(
        backend,
        torch.randn(64, 256),
        reference=theirs,
        families=("large", "confident", "noncontiguous"),
        moved_bytes=lambda x: 2 * x.nbytes,
    )
"""


def needed(names: tuple[str, ...]) -> set[str]:
    """The installed distributions that `names` need, themselves included."""
    from packaging.requirements import Requirement

    found: set[str] = set()
    queue = list(names)
    while queue:
        name = queue.pop().lower().replace("_", "-")
        if name in found or name in ("numpy", "triton", "rightfast"):
            continue
        try:
            wanted = metadata.distribution(name).requires or []
        except metadata.PackageNotFoundError:
            continue  # of another platform
        found.add(name)
        for requirement in map(Requirement, wanted):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                queue.append(requirement.name)
    return found


def link(names: set[str], site: Path) -> None:
    """Put distributions that are installed here into another environment, in no time."""
    for name in names:
        distribution = metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files or () if ".." not in file.parts}
        for top in tops - {"__pycache__"}:
            if (site / top).is_dir() and not (site / top).is_symlink():
                shutil.rmtree(site / top)  # the setuptools that comes with some Pythons
            if not (site / top).exists():
                (site / top).symlink_to(distribution.locate_file(top))


def copy_of_the_repository(target: Path) -> Path:
    """Building writes beside the sources."""
    target.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, target)
    for name in ("src", "kernels"):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so")
        shutil.copytree(ROOT / name, target / name, ignore=ignored)
    return target


def call(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    plain = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=plain,
        capture_output=True,
        text=True,
        timeout=600,
    )


def must(*command: object, cwd: Path) -> str:
    done = call(*command, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(
    scope="module",
    params=["linked", pytest.param("installed", marks=pytest.mark.slow)],
)
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a bare environment with the wheel and torch."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder / "venv", with_pip=True)
    bare = folder / "venv" / "bin" / "python"
    must(
        sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation",
        "--wheel-dir", folder, copy_of_the_repository(folder / "source"), cwd=folder,
    )  # fmt: skip
    (wheel,) = folder.glob("rightfast-*.whl")
    if request.param == "linked":
        link(needed(ROOTS), next((folder / "venv").glob("lib/python*/site-packages")))
        must(bare, "-m", "pip", "install", "--no-deps", "--no-index", wheel, cwd=folder)
    else:
        constraints = ROOT / ".ci" / "constraints.txt"
        must(
            bare, "-m", "pip", "install", "--constraint", constraints, wheel, "torch",
            "setuptools", cwd=folder,
        )  # fmt: skip
    for name in ABSENT:
        assert call(bare, "-c", f"import {name}", cwd=folder).returncode != 0 or (
            request.param == "installed"
        ), name
    return bare


@pytest.fixture(scope="module")
def project(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "src" / "foreign").mkdir(parents=True)
    (folder / "perf").mkdir()
    (folder / "setup.py").write_text(SETUP)
    (folder / "src" / "foreign" / "softmax.c").write_text(textwrap.dedent(C))
    (folder / "src" / "foreign" / "__init__.py").write_text(WRAPPER.format(rows="x.shape[0]"))
    (folder / "perf" / "test_softmax.py").write_text(PERF)
    must(
        python, "-m", "pip", "install", "--no-deps", "--no-index", "--no-build-isolation",
        "--editable", ".", cwd=folder,
    )  # fmt: skip
    return folder


def gate(python: Path, project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    quick = ("--benchmark-max-time=0.05", "--benchmark-min-rounds=3")
    return call(
        python, "-m", "pytest", "perf", "--perf-json=rows.json", *quick, *arguments, cwd=project
    )


def test_right_answers_pass(python, project):
    done = gate(python, project, "--perf-baseline=main")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row.backend: row for row in load(project / "rows.json")}
    assert {name: row.status for name, row in rows.items()} == {
        "ours": "ok",
        "torch": "ok",
        "rough": "wrong",
    }
    assert rows["ours"].samples
    assert rows["ours"].environment["rightfast"]
    again = gate(python, project, "--perf-baseline=main")
    assert again.returncode == 0
    assert "compared with 0001_main.json: passed: " in again.stdout


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ("x.shape[0] - 1", "256 of 16384 elements are wrong, first at (63, 0)"),
        ("(x.mul_(1.5), x.shape[0])[1]", "changed its input"),
    ],
)
def test_wrong_answers_fail(python, project, rows, reason):
    """Installed in place: what is edited is what is judged."""
    source = project / "src" / "foreign" / "__init__.py"
    kept = source.read_text()
    source.write_text(WRAPPER.format(rows=rows))
    try:
        done = gate(python, project)
    finally:
        source.write_text(kept)
    assert done.returncode == 1, done.stdout + done.stderr
    (ours,) = [row for row in load(project / "rows.json") if row.backend == "ours"]
    assert ours.status == "wrong"
    assert ours.samples == []
    if reason.startswith("changed"):
        assert "elements are wrong" in ours.reason or reason in ours.reason
    else:
        assert reason in ours.reason


def test_the_command_is_there(python, project):
    done = call(python.parent / "rightfast", "report", "rows.json", cwd=project)
    assert done.returncode == 0, done.stderr
    assert "softmax: softmax" in done.stdout
