"""Rows of results and their file: strict JSON, written to a temporary file and renamed.

A file is `{"schema": 2, "rows": [...]}`; the fields of a row are those of `Row`.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from .errors import ResultsError
from .rows import ROLES, STATUSES, Row

__all__ = [
    "ROLES",
    "SCHEMA",
    "STATUSES",
    "Row",
    "as_json",
    "check_writable",
    "load",
    "parse_row",
    "save",
    "write_atomically",
]

SCHEMA = 2


def save(path: Path, rows: Sequence[Row]) -> None:
    """Write all rows, or nothing."""
    try:
        text = as_json(rows)
    except (TypeError, ValueError) as error:
        raise ResultsError(
            f"cannot write {path}: a value is not strict JSON: {error}",
            remedy="report it: every field of a row should be finite",
        ) from error
    write_atomically(path, text)


def as_json(rows: Sequence[Row]) -> str:
    """The text of a results file. Raises TypeError or ValueError for what is not strict JSON."""
    content = {"schema": SCHEMA, "rows": [asdict(row) for row in rows]}
    return json.dumps(content, allow_nan=False, indent=1) + "\n"


def write_atomically(path: Path, content: str | bytes) -> None:
    """A reader sees the old file or the new one, never half of one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise ResultsError(f"cannot write {path}: {error}", remedy="name another file") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
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


def check_writable(option: str, folder: Path, file: Path | None = None) -> None:
    """Make the folder and write there, before anything is measured in vain. Raises ResultsError."""
    try:
        if file is not None and file.is_dir():
            raise IsADirectoryError(f"{file} is a folder")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ResultsError(
            f"{option} names what cannot be written",
            expected=f"a {'folder' if file is None else 'file'} that can be made and written",
            got=f"{file or folder}: {error}",
            remedy=f"name another {'folder' if file is None else 'file'}, or free this one",
        ) from error


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
    return [
        parse_row(f"{path}: row {index}", entry) for index, entry in enumerate(_rows_of(path, text))
    ]


def _rows_of(path: str | Path, text: str) -> list[Any]:
    try:
        content = json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        raise ResultsError(
            f"{path} is no complete JSON: {error}",
            expected="a file written by --perf-json",
            got=f"{len(text)} characters" if text.strip() else "an empty file",
            remedy="finish that run: the same command with --perf-resume"
            if str(path).endswith(".partial")
            else "measure again; the file was cut off or is something else",
        ) from error
    if not isinstance(content, dict) or "schema" not in content:
        keys = sorted(content)[:5] if isinstance(content, dict) else type(content).__name__
        raise ResultsError(
            f"{path} is not a rightfast results file",
            expected=f'{{"schema": {SCHEMA}, "rows": [...]}}',
            got=keys,
            remedy="pytest-benchmark's own files are read by --benchmark-compare",
        )
    if content.get("kind") == "gate":
        raise ResultsError(
            f"{path} is the report of a gate",
            expected="rows of a run: --perf-json without --perf-against",
            got="a gate's verdicts",
            remedy="its table is what the gate printed, and --perf-markdown keeps it",
        )
    if content["schema"] != SCHEMA or content["schema"] is True:
        older = content["schema"] in range(1, SCHEMA) and content["schema"] is not True
        raise ResultsError(
            f"{path} has {'an older' if older else 'another'} schema",
            expected=SCHEMA,
            got=content["schema"],
            remedy="measure again, or read it with the rightfast version that wrote it",
        )
    if not isinstance(content.get("rows"), list):
        raise ResultsError(
            f"{path} has no rows",
            expected="a list",
            got=content.get("rows"),
            remedy="measure again; the file was changed by something else",
        )
    return list(content["rows"])


def parse_row(where: str, entry: Any) -> Row:
    """A row from JSON; `where` names its place in errors. Raises ResultsError."""
    known = {f.name for f in fields(Row)}
    if not isinstance(entry, dict) or not {"id", "case", "backend"} <= set(entry) <= known:
        raise ResultsError(
            f"{where} does not fit the schema",
            expected=f"fields among {sorted(known)}",
            got=sorted(entry) if isinstance(entry, dict) else entry,
            remedy="measure again, or read it with the version that wrote it",
        )
    hints = get_type_hints(Row)
    for name, value in entry.items():
        if not _fits(value, hints[name]):
            raise ResultsError(
                f"{where} has a {name} that does not fit the schema",
                expected=hints[name],
                got=repr(value)[:80],
                remedy="measure again; the file was changed by something else",
            )
    row = Row(**entry)
    for name, allowed in (("status", STATUSES), ("role", ROLES)):
        if (value := getattr(row, name)) not in allowed:
            raise ResultsError(
                f"{where} has an unknown {name}",
                expected=allowed,
                got=value,
                remedy="measure again; the file was changed by something else",
            )
    if not all(sample > 0 for sample in row.samples):
        raise ResultsError(
            f"{where} has samples that are not positive seconds",
            remedy="measure again; the file was changed by something else",
        )
    if row.processes and sum(row.processes) != len(row.samples):
        raise ResultsError(
            f"{where} has samples that its processes do not account for",
            expected=f"{sum(row.processes)} samples, of {len(row.processes)} processes",
            got=len(row.samples),
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
