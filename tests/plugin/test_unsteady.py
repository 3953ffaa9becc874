"""`rightfast machine`: facts, ceilings, noise floor, and warnings with their remedies."""

from __future__ import annotations

import json
import os
import subprocess

import psutil
import pytest

from pytest_rightfast import cli, machine, machine_report, unsteady


@pytest.fixture
def quiet(monkeypatch):
    """No other program is at work."""
    monkeypatch.setattr(psutil, "cpu_percent", lambda *args, **keywords: [0.0] * 4096)


def system(folder, **files):
    """A tree as in /sys/devices/system/cpu."""
    for cpu in unsteady.affinity():
        name = f"cpu{cpu}/cpufreq/scaling_governor"
        files.setdefault(name, files.get("governor", "performance"))
    files.pop("governor", None)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return folder


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, []),
        ({"governor": "powersave"}, ["governor: powersave", "cpupower"]),
        ({"intel_pstate/no_turbo": "0"}, ["turbo: on", "echo 1 >"]),
        ({"intel_pstate/no_turbo": "1"}, []),
        ({"cpufreq/boost": "1"}, ["turbo: on", "echo 0 >"]),
        ({"cpufreq/boost": "0"}, []),
    ],
    ids=str,
)
def test_governor_and_turbo(tmp_path, quiet, files, words):
    found = unsteady.warnings("cpu", system(tmp_path, **files))
    assert len(found) == bool(words)
    for word in words:
        assert word in found[0]


def test_a_system_that_tells_nothing(tmp_path, quiet):
    assert unsteady.warnings("cpu", tmp_path) == []


def test_load(tmp_path, monkeypatch):
    own = unsteady.affinity()[0]
    percent = [0.0] * (own + 1)
    percent[own] = 70.0
    monkeypatch.setattr(psutil, "cpu_percent", lambda *args, **keywords: percent)
    (found,) = unsteady.warnings("cpu", tmp_path)
    assert f"CPU {own} is busy to 70% with other programs" in found
    assert "--perf-cpus" in found


@pytest.mark.parametrize(
    ("said", "number"),
    [("", 0), (f"{os.getpid()}, python\n", 0), ("1, train\n2, serve\n", 2)],
    ids=["alone", "itself", "others"],
)
def test_shared_gpu(tmp_path, quiet, monkeypatch, said, number):
    def run(command, **keywords):
        assert "--id=1" in command
        return subprocess.CompletedProcess(command, 0, said)

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(subprocess, "run", run)
    found = unsteady.warnings("cuda:1", tmp_path)
    assert len(found) == bool(number)
    if number:
        assert f"shared GPU: {number} other programs on cuda:1 (1, train)" in found[0]
    assert unsteady.warnings("cpu", tmp_path) == []


@pytest.fixture
def small(monkeypatch, quiet):
    monkeypatch.setattr(machine_report, "COPIES", (1024, 2048))
    monkeypatch.setattr(machine_report, "NOISE", (1024,))
    monkeypatch.setattr(machine_report, "BLOCK_SECONDS", 0.001)


def test_json(small, capsys):
    assert cli.main(["machine", "--json"]) == 0

    def refuse(constant):
        raise AssertionError(constant)

    found = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert found["copy_seconds"].keys() == {"1024", "2048"}
    assert min(found["copy_seconds"].values()) > 0
    assert found["flops_per_second"] > 0
    assert found["noise_floor"]["1024"] >= 0
    assert found["environment"]["cpu"]


def test_text(small, capsys, monkeypatch):
    monkeypatch.setattr(unsteady, "warnings", lambda device: ["load: much"])
    assert cli.main(["machine", "--threads", "2"]) == 0
    text = capsys.readouterr().out
    for word in ("CPU ", "GPU ", "torch", "GB/s", "GFLOP/s", "noise floor at 1 KiB"):
        assert word in text
    assert "cpu, 2 CPU threads" in text
    assert text.splitlines()[-1] == "WARNING load: much"
    assert "driver" not in text


def test_the_driver_is_told_where_there_is_one():
    facts = dict.fromkeys(machine.PACKAGES) | {"host": "h", "cpu": "c", "cpu_count": 1, "gpu": "g"}
    facts |= {"affinity": [0], "driver": "5.1", "system": "s", "python": "3"}
    found = {"environment": facts, "device": "cuda", "threads": 1, "copy_seconds": {}}
    found |= {"flops_per_second": 1.0, "noise_floor": {}, "warnings": []}
    assert "driver          5.1" in machine_report.lines(found)[0]


@pytest.mark.parametrize("words", [["--device", "cuda:99"], ["--threads", "0"]], ids=str)
def test_refused(capsys, words):
    assert cli.main(["machine", *words]) == 2
    said = capsys.readouterr().err
    assert words[0] in said
    assert "expected:" in said
