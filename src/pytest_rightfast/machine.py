"""What machine, software and commit a number belongs to, and what the machine can do at most."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import socket
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from .clocks import quick

PACKAGES = ("torch", "triton", "numpy", "rightfast")
# Untracked files of these names are what was measured, not the code.
RESULTS = (".json", ".json.partial")


def environment(root: Path, device: str) -> dict[str, Any]:
    """Saved with every row: host, CPU, GPU, driver, versions, commit, affinity, clock, time."""
    return {
        **_hardware(device),
        **_software(),
        **_commit(root),
        "affinity": affinity(),
        "clock": "perf_counter_ns",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def affinity() -> list[int]:
    """The CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


@functools.cache
def _hardware(device: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "host": socket.gethostname(),
        "cpu": _cpu_name(),
        "cpu_count": os.cpu_count(),
        "gpu": None,
        "driver": None,
    }
    if device.startswith("cuda"):
        import torch

        found["gpu"] = torch.cuda.get_device_name(torch.device(device))
        found["driver"] = _run(
            "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", cwd=Path()
        )
    return found


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


@functools.cache
def _software() -> dict[str, Any]:
    return {
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def version(package: str) -> str | None:
    """The installed version, None if the package is not there."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@functools.cache
def _commit(root: Path) -> dict[str, Any]:
    commit = _run("git", "rev-parse", "HEAD", cwd=root)
    changes = _changes(root) if commit else None
    return {
        "commit": commit,
        "committed": _run("git", "show", "-s", "--format=%cI", "HEAD", cwd=root),
        "dirty": bool(changes) if commit else None,
        "changes": changes,
    }


def _changes(root: Path) -> str | None:
    """A digest of what is not committed, None if nothing is; results that a run wrote there are no
    change."""
    differs = _run("git", "diff", "HEAD", "--binary", cwd=root) or ""
    listed = _run("git", "ls-files", "--others", "--exclude-standard", "-z", cwd=root) or ""
    others = [name for name in sorted(listed.split("\0")) if name and not name.endswith(RESULTS)]
    digest = hashlib.sha256(os.fsencode(differs))
    for name in others:
        with suppress(OSError):
            digest.update(os.fsencode(name) + (root / name).read_bytes())
    return digest.hexdigest()[:16] if differs or others else None


def _run(*command: str, cwd: Path) -> str | None:
    try:
        done = subprocess.run(command, cwd=cwd or None, capture_output=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return os.fsdecode(done.stdout).strip()  # a diff or a name need not be UTF-8


# Beyond a measured ceiling by this factor a time is not believed.
IMPLAUSIBLE = 1.3


class Ceilings:
    """The least time that this machine needs for given bytes or operations, measured once each.

    Bytes are timed as `copy_` of half as many (each is read once and written once), so in the same
    cache regime as the case.
    """

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self._known: dict[tuple[str, int, int], float] = {}

    def copy_seconds(self, moved_bytes: int, threads: int) -> float:
        """Seconds of `copy_` that reads and writes `moved_bytes` in all, call included."""
        size = max(1, moved_bytes // 2)
        key = ("copy", size, threads)
        if key not in self._known:
            self._known[key] = _time_copy(size, self.device)
        return self._known[key]

    def flops_per_second(self, threads: int) -> float:
        """The rate of a matrix product, in the device's fastest common type."""
        key = ("flops", 0, threads)
        if key not in self._known:
            self._known[key] = _matmul_rate(self.device)
        return self._known[key]

    def measure_again(self, moved_bytes: int | None, threads: int) -> None:
        """Measure what is known once more, and keep the faster."""
        before = dict(self._known)
        self._known.clear()
        if moved_bytes:
            self.copy_seconds(moved_bytes, threads)
        for key, seconds in before.items():
            if key[0] == "flops":
                self._known[key] = max(seconds, self.flops_per_second(threads))
            else:
                self._known[key] = min(seconds, self._known.get(key, seconds))

    def least_seconds(self, moved_bytes: int | None, flops: int | None, threads: int) -> float:
        """No honest call of this size can be faster; a call's own overhead is not counted."""
        least = 0.0
        if moved_bytes:
            overhead = self.copy_seconds(2, threads)
            least = max(0.0, self.copy_seconds(moved_bytes, threads) - overhead)
        if flops:
            least = max(least, flops / self.flops_per_second(threads))
        return least

    def refute(self, seconds: float, work: tuple[int | None, int | None], threads: int) -> str:
        """Why a call that moves and computes so much can't take `seconds`, or empty.

        Args:
            work: bytes and operations, None where they are not stated.
        """
        for _ in range(4):
            least = self.least_seconds(*work, threads)
            if seconds * IMPLAUSIBLE >= least:
                return ""
            # A ceiling that was measured beside foreign load would accuse an honest case.
            self.measure_again(work[0], threads)
        return f"implausible: {seconds:.3g} s, this machine needs {least:.3g} s at least"


def _time_copy(size: int, device: str) -> float:
    import torch

    source = torch.zeros(size, dtype=torch.uint8, device=device).random_(1, 255)
    target = torch.empty_like(source)
    return quick(lambda: target.copy_(source), device)


def _matmul_rate(device: str) -> float:
    import torch

    n, dtype = (512, torch.float32) if device == "cpu" else (8192, torch.bfloat16)
    a = torch.randn(n, n, device=device, dtype=dtype)
    return float(2 * n**3 / quick(lambda: a @ a, device))
