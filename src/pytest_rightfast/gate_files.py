"""Where the gate's report is written: each file whole or not at all."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import gate_markdown, gate_report
from .errors import PerfError
from .exits import ExitCode
from .gate import Report
from .results import write_atomically


@dataclass(frozen=True)
class Files:
    json: Path | None = None
    markdown: Path | None = None

    def clear(self) -> None:
        """The files of an earlier run would pass for those of one that was interrupted."""
        for file in filter(None, (self.json, self.markdown)):
            with contextlib.suppress(OSError):
                file.unlink()

    def write(self, report: Report) -> None:
        self._write(gate_report.as_json(report), gate_markdown.document(report))

    def write_failure(self, error: PerfError) -> None:
        """The gate could not run. If the file can't be written either, the first error counts."""
        data = {"schema": gate_report.SCHEMA, "kind": "gate", "error": str(error), "cases": []}
        with contextlib.suppress(PerfError):
            text = gate_markdown.failure(str(error))
            self._write({**data, "exit_code": int(ExitCode.GATE)}, text)

    def _write(self, data: dict[str, Any], text: str) -> None:
        if self.json is not None:
            write_atomically(self.json, json.dumps(data, allow_nan=False, indent=1) + "\n")
        if self.markdown is not None:
            write_atomically(self.markdown, text)
