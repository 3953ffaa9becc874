"""Rows as records of PyTorch's benchmark dashboard, version 3."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from .rows import Row
from .tables import short

DEPENDENCIES = {"torch": "pytorch/pytorch", "triton": "triton-lang/triton", "numpy": "numpy/numpy"}


def as_json(rows: Sequence[Row]) -> str:
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
