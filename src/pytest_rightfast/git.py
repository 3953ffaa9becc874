"""What the gate asks of git: a commit, the working tree as a tree, and a tree's files in a folder.

Nothing is left in the user's repository: no worktree entry, no ref, no index change, no object.
Trees are written out by `read-tree` into an index of our own, not by `git archive`, which drops
what `.gitattributes` marks `export-ignore` (often the tests and the perf folder), and not by
`git worktree`, which leaves entries and locks behind when it is killed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_rightfast.errors import PerfError

# Folders of results, ours and pytest-benchmark's.
RESULTS = (".benchmarks", ".rightfast")
# Set where the gate is run by a git hook; they would point git at another index or repository.
_LOCAL = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR"}
    | {"GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE"}
)


class GitError(PerfError):
    """git is missing, this is no repository, or the revision or its history is not there."""


class FullError(GitError):
    """git could not write: no space, or no permission."""


# What git says of it, in its own words (LC_ALL=C) and those of the system.
_FULL = re.compile(r"unable to write|disk ?space|No space left|quota exceeded|Permission denied")


@dataclass(frozen=True)
class Source:
    """A tree to check out. `objects` holds the objects of an uncommitted one, else None.

    `commit` is what the tree is, or stands on; `dirty` says that it differs from the commit's.
    """

    repository: Path
    tree: str
    commit: str
    dirty: bool = False
    objects: Path | None = None


def run(root: Path, *arguments: str, env: Mapping[str, str] | None = None) -> str:
    """Standard output of `git -C root ...`. Raises GitError with git's own words."""
    done = _call(root, arguments, env)
    if done.returncode:
        command = " ".join(("git", *arguments))
        kind = FullError if _FULL.search(done.stderr) else GitError
        raise kind(f"`{command}` failed in {root} ({done.returncode}): {done.stderr.strip()}")
    return done.stdout


def _call(
    root: Path, arguments: tuple[str, ...], env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if k not in _LOCAL}
    # Its words are read; a status must not rewrite the user's index; a prompt would hang a CI job.
    clean.update(LC_ALL="C", GIT_OPTIONAL_LOCKS="0", GIT_TERMINAL_PROMPT="0", **(env or {}))
    command = ["git", "-C", str(root), *arguments]
    try:
        return subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise GitError(
            "expected `git` on PATH, got none; the gate compares commits: install git"
        ) from error


def toplevel(folder: Path) -> Path:
    """Root of the working tree that holds `folder`."""
    done = _call(folder, ("rev-parse", "--show-toplevel"))
    if done.returncode:
        raise GitError(
            f"{folder}: expected a git working tree, got none ({done.stderr.strip()}); "
            "the gate compares commits: run it inside the project's clone"
        )
    return Path(done.stdout.rstrip("\n"))


def resolve(root: Path, revision: str, *, merge_base: bool = True) -> Source:
    """The commit to compare with: where HEAD left `revision`, or with `merge_base=False` its tip.

    The tip of a branch holds work that HEAD has not seen; against it, other people's speed-ups
    would be this change's slowdowns.
    """
    tip = _commit(root, revision)
    if tip is None:
        raise _unknown(root, revision)
    commit = tip
    if merge_base:
        if _commit(root, "HEAD") is None:
            raise GitError(f"{root}: expected a commit at HEAD, got none; commit something first")
        found = _call(root, ("merge-base", "HEAD", tip))
        if found.returncode:
            raise _no_base(root, revision)
        commit = found.stdout.strip()
    return Source(root, run(root, "rev-parse", f"{commit}^{{tree}}").strip(), commit)


def _commit(root: Path, revision: str) -> str | None:
    asked = ("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    done = _call(root, asked)
    return done.stdout.strip() if done.returncode == 0 else None


def _shallow(root: Path) -> bool:
    return run(root, "rev-parse", "--is-shallow-repository").strip() == "true"


def _unknown(root: Path, revision: str) -> GitError:
    remotes = run(root, "remote").split()
    remote = "origin" if "origin" in remotes or not remotes else remotes[0]
    name = revision.removeprefix(f"{remote}/")
    hint = f"`git fetch {remote} {name}` and then compare with FETCH_HEAD" if remotes else ""
    if remotes and _shallow(root):
        hint = f"this clone is shallow: `git fetch --unshallow {remote}`, or {hint}"
    if _commit(root, "HEAD") is None:
        hint = "this repository has no commit yet: commit what is to be compared with"
    hint = hint or "`git branch -a` lists what there is"
    return GitError(
        f"{root}: expected a revision, got {revision!r}, which git does not know; {hint}"
    )


def _no_base(root: Path, revision: str) -> GitError:
    if _shallow(root):
        return GitError(
            f"{root}: no merge base of HEAD and {revision}: the clone is shallow; run "
            "`git fetch --unshallow` (or, for less, `git fetch --deepen=100`), in GitHub Actions "
            "`fetch-depth: 0` on actions/checkout"
        )
    return GitError(
        f"{root}: HEAD and {revision} have no common ancestor; name the commit to compare with "
        "and take it as it stands (not its merge base)"
    )


@contextmanager
def working_tree(root: Path) -> Iterator[Source]:
    """The working tree as it lies, tracked and untracked but not ignored files, as a Source.

    What runs leave behind (`RESULTS`) is no part of it, ignored or not.

    Its objects live in a temporary folder and are gone when the context ends: extract before.
    """
    with tempfile.TemporaryDirectory(prefix="rightfast-objects-") as name:
        scratch = Path(name)
        index, objects = scratch / "index", scratch / "objects"
        objects.mkdir()
        real = root / run(root, "rev-parse", "--git-path", "index").strip()
        # A copy keeps git's stat cache (only changed files are read) and sparse checkouts' bits.
        if real.exists():
            # Its time too: git looks into a file that is as old as the index, since it could have
            # been changed, at the same size, in that same second.
            shutil.copy2(real, index)
        env = _objects_env(root, objects) | {"GIT_INDEX_FILE": str(index)}
        results = [f":(top,exclude,glob)**/{folder}/**" for folder in RESULTS]
        run(root, "add", "--all", "--", ":/", *results, env=env)
        tree = run(root, "write-tree", env=env).strip()
        commit = _commit(root, "HEAD") or ""
        clean = bool(commit) and run(root, "rev-parse", f"{commit}^{{tree}}").strip() == tree
        yield Source(root, tree, commit, dirty=not clean, objects=objects)


def extract(source: Source, folder: Path) -> None:
    """Write the files of a tree into an existing, empty folder. Submodules stay empty folders."""
    # Beside it, so that a full disk is that of the folder, and the error names the right one.
    with tempfile.TemporaryDirectory(prefix="index-", dir=folder.parent) as scratch:
        env = {"GIT_INDEX_FILE": str(Path(scratch) / "index"), "GIT_WORK_TREE": str(folder)}
        env["GIT_DIR"] = run(source.repository, "rev-parse", "--absolute-git-dir").strip()
        if source.objects is not None:
            env |= _objects_env(source.repository, source.objects)
        # The user's sparse checkout is no business of a tree that is to be whole.
        whole = ("-c", "core.sparseCheckout=false", "-c", "core.fsmonitor=false")
        run(source.repository, *whole, "read-tree", "--reset", "-u", source.tree, env=env)


def submodules(source: Source) -> tuple[str, ...]:
    """Paths of the tree's submodules, which `extract` leaves empty."""
    env = _objects_env(source.repository, source.objects) if source.objects else None
    listed = run(source.repository, "ls-tree", "-r", "-z", source.tree, env=env).split("\0")
    return tuple(line.split("\t", 1)[1] for line in listed if line.startswith("160000 "))


def _objects_env(root: Path, objects: Path) -> dict[str, str]:
    own = root / run(root, "rev-parse", "--git-path", "objects").strip()
    return {
        "GIT_OBJECT_DIRECTORY": str(objects),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(own),
    }
