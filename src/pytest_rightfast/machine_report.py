"""`rightfast machine`: what this machine is, how fast and how steady, and what unsettles it."""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from . import machine, unsteady
from .clock_cpu import Budget, Target
from .errors import PerfError
from .tables import seconds

# Bytes read and written by `copy_`: within the caches of a core, of a socket, and in memory.
COPIES = (64 * 2**10, 2**20, 16 * 2**20, 256 * 2**20)
# The noise floor is that of a call which a core's own caches serve, and of one that memory serves.
NOISE = (64 * 2**10, 64 * 2**20)
BLOCKS, BLOCK_SECONDS = 12, 0.05


def add_command(commands: Any) -> None:
    """The subcommand and its options."""
    parser = commands.add_parser(
        "machine", help="hardware, versions, ceilings, noise floor, and warnings"
    )
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda or cuda:1")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="CPU threads (1)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Warnings do not fail: they are for who reads them."""
    _check(chosen.device, chosen.threads)
    found = describe(chosen.device, chosen.threads)
    text = json.dumps(found, allow_nan=False, indent=1) if chosen.json else "\n".join(lines(found))
    print(text)
    return 0


def _check(device: str, threads: int) -> None:
    try:
        import torch
    except ImportError as error:
        raise PerfError(
            f"the ceilings are measured with torch: {error}",
            expected="torch 2.4 or newer",
            remedy="pip install torch",
        ) from error
    known = ["cpu", *(f"cuda:{n}" for n in range(torch.cuda.device_count()))]
    if device not in known and not (device == "cuda" and len(known) > 1):
        raise PerfError("--device", expected=" or ".join(known), got=device, remedy="name another")
    if threads < 1:
        raise PerfError(
            "--threads", expected="a positive number", got=threads, remedy="--threads 1"
        )
    torch.set_num_threads(threads)


def describe(device: str, threads: int) -> dict[str, Any]:
    """Everything, strict JSON. Seconds, bytes, floating-point operations."""
    warnings = unsteady.warnings(device)  # first: measuring is a load of its own
    ceilings = machine.Ceilings(device)
    copies = {str(size): ceilings.copy_seconds(size, threads) for size in COPIES}
    return {
        "environment": machine.environment(Path.cwd(), device),
        "device": device,
        "threads": threads,
        "copy_seconds": copies,
        "flops_per_second": ceilings.flops_per_second(threads),
        "noise_floor": {str(size): noise_floor(size, device) for size in NOISE},
        "warnings": warnings,
    }


def noise_floor(size: int, device: str) -> float:
    """The spread of the same work's median between blocks: the interquartile range over the median.

    A difference below it says nothing; the gate's pairs see smaller ones, for they share their
    minutes.
    """
    import torch

    from .clocks import sampler

    source = torch.ones(size // 2, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    work = Target([lambda: target.copy_(source)], lambda which, returned: None)
    made = sampler(work, Budget(BLOCK_SECONDS, 5), device)
    medians = [statistics.median(made.block().samples) for _ in range(BLOCKS)]
    low, middle, high = statistics.quantiles(medians, n=4)
    return (high - low) / middle


def lines(found: dict[str, Any]) -> list[str]:
    """The same for people."""
    from tabulate import tabulate

    facts = found["environment"]
    rows = [
        ("host", facts["host"]),
        ("CPU", f"{facts['cpu']}, {facts['cpu_count']} in all, used: {_ranges(facts['affinity'])}"),
        ("GPU", facts["gpu"] or "none asked for (--device cuda)"),
        *([("driver", facts["driver"])] if facts["driver"] else []),
        ("system", facts["system"]),
        ("python", facts["python"]),
        *((name, facts[name] or "not installed") for name in machine.PACKAGES),
        ("device", f"{found['device']}, {found['threads']} CPU threads"),
    ]
    for size, took in found["copy_seconds"].items():
        rate = int(size) / took / 1e9
        rows.append((f"copy_ of {_bytes(int(size))}", f"{seconds(took)}, {rate:.1f} GB/s"))
    rows.append(("matrix product", f"{found['flops_per_second'] / 1e9:.1f} GFLOP/s"))
    for size, share in found["noise_floor"].items():
        rows.append((f"noise floor at {_bytes(int(size))}", f"{share:.2%}"))
    text = tabulate(rows, tablefmt="plain", disable_numparse=True)
    return [text, *(f"WARNING {one}" for one in found["warnings"] or ())]


def _bytes(size: int) -> str:
    return f"{size // 2**20} MiB" if size >= 2**20 else f"{size // 2**10} KiB"


def _ranges(numbers: list[int]) -> str:
    """`0-3, 8`"""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(f"{a}-{b}" if a != b else f"{a}" for a, b in parts)
