"""How often the gate is right: the same code against itself, and slowdowns that are planted.

    python perf/check_gate.py same 20 -k "litevae or small"    # gates of HEAD against itself
    python perf/check_gate.py planted 1.2 20                   # gates of a 5 ms case, 1.2x slower

Prints one Markdown line a gate, and the sum. Exit code 1 if an unchanged case was called slower, or
if a planted slowdown was missed. Stop other work on the machine first, or say beside the table what
else ran.
"""

from __future__ import annotations

import argparse
import collections
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CODE = """
import torch


def work(x, y):
    for _ in range({rounds}):
        torch.sin(x, out=y)
    return y
"""
CASE = """
import torch
from planted import work


def test_work(perf):
    x = torch.randn(16384)
    perf(work, x, torch.zeros_like(x), mutates=(1,), reference=lambda x, y: x.sin())
"""
# torch.sin of 16384 floats takes about 50 us.
ROUNDS = 100


def gate(folder: Path, base: str, options: list[str]) -> dict[str, Any]:
    """The JSON report of one gate."""
    with tempfile.TemporaryDirectory() as name:
        report = Path(name) / "gate.json"
        start = "import sys; from pytest_rightfast.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", start, "gate", base, "--tip"]
        done = subprocess.run(
            [*command, "--json", str(report), *options], cwd=folder, capture_output=True, text=True
        )
        if not report.exists():
            raise SystemExit(f"the gate wrote no report:\n{done.stdout}{done.stderr}")
        found: dict[str, Any] = json.loads(report.read_text())
    if "error" in found:
        raise SystemExit(f"the gate could not run: {found['error']}")
    return found


def line(number: int, found: dict[str, Any]) -> collections.Counter[str]:
    """Print one gate; returns its verdicts."""
    verdicts = collections.Counter(case["verdict"] for case in found["cases"])
    ratios = [case["ratio"] for case in found["cases"] if case["ratio"]]
    middle = f"{statistics.median(ratios):.4f}" if ratios else ""
    ends = f"{min(ratios):.3f} to {max(ratios):.3f}" if ratios else ""
    said = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.items())
    print(
        f"| {number} | {found['exit_code']} | {found['pairs']} | {found['seconds']:.0f} "
        f"| {said} | {middle} | {ends} |",
        flush=True,
    )
    return verdicts


def run(folder: Path, base: str, times: int, options: list[str]) -> collections.Counter[str]:
    print("| gate | exit | pairs | seconds | verdicts | median ratio | ratios |")
    print("|---|---|---|---|---|---|---|")
    total: collections.Counter[str] = collections.Counter()
    for number in range(1, times + 1):
        total += line(number, gate(folder, base, options))
    print(f"\n{times} gates: " + ", ".join(f"{n} {verdict}" for verdict, n in total.items()))
    return total


def same(times: int, options: list[str]) -> int:
    return 1 if run(ROOT, "HEAD", times, options)["slower"] else 0


def planted(factor: float, times: int, options: list[str]) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        git(folder, "init", "--quiet", "--initial-branch=main")
        put(folder / "perf/test_planted.py", CASE)
        for rounds in (ROUNDS, round(ROUNDS * factor)):
            put(folder / "src/planted.py", CODE.format(rounds=rounds))
            git(folder, "add", "--all")
            git(folder, "commit", "--quiet", "--message", f"{rounds} rounds")
        total = run(folder, "HEAD~1", times, options)
    return 0 if total["slower"] == times else 1


def put(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=planted", "-c", "user.email=planted@example.invalid"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    unchanged = commands.add_parser("same", help="HEAD of this project against itself")
    slower = commands.add_parser("planted", help="a 5 ms case that became slower")
    slower.add_argument("factor", type=float, help="such as 1.2")
    for command in (unchanged, slower):
        command.add_argument("times", type=int, help="how many gates in a row")
    chosen, options = parser.parse_known_args()
    if chosen.command == "same":
        return same(chosen.times, options)
    return planted(chosen.factor, chosen.times, options)


if __name__ == "__main__":
    sys.exit(main())
