"""Reports of a gate, as JSON and as the zip that a runner uploads."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

from pytest_rightfast.ci import JSON


def case(
    name: str = "perf/test_a.py::test_a", verdict: str = "same", **more: Any
) -> dict[str, Any]:
    findings = [{"verdict": verdict, "reason": "ratio 1.2", "accepted": None}]
    numbers = {"ratio": 1.2, "low": 1.1, "high": 1.3, "smallest_visible": 0.05, "noise_floor": 0.01}
    times = {"base_seconds": [1e-3, 2e-3, 3e-3], "head_seconds": [2e-3] * 3}
    known = {"case": name, "verdict": verdict, "findings": findings, "outputs": "identical bits"}
    return {**known, **numbers, **times, **more}


def report(*cases: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "kind": "gate",
        "base": {"commit": "b" * 40, "tree": "c" * 40},
        "head": {"commit": "a" * 40, "tree": "d" * 40, "dirty": False},
        "plan": {"cases": 1, "looks": [6], "min_effect": 0.03, "alpha": 0.05},
        "pairs": 6,
        "seconds": 42.0,
        "exit_code": 0,
        "would_exit": 0,
        "reasons": [],
        "notes": [],
        "cases": list(cases) or [case()],
        **more,
    }


def encoded(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode()


def zipped(data: bytes | dict[str, Any], name: str = JSON, **others: bytes) -> bytes:
    """An artifact that holds the report, and other members by their names."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(name, encoded(data) if isinstance(data, dict) else data)
        for other, content in others.items():
            made.writestr(other, content)
    return file.getvalue()
