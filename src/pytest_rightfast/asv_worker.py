"""A process that collects the perf cases, or runs one of them, with the code of one commit.

Started by `asv_side.Side`; request and answer are JSON files, since stdout is the cases' own.
"""

from __future__ import annotations

import inspect
import json
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from . import provenance, sides
from .case import Backend
from .plugin import is_case
from .results import write_atomically


@dataclass(frozen=True)
class Found:
    """A collected subject. `base`: its node id without `parameters`; `source`: of its function."""

    id: str
    base: str
    parameters: str
    source: str


class Watcher:
    """A pytest plugin that notes what was collected and what became of it."""

    def __init__(self) -> None:
        self.cases: list[Found] = []
        self.failed: dict[str, str] = {}
        self.reason = ""
        self.skipped = False

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed[report.nodeid] = str(report.longrepr)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.cases = [_found(item) for item in session.items if is_case(item) and not _peer(item)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.reason:
            self.reason = str(report.longrepr)[-2000:]
        elif report.skipped:
            self.skipped, self.reason = True, str(report.longrepr)


def _peer(item: pytest.Item) -> bool:
    backend = item.callspec.params.get("backend") if hasattr(item, "callspec") else None
    return isinstance(backend, Backend) and backend.role == "peer"


def _found(item: pytest.Item) -> Found:
    parameters = item.callspec.id if hasattr(item, "callspec") else ""
    base = item.nodeid.removesuffix(f"[{parameters}]") if parameters else item.nodeid
    try:
        source = inspect.getsource(getattr(item, "function"))  # noqa: B009  not on every Item
    except (AttributeError, OSError, TypeError):
        source = ""
    return Found(item.nodeid, base, parameters, source)


def main(request: str, answer: str) -> int:
    """Run pytest as the request file says, and write what came of it to the answer file."""
    asked: dict[str, Any] = json.loads(Path(request).read_text(encoding="utf-8"))
    layout = sides.Layout(**asked["layout"]) if asked["layout"] else None
    if layout:
        sides.enter(layout)
    watcher = Watcher()
    installed = metadata.entry_points(group="pytest11", name="rightfast")
    loading = [] if installed else ["-p", "pytest_rightfast.plugin"]
    code = pytest.main([*asked["arguments"], *loading], plugins=[watcher])
    told = {
        "code": int(code),
        "cases": [asdict(case) for case in watcher.cases],
        "failed": watcher.failed,
        "reason": watcher.reason,
        "skipped": watcher.skipped,
        "stray": provenance.foreign(provenance.loaded(layout)) if layout else "",
    }
    write_atomically(Path(answer), json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
