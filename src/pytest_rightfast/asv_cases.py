"""The perf cases as benchmarks of airspeed velocity (asv).

    # perf/asv/__init__.py
    from pytest_rightfast.asv_cases import export

    export(globals())

Each test function becomes one benchmark of each kind, with its parameters as asv's. asv loads this
module under the name `asv`, so nothing here may import asv itself.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any

from .asv_benchmarks import Maker
from .asv_rows import Rows
from .asv_side import current
from .errors import PerfError

COUNTERS = ("operators", "allocations", "allocated_bytes", "peak_bytes")
CUDA_COUNTERS = ("launches", "graph_launches", "copies", "synchronizations", "device_mallocs")


def export(
    namespace: MutableMapping[str, Any],
    *,
    arguments: Sequence[str] = (),
    counters: Sequence[str] | None = None,
    rounds: int = 2,
    timeout: float = 600.0,
) -> None:
    """Put the benchmarks of the perf cases into `namespace`.

    Args:
        namespace: `globals()` of the `__init__.py` of a folder inside the perf folder.
        arguments: of pytest, such as `["--perf-threads", "1", "-m", "not slow"]`.
        counters: names of exact counters, in place of the usual ones of the device.
        rounds: processes that time a case at each commit.
        timeout: seconds that a case may take; then it counts as wrong.
    """
    perf = Path(namespace["__file__"]).resolve().parent.parent
    rows = Rows(current(_root(perf), perf), list(arguments), timeout)
    if counters is None:
        on_cuda = any("cuda" in argument for argument in arguments)
        counters = COUNTERS + CUDA_COUNTERS * on_cuda
    groups: dict[str, list[dict[str, str]]] = {}
    for case in _cases(rows):
        groups.setdefault(case["base"], []).append(case)
    for base, cases in groups.items():
        maker = Maker(rows, base, cases, perf, rounds, timeout)
        for benchmark in maker.all(counters):
            name = benchmark.benchmark_name
            if name in namespace:
                raise PerfError(
                    f"two perf cases are both called {name} in asv",
                    got=base,
                    remedy="name one of them otherwise",
                )
            namespace[name] = benchmark


def _root(perf: Path) -> Path:
    marks = ("pyproject.toml", ".git", "setup.py", "setup.cfg", "pytest.ini")
    return next((p for p in perf.parents if any((p / m).exists() for m in marks)), perf.parent)


def _cases(rows: Rows) -> list[dict[str, str]]:
    """The list that asv's first process collected; collected anew if this is that process."""
    known = rows.cases()
    if known is not None and sys.argv[1:2] != ["discover"]:
        return known
    answer = rows.side.ask([*rows.arguments, "--collect-only", str(rows.side.perf)])
    if answer.failed or not answer.cases:
        raise PerfError(
            f"no perf cases for asv from {rows.side.perf}",
            expected="test functions with the argument `perf`, in files that can be imported",
            got="\n".join(answer.failed.values()) or answer.reason or "none",
            remedy="see what `pytest --collect-only` says of them",
        )
    rows.reset(answer.cases)
    return answer.cases
