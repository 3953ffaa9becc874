"""The gate's sides: what is checked out and built, what a worker of each may import and collects.

Head's perf files serve both sides, so that both measure the same inputs in the same way. `own` is
base with its own perf files: it tells what is gone, and stands in where head's file fails on base.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from . import checkouts, git, messages, pairs, sides
from .config import Config
from .errors import PerfError

# Nobody reads a worker's summary, but what a crashing case printed must stand in its log. Asserts
# are left as they are: rewriting costs time in every process, and changes what is measured.
QUIET = ("-q", "--no-header", "--capture=no", "--assert=plain")
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Question:
    """What is asked of the gate.

    Args:
        root: the project's folder (pytest's rootdir).
        revision: base; compared is the merge base with HEAD, unless `tip`.
        paths: files, folders and node ids of the perf cases, relative to `root`.
        options: pytest's further arguments for the workers (`-k`, `-m`, ...).
        config: `[tool.rightfast]`, with what the command line overrides.
        settings: pytest's configuration file, or None.
    """

    root: Path
    revision: str
    paths: tuple[str, ...]
    options: tuple[str, ...]
    config: Config
    tip: bool = False
    settings: Path | None = None
    traces: Path | None = None

    @property
    def one_thread(self) -> bool:
        """Whether no case is given more than one CPU thread (`--perf-threads`)."""
        asked = dict(zip(self.options, self.options[1:])).get("--perf-threads", "1")
        return asked == "1"

    @property
    def perf(self) -> tuple[str, ...]:
        """The files and folders of the perf cases, without node ids."""
        return tuple(dict.fromkeys(path.split("::")[0] for path in self.paths))


def prepare(
    question: Question, root: Path, base: git.Source, head: git.Source, say: Progress
) -> dict[str, pairs.Arm]:
    """Check out and build all sides; the A/A arm has a checkout of its own, as head has."""
    build = question.config.build
    made: dict[str, checkouts.Checkout] = {}
    for name, source, label in (("base", base, ""), ("again", base, "again"), ("head", head, "")):
        say(f"preparing {name}")
        made[name] = checkouts.prepare(source, build, arm=label)
    below = question.root.resolve().relative_to(root.resolve())
    tops = {name: checkout.root / below for name, checkout in made.items()}
    roots = {name: sides.find_roots(top, question.config.roots) for name, top in tops.items()}
    shared = _shared(question, tops["head"], roots["head"])
    names = sorted(sides.top_level_names(r for one in roots.values() for r in one))
    others = [*(str(checkout.root) for checkout in made.values()), str(root)]
    found = {}
    for name, top in tops.items():
        own = str(made[name].root)
        foreign = [other for other in others if other != own]
        layout = sides.Layout(own, roots[name], names, foreign, shared)
        found[name] = _arm(name, top, tops["head"], layout, question)
    paths = [p for p in question.perf if (tops["base"] / p).exists()]
    if paths and not _same_files(question, tops["base"], tops["head"]):
        whole = replace(question, paths=tuple(paths))  # a node id that base lacks would be an error
        for like, name in (("base", "own"), ("again", pairs.AGAIN["own"])):
            layout = replace(sides.Layout(**found[like].hello.layout), shared=[])
            found[name] = _arm(name, tops[like], tops[like], layout, whole)
    return found


def _shared(question: Question, top: Path, roots: list[str]) -> list[str]:
    """What head serves to both sides: its perf files, and the conftest files above them."""
    found = []
    for path in question.perf:
        place = (top / path).resolve()
        if any(Path(root).is_relative_to(place) for root in roots):
            raise PerfError(
                "the perf cases must lie apart from the code that they measure",
                expected="a folder of perf cases, such as `perf`",
                got=f"{path!r}, which holds the import root {roots[0]}",
                remedy="name the folder: pytest perf --perf-against REV",
            )
        found.append(str(place))
        above = [folder for folder in place.parents if folder.is_relative_to(top.resolve())]
        found += [str(f / "conftest.py") for f in above if (f / "conftest.py").is_file()]
    return list(dict.fromkeys(found))


def _same_files(question: Question, base: Path, head: Path) -> bool:
    """Whether base's own perf files would collect and measure the same as head's."""
    settings = [question.settings] if question.settings else []
    configs = [p.relative_to(question.root) for p in settings if p.is_relative_to(question.root)]
    for path in (*question.perf, *map(str, configs), "conftest.py"):
        if _content(base / path) != _content(head / path):
            return False
    return True


def _content(place: Path) -> Mapping[str, bytes]:
    if place.is_file():
        return {"": place.read_bytes()}
    files = (p for p in place.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return {p.relative_to(place).as_posix(): p.read_bytes() for p in files}


def _arm(name: str, folder: Path, top: Path, layout: sides.Layout, question: Question) -> pairs.Arm:
    cache = checkouts.cache_folder() / "compiled" / Path(layout.own).parent.name
    environment = sides.environment(os.environ, cache, layout, checkouts.cache_folder() / "sides")
    arguments = ["--rootdir", str(top), "-c", _settings(question, top)]
    arguments += ["-o", f"cache_dir={cache / 'pytest'}", *QUIET, *question.options]
    arguments += [str(top / path) for path in question.paths]
    hello = messages.Hello(messages.VERSION, layout.as_json(), arguments)
    return pairs.Arm(name, folder, environment, hello)


def _settings(question: Question, top: Path) -> str:
    """The side's own copy of the configuration file; never one that lies above the cache."""
    given = question.settings
    if given is None:
        return os.devnull
    inside = given.resolve().is_relative_to(question.root.resolve())
    own = top / given.resolve().relative_to(question.root.resolve()) if inside else given
    return str(own) if own.is_file() else os.devnull
