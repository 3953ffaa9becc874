"""Proof of what a worker ran: the file of every project module and shared library it loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from pytest_rightfast.sides import PLUGIN, Layout, is_installed, is_within


@dataclass(frozen=True)
class ModuleFile:
    """`name`: the module, or `.so` for a library loaded by path. `origin`: own, shared, foreign."""

    name: str
    file: str
    origin: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def loaded(layout: Layout) -> list[ModuleFile]:
    """What of the project this process has loaded so far, sorted, with each file's origin.

    The project's is whatever bears one of its top-level names or lies in one of its trees. Foreign
    is such a file that lies outside the side's own tree: an editable or plain install that won.
    """
    found = set()
    for name, file in [*_modules(), *_libraries()]:
        top = name.partition(".")[0]
        named = name != ".so" and top in layout.names
        if top == PLUGIN:
            continue
        # The folder of a shared file, as a namespace package: what it holds is looked at by itself.
        around = os.path.isdir(file) and any(is_within(one, [file]) for one in layout.shared)
        if around or is_within(file, layout.shared):
            found.add(ModuleFile(name, file, "shared"))
        elif is_within(file, [layout.own]):
            found.add(ModuleFile(name, file, "own"))
        elif named or (is_within(file, layout.foreign) and not is_installed(file)):
            found.add(ModuleFile(name, file, "foreign"))
    return sorted(found, key=lambda m: (m.name, m.file))


def foreign(files: list[ModuleFile]) -> str:
    """Why the side's cases are not measured, or empty where all it ran is its own."""
    strays = [f"{m.name} from {m.file}" for m in files if m.origin == "foreign"]
    if not strays:
        return ""
    more = f" and {len(strays) - 3} more" if len(strays) > 3 else ""
    return (
        f"it ran code from outside its own checkout: {', '.join(strays[:3])}{more}; "
        "an installed copy of the project won: uninstall it, or state the import roots"
    )


def _modules() -> Iterator[tuple[str, str]]:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            yield name, os.path.realpath(file)
            continue
        # A namespace package has no file, and a portion outside is where foreign code comes from.
        try:
            places = list(getattr(module, "__path__", None) or ())
        except Exception:  # lazy modules of other people's making raise what they like
            continue
        for place in places:
            if isinstance(place, str) and os.path.isdir(place) and _direct_code(place):
                yield name, os.path.realpath(place)


def _direct_code(folder: str) -> bool:
    return any(entry.endswith((".py", ".so", ".pyd")) for entry in os.listdir(folder))


def _libraries() -> Iterator[tuple[str, str]]:
    """Shared libraries mapped into this process, those of `torch.ops.load_library` among them."""
    process = psutil.Process()
    if not hasattr(process, "memory_maps"):  # macOS
        return
    for region in process.memory_maps():
        if ".so" in os.path.basename(region.path) or region.path.endswith((".pyd", ".dll")):
            yield ".so", os.path.realpath(region.path)
