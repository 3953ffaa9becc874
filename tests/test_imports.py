"""Who may import whom; read from the source, so that no import has to run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LEAVES = ("rightfast_kernels", "rightfast.runtime")
ROOMS = ("rightfast.wavelets", "rightfast.circuits", "rightfast.datasets")
PROJECT = ("rightfast", "rightfast_kernels", "pytest_rightfast", "tests", "perf")


def module_of(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] in ("src", "kernels"):
        parts = parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> list[Path]:
    return [path for folder in ("src", "kernels") for path in (ROOT / folder).rglob("*.py")]


def imported(path: Path) -> set[str]:
    """Full names of all that a file imports, also inside functions and relatively."""
    package = module_of(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


def below(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def wrong_imports(module: str, names: set[str]) -> set[str]:
    """Those of `names` that `module` may not import."""
    own = [name for name in names if any(below(name, package) for package in PROJECT)]
    wrong = {name for name in own if below(name, "tests") or below(name, "perf")}
    for leaf in LEAVES:
        if below(module, leaf):
            wrong |= {name for name in own if not below(name, leaf)}
    for room in ROOMS:
        if below(module, room):
            others = [other for other in ROOMS if other != room]
            wrong |= {name for name in own if any(below(name, other) for other in others)}
            wrong |= {name for name in own if below(name, "pytest_rightfast")}
    if below(module, "pytest_rightfast"):
        outside = ("rightfast", "rightfast_kernels")
        wrong |= {name for name in own if any(below(name, package) for package in outside)}
    return wrong


def test_directions():
    found = {module_of(path): wrong_imports(module_of(path), imported(path)) for path in sources()}
    assert {module: wrong for module, wrong in found.items() if wrong} == {}
    assert "pytest_rightfast.plugin" in found
    assert "rightfast" in found


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("rightfast_kernels.dwt.haar", "rightfast.wavelets"),
        ("rightfast_kernels.dwt.haar", "rightfast.runtime"),
        ("rightfast.runtime.graphs", "rightfast_kernels.dwt"),
        ("rightfast.wavelets.dwt", "rightfast.circuits.sum"),
        ("rightfast.circuits", "rightfast.wavelets"),
        ("rightfast.datasets.photos", "rightfast.wavelets"),
        ("rightfast.wavelets", "pytest_rightfast"),
        ("pytest_rightfast.verify", "rightfast.wavelets"),
        ("pytest_rightfast.verify", "rightfast_kernels"),
        ("rightfast.wavelets", "tests.wavelets"),
        ("pytest_rightfast.cli", "perf"),
    ],
)
def test_refused(module, name):
    assert wrong_imports(module, {name}) == {name}


def test_relative_imports_are_seen(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path = tmp_path / "src" / "rightfast" / "wavelets" / "dwt.py"
    path.parent.mkdir(parents=True)
    path.write_text("def f():\n    from ..circuits import sums\n    from . import filters\n")
    assert imported(path) == {"rightfast.circuits.sums", "rightfast.wavelets.filters"}
    assert wrong_imports(module_of(path), imported(path)) == {"rightfast.circuits.sums"}
