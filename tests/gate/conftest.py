import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
import pytest

import pytest_rightfast

DATA = Path(__file__).parent / "data"
collect_ignore = ["data"]


class Repo:
    """A real repository in a temporary folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=cwd or self.root, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def put(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def commit(self, message: str = "change") -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def state(self) -> dict[str, object]:
        """All that a gate must leave as it was: refs, worktrees, index, objects, files."""
        objects = sorted(p.name for p in (self.root / ".git/objects").rglob("*") if p.is_file())
        files = sorted(str(p) for p in self.root.rglob("*") if ".git" not in p.parts)
        return {
            "refs": self.git("for-each-ref"),
            "worktrees": self.git("worktree", "list"),
            "index": (self.root / ".git/index").read_bytes(),
            "objects": objects,
            "files": files,
            "locks": list((self.root / ".git").glob("*.lock")),
        }


@dataclass
class Outcome:
    """What one gate left: exit code, everything printed, its files (None where there is none)."""

    code: int
    said: str
    data: Any
    markdown: str | None
    junit: str | None

    def verdict(self, name: str) -> str:
        return self.case(name)["verdict"]

    def reason(self, name: str) -> str:
        return "; ".join(found["reason"] for found in self.case(name)["findings"])

    def case(self, name: str) -> dict[str, Any]:
        found = [c for c in self.data["cases"] if c["case"].endswith(f"::{name}")]
        assert len(found) == 1, f"{name}: {self.said}"
        return found[0]


class Foreign(Repo):
    """A project that knows nothing of this one: src layout, one compiled module, perf cases.

    Base is the branch `main`; whatever is committed after `start` is head's.
    """

    def __init__(self, root: Path, around: Path) -> None:
        shutil.copytree(DATA / "foreign", root)
        super().__init__(root)
        self.around = around  # for what lies outside the project: caches, temporary files, results
        self.temporary = around / "tmp"
        self.temporary.mkdir()
        self.extra: dict[str, str] = {}

    def start(self) -> None:
        self.commit("base")
        self.git("switch", "--quiet", "--create", "feature")

    def edit(self, path: str, *changes: tuple[str, str]) -> None:
        text = (self.root / path).read_text()
        for old, new in changes:
            assert old in text, f"{path} has no {old!r}"
            text = text.replace(old, new)
        (self.root / path).write_text(text)

    def toy(self, *changes: tuple[str, str]) -> None:
        self.edit("src/toy/__init__.py", *changes)

    def perf(self, *changes: tuple[str, str]) -> None:
        self.edit("perf/test_toy.py", *changes)

    def drop(self, *names: str) -> None:
        """Remove test functions from the perf file, to make a gate shorter."""
        file = self.root / "perf/test_toy.py"
        head, *functions = file.read_text().split("\n\n\n")
        file.write_text(
            "\n\n\n".join([head, *(f for f in functions if not any(f" {n}(" in f for n in names))])
        )

    def keep(self, *names: str) -> None:
        file = self.root / "perf/test_toy.py"
        head, draw, *functions = file.read_text().split("\n\n\n")
        file.write_text(
            "\n\n\n".join(
                [head, draw, *(f for f in functions if any(f" {n}(" in f for n in names))]
            )
            + "\n"
        )

    def environment(self) -> dict[str, str]:
        src = str(Path(pytest_rightfast.__file__).parents[1])
        return {
            **os.environ,
            # As in an environment where the project is installed in place.
            "PYTHONPATH": os.pathsep.join([src, str(self.root / "src")]),
            "RIGHTFAST_CACHE": str(self.around / "cache"),
            "RIGHTFAST_LOCK": str(self.around / "lock"),
            "TMPDIR": str(self.temporary),
            **self.extra,
        }

    def command(self, *options: str) -> list[str]:
        plugin = [] if metadata.entry_points(group="pytest11", name="rightfast") else ["-p"]
        plugin += ["pytest_rightfast.plugin"] if plugin else []
        files = {"--perf-json": "json", "--perf-markdown": "md", "--junitxml": "xml"}
        written = [f"{o}={self.around / 'out'}.{end}" for o, end in files.items()]
        gate = ["--perf-against=main", "--perf-budget=1", *written, *options]
        return [sys.executable, "-m", "pytest", *plugin, "-p", "no:cacheprovider", "perf", *gate]

    def gate(self, *options: str) -> Outcome:
        done = subprocess.run(
            self.command(*options),
            cwd=self.root,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return self.outcome(done.returncode, done.stdout)

    def outcome(self, code: int, said: str) -> Outcome:
        found = [self.around / f"out.{end}" for end in ("json", "md", "xml")]
        data, markdown, junit = (p.read_text() if p.exists() else None for p in found)
        return Outcome(code, said, json.loads(data) if data else None, markdown, junit)

    def left_behind(self) -> list[str]:
        """Temporary files and processes of gates that have ended."""
        left = [str(p) for p in self.temporary.iterdir()]
        for process in psutil.process_iter(["cmdline", "environ"]):
            environ = process.info["environ"] or {}
            if environ.get("TMPDIR") == str(self.temporary):
                left.append(str(process.info["cmdline"]))
        return left


@pytest.fixture(scope="module")
def make_foreign():
    """Build a foreign project in a folder of its own; whatever scope the caller has."""
    made = []

    def make() -> Foreign:
        around = Path(tempfile.mkdtemp(prefix="foreign-"))
        made.append(around)
        return Foreign(around / "project", around)

    with pytest.MonkeyPatch.context() as patch:
        _settle_git(patch)
        yield make
    for around in made:
        shutil.rmtree(around)


@pytest.fixture
def foreign(make_foreign):
    return make_foreign()


def _settle_git(monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "nobody")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "nobody@example.invalid")


@pytest.fixture(autouse=True)
def _quiet_git(monkeypatch, tmp_path):
    _settle_git(monkeypatch)
    monkeypatch.setenv("RIGHTFAST_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def repo(tmp_path):
    return Repo(tmp_path / "project")


@pytest.fixture
def make_repo():
    return Repo
