"""Where a number comes from, and what the machine can do at most."""

from __future__ import annotations

import subprocess

import pytest
import torch

from pytest_rightfast import machine
from pytest_rightfast.machine import Ceilings, environment, version


def commit(folder, *command):
    arguments = ["-c", "user.name=a", "-c", "user.email=a@b", *command]
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def test_commit_and_dirty_tree(tmp_path):
    commit(tmp_path, "init", "-q")
    (tmp_path / "a").write_text("1")
    commit(tmp_path, "add", "a")
    commit(tmp_path, "commit", "-qm", "first")
    found = environment(tmp_path, "cpu")
    assert len(found["commit"]) == 40
    assert found["dirty"] is False
    (tmp_path / "b").write_text("2")
    machine._commit.cache_clear()
    assert environment(tmp_path, "cpu")["dirty"] is True


def test_no_repository_no_git(tmp_path, monkeypatch):
    found = environment(tmp_path, "cpu")
    assert (found["commit"], found["dirty"]) == (None, None)
    monkeypatch.setenv("PATH", "")
    machine._commit.cache_clear()
    assert environment(tmp_path, "cpu")["commit"] is None


def test_versions():
    assert version("torch") == torch.__version__ or version("torch")
    assert version("no-such-package-at-all") is None


def test_ceilings_are_measured_once(monkeypatch):
    sizes = []
    monkeypatch.setattr(
        machine, "_time_copy", lambda size, device: sizes.append(size) or size * 1e-9
    )
    ceilings = Ceilings()
    assert ceilings.copy_seconds(1000, 1) == ceilings.copy_seconds(1000, 1) == pytest.approx(500e-9)
    ceilings.copy_seconds(1000, 2)
    assert sizes == [500, 500]


def test_the_least_time_is_that_of_bytes_or_of_work(monkeypatch):
    monkeypatch.setattr(machine, "_time_copy", lambda size, device: 1e-6 + size * 1e-9)
    monkeypatch.setattr(machine, "_matmul_rate", lambda device: 1e9)
    ceilings = Ceilings()
    assert ceilings.least_seconds(None, None, 1) == 0
    assert abs(ceilings.least_seconds(2002, None, 1) - 1e-6) < 1e-12
    assert ceilings.least_seconds(2002, 5000, 1) == 5e-6
    assert ceilings.least_seconds(2002, 10, 1) > 9e-7


def test_ceilings_of_this_machine():
    ceilings = Ceilings()
    assert ceilings.copy_seconds(2, 1) > 0
    assert ceilings.flops_per_second(1) > 0
    assert ceilings.least_seconds(2, None, 1) == 0
