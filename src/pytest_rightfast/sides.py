"""One side's surroundings: its environment, and an import system that finds the side's own code.

Why imports need care: an editable install of head is on the path of every process, base's too. Its
`.pth` line is searched after PYTHONPATH but supplies whatever base lacks; scikit-build-core's and
meson-python's finders stand first in `sys.meta_path` and win outright. Head is then compared with
head, and every pull request is `same`. So `enter` puts a finder of our own first, which serves the
project's top-level names from the side's roots alone; `provenance` then proves what was loaded,
since a `.so` loaded by path, or a namespace package, passes by any finder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

PLUGIN = "pytest_rightfast"  # the gate's own on both sides, whatever the trees hold


@dataclass(frozen=True)
class Layout:
    """Where one side's code is. Paths are absolute strings, so that it travels as JSON.

    `own`: the side's checkout. `roots`: its import roots, in order. `names`: the project's
    top-level names, of both sides. `foreign`: the other side's checkout and the user's working
    tree. `shared`: what both sides serve from one place on purpose (head's perf files).
    """

    own: str
    roots: list[str]
    names: list[str]
    foreign: list[str]
    shared: list[str]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def find_roots(checkout: Path, stated: Sequence[str] = ()) -> list[str]:
    """Import roots of a checkout: those stated, else `src` where there is one, else the top."""
    given = list(stated) or (["src"] if (checkout / "src").is_dir() else ["."])
    return [str((checkout / root).resolve()) for root in given]


def top_level_names(roots: Iterable[str]) -> set[str]:
    """Names that the roots can serve: modules, packages, extension modules, namespace folders."""
    names = set()
    for root in map(Path, roots):
        for entry in root.iterdir() if root.is_dir() else ():
            name = entry.name.split(".", 1)[0]
            is_package = entry.is_dir() and "." not in entry.name and _holds_code(entry)
            is_module = entry.suffix in (".py", ".so", ".pyd")
            if name.isidentifier() and (is_package or is_module):
                names.add(name)
    return names - {PLUGIN}


def _holds_code(folder: Path) -> bool:
    return any(next(folder.rglob(f"*{end}"), None) for end in (".py", ".so", ".pyd"))


def environment(
    base: Mapping[str, str], cache: Path, layout: Layout, checkouts: Path
) -> dict[str, str]:
    """A worker's environment: compile caches of the side's own under `cache`, no way to the rest.

    One Triton or inductor cache for both sides would hand one side the other's kernel where the
    source hash does not see a difference. Byte code needs no cache of its own: it lies beside the
    sources, in the side's checkout, and moving it would recompile all of torch in every process.
    """
    env = dict(base)
    for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR"):
        folder = cache / name.lower().removesuffix("_cache_dir")
        folder.mkdir(parents=True, exist_ok=True)
        env[name] = str(folder)
    given = [os.path.abspath(p) for p in env.get("PYTHONPATH", "").split(os.pathsep) if p]
    kept = [p for p in given if not _inside(p, layout)]
    # For what the case itself starts; the worker takes its own path from `enter`.
    env["PYTHONPATH"] = os.pathsep.join([*layout.roots, *kept])
    # A checkout has no .git: nothing may find a repository further up and think it its own.
    env["GIT_CEILING_DIRECTORIES"] = str(checkouts)
    return env


def _inside(path: str, layout: Layout) -> bool:
    return is_within(path, layout.foreign) and not is_installed(path)


def is_within(path: str | Path, folders: Iterable[str]) -> bool:
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(os.path.realpath(folder)) for folder in folders)


def is_installed(path: str | Path) -> bool:
    """Part of the Python installation: a virtual environment often lies inside the working tree."""
    return is_within(path, {sys.prefix, sys.exec_prefix, sys.base_prefix})


class OwnSideFinder:
    """Serves the project's modules from the side's roots, and lets no other finder supply them
    from elsewhere: setuptools' editable finder hands out even a submodule that base lacks.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top = name.partition(".")[0]
        if top not in self.layout.names:
            return None
        own = PathFinder.find_spec(top, self.layout.roots)
        # A namespace package may have portions elsewhere (google.*): the usual search joins them,
        # and provenance looks at what came of it.
        bound = own is not None and own.loader is not None
        if path is None and bound:
            return own
        for finder in list(sys.meta_path):
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and not bound:
                spec = self._without_strays(spec)
            if spec is not None and not self._stray(spec, bound):
                return spec
        raise ModuleNotFoundError(
            f"No module named {name!r} on this side: {self.layout.own} has none", name=name
        )

    def _without_strays(self, spec: ModuleSpec) -> ModuleSpec:
        """A namespace package without the other side's portions, which pytest's own `pythonpath`
        puts first."""
        portions = list(spec.submodule_search_locations or ())
        kept = [place for place in portions if not _inside(place, self.layout)]
        if spec.has_location or not kept or kept == portions:
            return spec
        apart = ModuleSpec(spec.name, None, is_package=True)
        apart.submodule_search_locations = kept
        return apart

    def _stray(self, spec: ModuleSpec, bound: bool) -> bool:
        """Outside the side, where the package is the side's own; else in the other side's trees.

        A module without a place (made by the project's own code, built in) is no stray.
        """
        places = list(spec.submodule_search_locations or ())
        places += [spec.origin] if spec.has_location and spec.origin else []
        if bound:
            return not all(is_within(p, [self.layout.own, *self.layout.shared]) for p in places)
        return any(_inside(place, self.layout) for place in places)


def enter(layout: Layout) -> list[str]:
    """Make this process import the side's own code. Returns what was taken off `sys.path`.

    Call before anything of the project is imported.
    """
    dropped = [p for p in sys.path if p and _inside(p, layout)]
    rest = [p for p in sys.path if p and p not in dropped and p not in layout.roots]
    sys.path[:] = [*layout.roots, *rest]
    sys.meta_path.insert(0, OwnSideFinder(layout))
    sys.path_importer_cache.clear()
    return dropped
