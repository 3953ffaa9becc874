import os
import subprocess
from pathlib import Path

import pytest


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


@pytest.fixture(autouse=True)
def _quiet_git(monkeypatch, tmp_path):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "nobody")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "nobody@example.invalid")
    monkeypatch.setenv("RIGHTFAST_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def repo(tmp_path):
    return Repo(tmp_path / "project")


@pytest.fixture
def make_repo():
    return Repo
