"""Whose code an asv process measures, and the processes that run its perf cases with it.

asv's own process imports neither the project nor torch: most of its processes only read a number
that another one measured, and a case that crashes must not take asv's process with it, since a
benchmark that fails makes `asv continuous` stop without its table.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import checkouts, config, git, locks, sides
from .errors import PerfError
from .results import Row, load

# Set by the snapshot environment: the commit's checkout, and the project's folder in it.
CHECKOUT, TOP = "RIGHTFAST_ASV_CHECKOUT", "RIGHTFAST_ASV_TOP"
# -P keeps asv's working directory off sys.path; the plugin's folder, which may hold head's code or
# be site-packages, is taken off again at once.
BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); import pytest_rightfast; del sys.path[0]; "
    "from pytest_rightfast.asv_worker import main; sys.exit(main(*sys.argv[2:]))"
)
# As in the gate's workers: nobody reads the summary, asserts are not rewritten, hypothesis is slow.
QUIET = ("-q", "--no-header", "--capture=no", "--assert=plain", "-p", "no:hypothesispytest")
TAIL = 3000


@dataclass
class Answer:
    """What a process told. `row`: the case's, if it got as far; `reason`: why there is none."""

    cases: list[dict[str, str]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    skipped: bool = False
    row: Row | None = None


@dataclass(frozen=True)
class Side:
    """One commit's code, and the perf files that measure it.

    Args:
        root: the project's folder in the user's working tree.
        perf: the perf folder there.
        top: the project's folder in the commit's own tree, where there is such a tree.
        own: where the commit's code lies: its checkout, or asv's environment.
        roots: import roots of the commit's code; none where it is installed in an environment.
        guarded: False for asv's `existing`: what is installed is measured, whatever that is.
    """

    root: Path
    perf: Path
    top: Path | None
    own: Path
    roots: Sequence[str]
    guarded: bool = True

    def ask(
        self, arguments: Sequence[str], *, own_perf: bool = False, timeout: float = 600.0
    ) -> Answer:
        """Run pytest in a fresh process, with the working tree's perf files or the commit's own.

        Raises PerfError where the process ran code of another commit.
        """
        home = self.top if own_perf and self.top else self.root
        layout = self._layout(home) if self.guarded else None
        options = ["--rootdir", str(home), "-c", _config_file(home), *QUIET]
        options += ["-o", f"cache_dir={self._compiled / 'pytest'}", "--import-mode=importlib"]
        options += ["--benchmark-quiet", *arguments]
        with tempfile.TemporaryDirectory(prefix="rightfast-asv-") as name:
            folder = Path(name)
            rows = folder / "rows.json"
            asked = {
                "layout": layout.as_json() if layout else None,
                "arguments": [*options, "--perf-json", str(rows)],
            }
            (folder / "request.json").write_text(json.dumps(asked), encoding="utf-8")
            ended = _run(folder, self._environment(layout), timeout)
            if not (folder / "answer.json").exists():
                return Answer(reason=ended)
            told: dict[str, Any] = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
            found = load(rows) if rows.exists() else []
        if stray := told.pop("stray"):
            raise PerfError(f"nothing is measured: {stray}")
        code = told.pop("code")
        if code == 3:
            raise PerfError(
                "pytest broke",
                got=ended,
                remedy="run pytest on the perf folder there and mend what it reports",
            )
        return Answer(**told, row=found[0] if found else None)

    def _layout(self, home: Path) -> sides.Layout:
        """`home`: whose perf files, and conftest files above them, are run."""
        working = sides.find_roots(self.root, config.load(self.root).roots)
        names = sides.top_level_names([*self.roots, *working])
        foreign = [str(git.toplevel(self.root))]
        perf = home / self.perf.relative_to(self.root)
        above = [folder for folder in perf.parents if folder.is_relative_to(home)]
        shared = [str(perf), *(str(folder / "conftest.py") for folder in above)]
        return sides.Layout(str(self.own), list(self.roots), sorted(names), foreign, shared)

    def _environment(self, layout: sides.Layout | None) -> dict[str, str]:
        if layout is None:
            return dict(os.environ)
        checkout = checkouts.cache_folder() / "sides"
        return sides.environment(os.environ, self._compiled, layout, checkout)

    @property
    def _compiled(self) -> Path:
        """For compile caches: the gate's folder of this checkout, or one for each commit."""
        name = self.own.parent.name if self.roots else os.environ.get("ASV_COMMIT", "asv")
        return checkouts.cache_folder() / "compiled" / name


def current(root: Path, perf: Path) -> Side:
    """The side of this asv process, from what the environment told it."""
    if CHECKOUT in os.environ:
        top = Path(os.environ[TOP])
        roots = sides.find_roots(top, config.load(root).roots)
        return Side(root, perf, top, Path(os.environ[CHECKOUT]), roots)
    if "ASV_ENV_DIR" in os.environ:  # asv's own environments: the commit is installed in them
        tree = Path(os.environ["ASV_ENV_DIR"]) / "project"
        top = tree / root.relative_to(git.toplevel(root).resolve())
        return Side(root, perf, top if top.is_dir() else None, Path(sys.prefix), [])
    return Side(root, perf, None, root, [], guarded=False)


def _config_file(root: Path) -> str:
    """The project's own, never one that lies further up."""
    for name in ("pytest.toml", "pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"):
        if (root / name).is_file():
            return str(root / name)
    return os.devnull


def _run(folder: Path, environment: Mapping[str, str], timeout: float) -> str:
    """Wait for the process, alone on this machine. Returns how it ended, with its last words."""
    plugin = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-P", "-c", BOOT, str(plugin)]
    command += [str(folder / "request.json"), str(folder / "answer.json")]
    log = folder / "log.txt"
    with locks.measuring(wait_seconds=timeout), log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout)
            how = f"its process ended with {code}"
            if code < 0:
                how = f"its process was killed by {signal.Signals(-code).name}"
        except subprocess.TimeoutExpired:
            how = f"its process did not end within {timeout:g} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    said = log.read_bytes()[-TAIL:].decode(errors="replace").strip()
    return f"{how}; it said:\n{said}" if said else how
