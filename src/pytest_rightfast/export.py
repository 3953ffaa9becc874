"""Stored rows for other programs: CSV, and the records of PyTorch's benchmark dashboard (v3)."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from .errors import PerfError
from .results import Row, load, write_atomically
from .tables import short

# Columns of their own, or not a single value.
LEFT_OUT = ("samples", "host", "counters", "environment", "errors", "clocks", "state", "inexact")
DEPENDENCIES = {"torch": "pytorch/pytorch", "triton": "triton-lang/triton", "numpy": "numpy/numpy"}


def add_command(commands: Any) -> None:
    """`rightfast export RUN.json --format csv|pytorch -o FILE`."""
    parser = commands.add_parser("export", help="rows of --perf-json as CSV or dashboard records")
    parser.add_argument("files", nargs="+", type=Path, metavar="RUN.json")
    parser.add_argument("--format", choices=tuple(FORMATS), required=True)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: print it")


def run(chosen: argparse.Namespace) -> int:
    """Returns the exit code."""
    try:
        rows = [row for file in chosen.files for row in load(file)]
        text = FORMATS[chosen.format](rows)
        if chosen.output is None:
            sys.stdout.write(text)
        else:
            write_atomically(chosen.output, text)
    except PerfError as error:
        print(f"rightfast: {error}", file=sys.stderr)
        return 2
    return 0


def as_csv(rows: Sequence[Row]) -> str:
    """A line for each row; counters and environment have a column for each of their names.

    Times are in seconds per call. What was not measured is empty.
    """
    counted = sorted({name for row in rows for name in row.counters})
    known = sorted({name for row in rows for name in row.environment})
    plain = [f.name for f in fields(Row) if f.name not in LEFT_OUT]
    headers = [*plain, "median", "least", "most", "spread", "rounds"]
    headers += [f"counter.{name}" for name in counted] + [f"environment.{name}" for name in known]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(headers)
    for row in rows:
        line = [getattr(row, name) for name in plain]
        line += [row.median, min(row.samples, default=None), max(row.samples, default=None)]
        line += [row.spread, len(row.samples)]
        line += [row.counters.get(name) for name in counted]
        line += [_cell(row.environment.get(name)) for name in known]
        writer.writerow(line)
    return file.getvalue()


def _cell(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list) else value


def as_pytorch(rows: Sequence[Row]) -> str:
    """Records as in the table `oss_ci_benchmark_v3` of pytorch/test-infra, one for each metric.

    Timestamps, repository, commit and workflow are added by whoever uploads them. A wrong case has
    no latency there either: its record says `wrong` 1, and the median of no case is ever 0.
    """
    return json.dumps(list(records(rows)), indent=1, allow_nan=False) + "\n"


def records(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    for row in rows:
        about = {
            "benchmark": {
                "name": "rightfast",
                "extra_info": {"id": row.id, "threads": str(row.threads), "inputs": row.inputs},
            },
            "model": {
                "name": short(row.case),
                "type": row.role,
                "backend": row.backend,
                "origins": [row.case.partition("::")[0]],
            },
            "runners": [_runner(row)],
            "dependencies": _dependencies(row),
        }
        for name, values, unit in metrics(row):
            metric = {"name": name, "benchmark_values": values, "extra_info": {"unit": unit}}
            yield {**about, "metric": metric}


def metrics(row: Row) -> Iterator[tuple[str, list[float], str]]:
    """Name, values and unit; the values of the latency are the raw samples."""
    if row.status in ("ok", "wrong"):
        yield "wrong", [float(row.status == "wrong")], "0 or 1"
    if row.status != "ok":
        return
    if row.samples:
        yield "latency", row.samples, "s"
    if row.error is not None:
        yield "error", [row.error], "relative to float64"
    for name, count in row.counters.items():
        yield name, [float(count)], "inexact count" if name in row.inexact else "count"


def _runner(row: Row) -> dict[str, Any]:
    found, texts = row.environment, ("system", "python", "driver")
    return {
        "name": str(found.get("host") or ""),
        "type": row.device,
        "cpu_info": str(found.get("cpu") or ""),
        "cpu_count": int(found.get("cpu_count") or 0),
        "gpu_info": str(found.get("gpu") or ""),
        "gpu_count": int(bool(found.get("gpu"))),
        "extra_info": {name: str(found[name]) for name in texts if found.get(name)},
    }


def _dependencies(row: Row) -> dict[str, dict[str, Any]]:
    known = {name: row.environment.get(name) for name in DEPENDENCIES}
    return {
        name: {"repo": DEPENDENCIES[name], "version": str(version)}
        for name, version in known.items()
        if version
    }


FORMATS = {"csv": as_csv, "pytorch": as_pytorch}
