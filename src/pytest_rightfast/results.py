"""Rows of results and their file: strict JSON, written to a temporary file and renamed.

A file is `{"schema": 1, "rows": [...]}`; the fields of a row are those of `Row`.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from .errors import ResultsError

SCHEMA = 1
ROLES = ("subject", "peer")
STATUSES = ("ok", "wrong", "unsupported", "error")


@dataclass
class Row:
    """One backend of one case. Times in seconds, per call.

    Attributes:
        id: the test's node id.
        case: the id without the backend; rows with the same case are compared.
        backend, role: its name, and `subject` or `peer`.
        status: `ok`, `wrong`, `unsupported` or `error`; only `ok` has samples.
        reason: where and by how much it is wrong, or why it was not run.
        device: as `--perf-device` names it.
        samples: raw, in time order; empty when timing was off.
        loops: calls per sample.
        host: on a device, seconds until each call returned; `samples` are the device's time then.
        discarded, clocks: samples dropped for throttling, and what NVML said.
        first_call, warmup_calls, steady: what came before the samples.
        compile_seconds: of `torch.compile` with cold caches, where it was measured.
        error, worst_error: to float64; relative norm, and worst element over the rms.
        errors: the relative norm by draw and by input family.
        counters: exact counts; `inexact` names those that did not repeat.
        moved_bytes, flops: as the case states them; copy_seconds: `copy_` of the same bytes.
        inputs: fingerprint of the first draw; the same for all backends of a case.
        threads_asked, threads: torch's CPU threads, asked and in force.
        state: global torch state that is not at its default.
        overhead: what the suite itself took, the callables' and references' own time not counted.
        environment: machine, versions, commit (see `machine.environment`).
    """

    id: str
    case: str
    backend: str
    role: str = "subject"
    status: str = "ok"
    reason: str | None = None
    device: str = "cpu"
    samples: list[float] = field(default_factory=list)
    loops: int = 1
    host: list[float] = field(default_factory=list)
    discarded: int = 0
    clocks: dict[str, Any] = field(default_factory=dict)
    first_call: float | None = None
    warmup_calls: int = 0
    steady: bool = False
    compile_seconds: float | None = None
    error: float | None = None
    worst_error: float | None = None
    errors: dict[str, float] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    inexact: list[str] = field(default_factory=list)
    moved_bytes: int | None = None
    flops: int | None = None
    copy_seconds: float | None = None
    inputs: str = ""
    threads_asked: int = 1
    threads: int = 1
    state: dict[str, Any] = field(default_factory=dict)
    overhead: float = 0.0
    environment: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float | None:
        return statistics.median(self.samples) if self.samples else None

    @property
    def spread(self) -> float | None:
        """Interquartile range over the median."""
        if len(self.samples) < 2:
            return None
        low, middle, high = statistics.quantiles(self.samples, n=4)
        return (high - low) / middle if middle else None


def save(path: Path, rows: Sequence[Row]) -> None:
    """Write all rows, or nothing."""
    try:
        text = json.dumps(
            {"schema": SCHEMA, "rows": [asdict(row) for row in rows]}, allow_nan=False, indent=1
        )
    except (TypeError, ValueError) as error:
        raise ResultsError(
            f"cannot write {path}: a value is not strict JSON: {error}",
            remedy="report it: every field of a row should be finite",
        ) from error
    write_atomically(path, text + "\n")


def write_atomically(path: Path, text: str) -> None:
    """A reader sees the old file or the new one, never half of one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise ResultsError(f"cannot write {path}: {error}", remedy="name another file") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except OSError as error:
        raise ResultsError(f"cannot write {path}: {error}", remedy="free some space") from error
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def load(path: str | Path) -> list[Row]:
    """Read a results file.

    Raises:
        ResultsError: not there, truncated, not ours, of a newer schema, or with unknown fields.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ResultsError(
            f"cannot read {path}: {error}", remedy="name a file that --perf-json wrote"
        ) from error
    try:
        content = json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        raise ResultsError(
            f"{path} is no complete JSON: {error}",
            expected="a file written by --perf-json",
            got=f"{len(text)} characters",
            remedy="measure again; the file was cut off or is something else",
        ) from error
    if not isinstance(content, dict) or "schema" not in content:
        keys = sorted(content)[:5] if isinstance(content, dict) else type(content).__name__
        raise ResultsError(
            f"{path} is not a rightfast results file",
            expected='{"schema": 1, "rows": [...]}',
            got=keys,
            remedy="pytest-benchmark's own files are read by --benchmark-compare",
        )
    if content["schema"] != SCHEMA or content["schema"] is True:
        raise ResultsError(
            f"{path} has another schema",
            expected=SCHEMA,
            got=content["schema"],
            remedy="read it with the rightfast version that wrote it",
        )
    if content.get("kind") == "gate":
        raise ResultsError(
            f"{path} is the report of a gate",
            expected="rows of a run: --perf-json without --perf-against",
            got="a gate's verdicts",
            remedy="its table is what the gate printed, and --perf-markdown keeps it",
        )
    if not isinstance(content.get("rows"), list):
        raise ResultsError(
            f"{path} has no rows",
            expected="a list",
            got=content.get("rows"),
            remedy="measure again; the file was changed by something else",
        )
    return [_row(path, index, entry) for index, entry in enumerate(content["rows"])]


def _row(path: str | Path, index: int, entry: Any) -> Row:
    known = {f.name for f in fields(Row)}
    if not isinstance(entry, dict) or not {"id", "case", "backend"} <= set(entry) <= known:
        raise ResultsError(
            f"{path}: row {index} does not fit the schema",
            expected=f"fields among {sorted(known)}",
            got=sorted(entry) if isinstance(entry, dict) else entry,
            remedy="measure again, or read it with the version that wrote it",
        )
    hints = get_type_hints(Row)
    for name, value in entry.items():
        if not _fits(value, hints[name]):
            raise ResultsError(
                f"{path}: row {index} has a {name} that does not fit the schema",
                expected=hints[name],
                got=repr(value)[:80],
                remedy="measure again; the file was changed by something else",
            )
    row = Row(**entry)
    for name, allowed in (("status", STATUSES), ("role", ROLES)):
        if (value := getattr(row, name)) not in allowed:
            raise ResultsError(
                f"{path}: row {index} has an unknown {name}",
                expected=allowed,
                got=value,
                remedy="measure again; the file was changed by something else",
            )
    if not all(sample > 0 for sample in row.samples):
        raise ResultsError(
            f"{path}: row {index} has samples that are not positive seconds",
            remedy="measure again; the file was changed by something else",
        )
    return row


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value from JSON is what a field's annotation says; numbers must be finite."""
    if hint is Any:
        return True
    if hint is float:
        return type(value) in (int, float) and math.isfinite(value)
    inner = get_args(hint)
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_fits(one, inner[0]) for one in value)
    if get_origin(hint) is dict:
        return isinstance(value, dict) and all(_fits(one, inner[1]) for one in value.values())
    if inner:  # a union
        return any(_fits(value, one) for one in inner)
    return type(value) is hint


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not allowed")
