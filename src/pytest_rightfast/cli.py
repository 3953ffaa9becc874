"""The console command `rightfast`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .errors import PerfError
from .results import load
from .tables import tables


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="rightfast", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    report = commands.add_parser("report", help="print the tables of files from --perf-json")
    report.add_argument("files", nargs="+", type=Path)
    chosen = parser.parse_args(arguments)
    try:
        rows = [row for file in chosen.files for row in load(file)]
    except PerfError as error:
        print(f"rightfast: {error}", file=sys.stderr)
        return 2
    print("\n".join(tables(rows)))
    return 0
