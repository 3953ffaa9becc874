"""A commit, or the working tree as it lies, as a built folder in the cache.

    <cache>/sides/<tree>-<build>/ready.json   written last: without it, the rest is half-made
                                 tree-*/      the files, built in place
    <cache>/builds/<key>/                     what a build added, for other trees of the same inputs
    <cache>/logs/<tree>-<build>.log           the build's own words, kept when it fails

A side is made under a lock of its own name, so two gates never make it at once, and one that was
killed leaves a folder without `ready.json`, which the next one removes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock, Timeout

from pytest_rightfast import builds, git
from pytest_rightfast.errors import PerfError


class CacheError(PerfError):
    """The cache folder can't be written: no space, or no permission."""


@dataclass(frozen=True)
class Checkout:
    """A side's files. `root`: its top. `fresh`: made by this call. `built`: the command ran.

    `submodules` were left empty.
    """

    root: Path
    source: git.Source
    log: Path | None
    fresh: bool
    built: bool
    submodules: tuple[str, ...] = ()


def cache_folder() -> Path:
    """`RIGHTFAST_CACHE`, or the user's cache folder for rightfast."""
    given = os.environ.get("RIGHTFAST_CACHE")
    return Path(given).absolute() if given else Path(platformdirs.user_cache_dir("rightfast"))


def prepare(
    source: git.Source,
    build: builds.Build | None = None,
    *,
    cache: Path | None = None,
    arm: str = "",
) -> Checkout:
    """The source's tree, checked out and built; from the cache where it is there whole.

    `arm` keeps a second copy of the same tree apart (the A/A arm: two folders, as the gate has).
    Raises GitError, BuildError, CacheError.
    """
    cache = cache_folder() if cache is None else cache
    key = "-".join(filter(None, (source.tree, _build_name(build), arm)))
    side, log = cache / "sides" / key, cache / "logs" / f"{key}.log"
    with _explained(cache):
        side.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / "sides" / f"{key}.lock"):
            known = _ready(side)
            if known is None:
                known = _make(source, build, cache, side, log)
                fresh = True
            else:
                os.utime(side / "ready.json")  # for `prune`
                fresh = False
    return Checkout(
        side / known["root"],
        source,
        log if build else None,
        fresh,
        built=fresh and bool(known["built"]),
        submodules=tuple(known["submodules"]),
    )


def _build_name(build: builds.Build | None) -> str:
    return hashlib.sha256(builds.stated(build).encode()).hexdigest()[:12] if build else "unbuilt"


def _make(
    source: git.Source, build: builds.Build | None, cache: Path, side: Path, log: Path
) -> dict[str, Any]:
    """Extract, build, and mark as whole; on any failure nothing is left but the log."""
    shutil.rmtree(side, ignore_errors=True)
    done = False
    try:
        side.mkdir()
        # A name of its own: the compilers of a gate that was killed may run on, and write.
        root = Path(tempfile.mkdtemp(prefix="tree-", dir=side))
        git.extract(source, root)
        built = _build(build, cache, root, log) if build is not None else False
        known = {
            "root": root.name,
            "tree": source.tree,
            "commit": source.commit,
            "dirty": source.dirty,
            "built": built,
            "submodules": git.submodules(source),
        }
        partial = side / "ready.json.partial"
        partial.write_text(json.dumps(known), encoding="utf-8")
        partial.rename(side / "ready.json")
        done = True
    finally:
        if not done:
            shutil.rmtree(side, ignore_errors=True)
    return known


def _build(build: builds.Build, cache: Path, root: Path, log: Path) -> bool:
    cached = cache / "builds" / builds.key(build, root)
    cached.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(cached.with_name(cached.name + ".lock")):
        return builds.run(build, root, cached, log, build_environment(os.environ, root, cache))


def build_environment(base: Mapping[str, str], root: Path, cache: Path) -> dict[str, str]:
    """For the build: no repository further up is taken for the project's own.

    A checkout has no `.git`, and setuptools-scm refuses to build without one: it is told a version
    unless the caller's environment already does.
    """
    env = {k: v for k, v in base.items() if k != "PYTHONPATH"}
    env["GIT_CEILING_DIRECTORIES"] = str(cache)
    env.setdefault("SETUPTOOLS_SCM_PRETEND_VERSION", "0.0.0")
    env["PWD"] = str(root)
    return env


def _ready(side: Path) -> dict[str, Any] | None:
    try:
        known = json.loads((side / "ready.json").read_text(encoding="utf-8"))
        return known if (side / known["root"]).is_dir() else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def prune(days: float, cache: Path | None = None) -> list[Path]:
    """Remove the sides and builds unused for `days`; what is being made is left alone."""
    cache = cache_folder() if cache is None else cache
    oldest, removed = time.time() - days * 86400, []
    for folder in sorted([*cache.glob("sides/*"), *cache.glob("builds/*")]):
        if not folder.is_dir():
            continue
        mark = folder / "ready.json" if folder.parent.name == "sides" else folder
        with suppress(Timeout), FileLock(f"{folder}.lock", timeout=0):
            if not mark.exists() or mark.stat().st_mtime < oldest:
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder)
    return removed


@contextmanager
def _explained(cache: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, git.FullError) as error:
        free = shutil.disk_usage(_existing(cache)).free // 2**20
        raise CacheError(
            f"{cache}: the cache can't be written: {error}; {free} MiB are free there; make room, "
            "or name another folder in RIGHTFAST_CACHE"
        ) from error


def _existing(path: Path) -> Path:
    return next((p for p in (path, *path.parents) if p.exists()), Path(tempfile.gettempdir()))
