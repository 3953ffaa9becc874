"""How often the gate is right: the same code against itself, and slowdowns that are planted.

    python perf/check_gate.py same 20 -k "litevae or small"    # gates of HEAD against itself
    python perf/check_gate.py planted 1.2 20                   # gates of a 5 ms case, 1.2x slower
    python perf/check_gate.py planted 3 20 --every 5           # one call of five is 3x slower

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CODE = """
import itertools

import torch

calls = itertools.count(1)


def work(x, y):
    for _ in range({rounds} if next(calls) % {every} else {slow}):
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


def gate(folder: Path, base: str, options: list[str], report: Path) -> dict[str, Any]:
    """The JSON report of one gate, written to `report`."""
    start = "import sys; from pytest_rightfast.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", start, "gate", base, "--tip", "--json", str(report), *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
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


@dataclass(frozen=True)
class Series:
    """Gates in a row: how many, with which options of `rightfast gate`, where reports are kept."""

    times: int
    options: list[str]
    keep: Path

    def run(self, folder: Path, base: str) -> collections.Counter[str]:
        print("| gate | exit | pairs | seconds | verdicts | median ratio | ratios |")
        print("|---|---|---|---|---|---|---|")
        total: collections.Counter[str] = collections.Counter()
        for number in range(1, self.times + 1):
            report = self.keep.resolve() / f"{number}.json"
            report.unlink(missing_ok=True)
            total += line(number, gate(folder, base, self.options, report))
        said = ", ".join(f"{n} {verdict}" for verdict, n in total.items())
        print(f"\n{self.times} gates: {said}")
        return total


def same(series: Series) -> int:
    return 1 if series.run(ROOT, "HEAD")["slower"] else 0


def planted(factor: float, every: int, series: Series) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        git(folder, "init", "--quiet", "--initial-branch=main")
        put(folder / "perf/test_planted.py", CASE)
        for slow in (ROUNDS, round(ROUNDS * factor)):
            put(folder / "src/planted.py", CODE.format(rounds=ROUNDS, slow=slow, every=every))
            git(folder, "add", "--all")
            git(folder, "commit", "--quiet", "--message", f"{slow} rounds")
        total = series.run(folder, "HEAD~1")
    return 0 if total["slower"] == series.times else 1


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
    slower.add_argument("--every", type=int, default=1, help="only one call of so many")
    for command in (unchanged, slower):
        command.add_argument("times", type=int, help="how many gates in a row")
        command.add_argument("--keep", type=Path, help="folder for the reports of all gates")
    chosen, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as name:
        keep = chosen.keep or Path(name)
        keep.mkdir(parents=True, exist_ok=True)
        series = Series(chosen.times, options, keep)
        if chosen.command == "same":
            return same(series)
        return planted(chosen.factor, chosen.every, series)


if __name__ == "__main__":
    sys.exit(main())
