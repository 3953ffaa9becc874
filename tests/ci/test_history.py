""".ci/history: asv's results on a branch of their own, with a made-up asv and a remote on disk."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
import steps

ASV = """#!/usr/bin/env bash
echo "$@" >> "$ASV_LOG"
[[ "$1" == run ]] || exit 0
mkdir -p ".asv/results/$3"
ls -A .asv/results > "$ASV_LOG.seen"
git rev-parse HEAD > ".asv/results/$3/$(git rev-parse --short HEAD).json"
exit "${ASV_CODE:-0}"
"""


@pytest.fixture
def project(tmp_path):
    remote, clone = tmp_path / "remote.git", tmp_path / "clone"
    asv = tmp_path / "asv"
    asv.write_text(ASV)
    asv.chmod(0o755)

    def git(*words, cwd=clone):
        done = subprocess.run(["git", *words], cwd=cwd, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "--quiet", "--bare", "--initial-branch=main", remote, cwd=tmp_path)
    git("clone", "--quiet", remote, clone, cwd=tmp_path)
    git("switch", "--quiet", "--create", "main")
    git("config", "user.name", "nobody")
    git("config", "user.email", "nobody@example.invalid")
    (clone / ".ci").mkdir()
    shutil.copy(steps.ROOT / ".ci" / "history", clone / ".ci" / "history")
    (clone / ".gitignore").write_text(".asv/\n")

    class Project:
        log = tmp_path / "log"

        def commit(self):
            git("add", "--all")
            git("commit", "--quiet", "--allow-empty", "--message", "change")
            git("push", "--quiet", "origin", "main")
            return git("rev-parse", "HEAD")

        def measure(self, **environment):
            env = {**os.environ, "ASV": str(asv), "ASV_LOG": str(self.log)}
            env |= {"HISTORY_MACHINE": "box", "GITHUB_TOKEN": "secret", **environment}
            script = clone / ".ci" / "history"
            return subprocess.run([script], cwd=tmp_path, env=env, capture_output=True, text=True)

        def kept(self):
            names = git("ls-tree", "-r", "--name-only", "asv-results", cwd=remote)
            return set(names.splitlines())

        def commits(self):
            return git("log", "--format=%s", "asv-results", cwd=remote).splitlines()

    return Project()


def test_results_of_each_commit_are_kept(project):
    first = project.commit()
    done = project.measure()
    assert done.returncode == 0, done.stderr
    second = project.commit()
    done = project.measure()
    assert done.returncode == 0, done.stderr
    names = {f"box/{commit[:7]}.json" for commit in (first, second)}
    assert project.kept() == names
    assert project.commits() == [f"box: {second}", f"box: {first}"]
    assert "secret" not in done.stdout + done.stderr + project.log.read_text()
    seen = project.log.with_name("log.seen").read_text().split()
    assert seen == ["box"]  # asv saw the earlier results, and not the branch's .git
    asked = project.log.read_text().splitlines()
    assert asked[:2] == [
        "machine --yes --machine box",
        "run --machine box --skip-existing HEAD^!",
    ]


def test_what_was_measured_is_kept_though_something_failed(project):
    commit = project.commit()
    assert project.measure(ASV_CODE="2").returncode == 2
    assert project.kept() == {f"box/{commit[:7]}.json"}


def test_nothing_new_is_no_commit(project):
    project.commit()
    project.measure()
    project.measure()
    assert len(project.commits()) == 1
