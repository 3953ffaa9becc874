"""What makes times differ from run to run on this machine: governor, turbo, load, a shared GPU."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from .machine import affinity

SYSTEM = Path("/sys/devices/system/cpu")
LOOK_SECONDS = 0.5  # at the load of the CPUs
BUSY = 5.0  # percent of a CPU


def warnings(device: str = "cpu", system: Path = SYSTEM) -> list[str]:
    """A line for each, with what to do; what this system does not tell is left out."""
    found = [*_governor(system), *_turbo(system), *_load()]
    return found + (_shared_gpu(device) if device.startswith("cuda") else [])


def _governor(system: Path) -> list[str]:
    names: dict[str, int] = {}
    for cpu in affinity():
        if name := _read(system / f"cpu{cpu}" / "cpufreq" / "scaling_governor"):
            names.setdefault(name, cpu)
    wrong = sorted(name for name in names if name != "performance")
    if not wrong:
        return []
    return [
        f"governor: {', '.join(wrong)} (CPU {names[wrong[0]]}), where `performance` keeps the "
        "clock up: cpupower frequency-set -g performance"
    ]


def _turbo(system: Path) -> list[str]:
    intel = _read(system / "intel_pstate" / "no_turbo")
    other = _read(system / "cpufreq" / "boost")
    if intel == "0" or (intel is None and other == "1"):
        where = "intel_pstate/no_turbo" if intel == "0" else "cpufreq/boost"
        value = "1" if intel == "0" else "0"
        return [
            "turbo: on, so the clock depends on heat and on what other cores do: "
            f"echo {value} > {system / where}"
        ]
    return []


def _load() -> list[str]:
    """What other programs do on the CPUs that this process may use."""
    import psutil

    percent = psutil.cpu_percent(LOOK_SECONDS, percpu=True)
    busy = {cpu: percent[cpu] for cpu in affinity() if cpu < len(percent) and percent[cpu] > BUSY}
    if not busy:
        return []
    named = ", ".join(f"CPU {cpu} is busy to {share:.0f}%" for cpu, share in list(busy.items())[:4])
    more = f" and {len(busy) - 4} more" if len(busy) > 4 else ""
    average = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return [
        f"load: {named}{more} with other programs (load average {average:.1f}): stop them, or "
        "use other CPUs (--perf-cpus)"
    ]


def _shared_gpu(device: str) -> list[str]:
    """Other programs on the GPU. NVML is asked by nvidia-smi, which comes with the driver."""
    index = device.partition(":")[2] or "0"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if visible != [""] and int(index) < len(visible):
        index = visible[int(index)].strip()
    query = "--query-compute-apps=pid,process_name"
    command = ["nvidia-smi", f"--id={index}", query, "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    others = [
        line.strip()
        for line in done.stdout.splitlines()
        if line.strip() and line.partition(",")[0].strip() != str(os.getpid())
    ]
    if not others:
        return []
    return [
        f"shared GPU: {len(others)} other programs on {device} ({others[0]}): end them, or use "
        "another device (--perf-device)"
    ]


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
