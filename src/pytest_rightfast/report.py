"""`rightfast report FILE...`: the tables of stored runs, as a live run prints them."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import dashboard, merge, results, tables
from .errors import ResultsError
from .rows import Row

FORMATS = ("table", "markdown", "csv", "json", "pytorch")
# Fields of a row that a line of CSV repeats.
PLAIN = (
    *("id", "case", "backend", "role", "status", "reason", "device"),
    *("threads_asked", "threads", "heap"),
)


def add_command(commands: Any) -> None:
    """The subcommand and its options."""
    parser = commands.add_parser(
        "report",
        help="print the tables of files from --perf-json, merged",
        epilog="Files may be split over backends, devices, commits or shards.",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--format", choices=FORMATS, default="table", help="default: table")
    add_selection(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write there instead of printing"
    )
    parser.set_defaults(run=run)


def add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-k",
        dest="words",
        action="append",
        default=[],
        metavar="WORD",
        help="only cases whose id holds this; several: any of them",
    )


def run(chosen: argparse.Namespace) -> int:
    """Read all, then write: what cannot be read overwrites nothing."""
    rows = merge.selected(merge.merged(chosen.files), chosen.words)
    text = rendered(rows, chosen.format)
    if chosen.output is None:
        sys.stdout.write(text)
        return 0
    refuse_inputs(chosen.output, chosen.files)
    results.write_atomically(chosen.output, text)
    return 0


def refuse_inputs(output: Path, files: Sequence[Path]) -> None:
    """Raises ResultsError if the output would replace what was measured."""
    if output.resolve() in [file.resolve() for file in files]:
        raise ResultsError(
            f"{output} is one of the files that are read",
            expected="another file to write",
            remedy="name one that holds no measurement",
        )


def rendered(rows: Sequence[Row], form: str) -> str:
    """The rows in one of `FORMATS`, with a newline at the end."""
    if form == "json":
        return results.as_json(rows)
    if form == "pytorch":
        return dashboard.as_json(rows)
    if form == "csv":
        return _csv(rows)
    if form == "markdown":
        return _markdown(rows)
    parts = ["\n".join([one.title, one.text(), *one.notes]) for one in tables.blocks(rows)]
    return "\n\n".join(parts) + "\n"


def _markdown(rows: Sequence[Row]) -> str:
    parts = []
    for block in tables.blocks(rows):
        notes = [f"- {tables.escape(note.strip())}" for note in block.notes]
        title = tables.escape(block.title)
        parts.append(
            "\n".join([f"**{title}**", "", block.text("pipe"), *([""] + notes) * bool(notes)])
        )
    return "\n\n".join(parts) + "\n"


def _csv(rows: Sequence[Row]) -> str:
    """One line a row, times in seconds; the ratio is to the first backend of the case."""
    out = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for _, members in tables.groups(rows):
        for case in tables.by_case(members).values():
            base = tables.first_timed(case)
            for row in case:
                fields = _fields(row, base)
                if writer is None:
                    writer = csv.DictWriter(out, fields, lineterminator="\n")
                    writer.writeheader()
                writer.writerow(fields)
    return out.getvalue()


def _fields(row: Row, base: Row | None) -> dict[str, Any]:
    low, high = row.interval or (None, None)
    ratio = row.median / base.median if row.median and base and base.median else None
    found = {name: getattr(row, name) for name in PLAIN}
    found |= {
        "processes": max(1, len(row.processes)),
        "samples": len(row.samples),
        "median": row.median,
        "low": low,
        "high": high,
        "spread": row.spread,
        "ratio": ratio,
        "gigabytes_per_second": tables.gigabytes_per_second(row),
        "of_copy": tables.of_copy(row),
        "error": row.error,
    }
    return found | {name: row.environment.get(name) for name in (*tables.WHERE, "time")}
