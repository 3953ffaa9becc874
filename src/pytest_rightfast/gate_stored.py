"""The gate's JSON, read back. It may come from a stranger's run, so nothing in it is believed.

Only what a report shows is kept; everything that does not fit is an error, never a guess.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from .errors import ResultsError
from .exits import ExitCode
from .verdicts import Verdict

SCHEMA = 1
LARGEST = 32 * 2**20  # bytes; a thousand cases are a few MiB
MOST_CASES = 5000
NAMES = {int(code): code.name.lower() for code in ExitCode}


@dataclass(frozen=True)
class Finding:
    verdict: Verdict
    reason: str
    accepted: str | None


@dataclass(frozen=True)
class Case:
    """Times in seconds, medians over the pairs; the rest relative. None: not timed."""

    name: str
    verdict: Verdict
    findings: tuple[Finding, ...]
    base: float | None
    head: float | None
    ratio: float | None
    low: float | None
    high: float | None
    visible: float | None
    floor: float | None
    outputs: str


@dataclass(frozen=True)
class Stored:
    """A whole report; `error` says why the gate could not run, and then there are no cases."""

    error: str | None
    exit_code: int
    would_exit: int
    base: str
    head: str
    dirty: bool
    pairs: int
    seconds: float
    min_effect: float
    notes: tuple[str, ...]
    cases: tuple[Case, ...]


def parse(data: bytes) -> Stored:
    """Read what `--perf-json` wrote with `--perf-against`.

    Raises:
        ResultsError: too large, no strict JSON, or not of the schema.
    """
    if len(data) > LARGEST:
        _refuse("the report", f"at most {LARGEST} bytes", f"{len(data)} bytes")
    try:
        content = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        _refuse("the report", "strict JSON", f"{type(error).__name__}: {error}"[:200])
    if not isinstance(content, dict) or content.get("kind") != "gate":
        _refuse("the report", 'an object with "kind": "gate"', str(content)[:80])
    if content.get("schema") != SCHEMA or isinstance(content["schema"], bool):
        _refuse("schema", SCHEMA, str(content.get("schema"))[:80])
    if "error" in content:
        why = _text(content, "error")
        return Stored(why, _code(content, "exit_code"), 15, "", "", False, 0, 0.0, 0.0, (), ())
    base, head, plan = (_object(content, key) for key in ("base", "head", "plan"))
    return Stored(
        None,
        _code(content, "exit_code"),
        _code(content, "would_exit"),
        _commit(base),
        _commit(head),
        _of(head, "dirty", bool),
        _of(content, "pairs", int),
        _number(content, "seconds") or 0.0,
        _number(plan, "min_effect") or 0.0,
        tuple(_texts(content, "notes")),
        tuple(_case(entry) for entry in _list(content, "cases", MOST_CASES)),
    )


def _case(entry: Any) -> Case:
    if not isinstance(entry, dict):
        _refuse("a case", "an object", entry)
    findings = []
    for one in _list(entry, "findings", 100):
        if not isinstance(one, dict):
            _refuse("a finding", "an object", one)
        why = None if one.get("accepted") is None else _text(one, "accepted")
        findings.append(Finding(_verdict(one), _text(one, "reason"), why))
    return Case(
        _text(entry, "case"),
        _verdict(entry),
        tuple(findings),
        _median(entry, "base_seconds"),
        _median(entry, "head_seconds"),
        _number(entry, "ratio"),
        _number(entry, "low"),
        _number(entry, "high"),
        _number(entry, "smallest_visible"),
        _number(entry, "noise_floor"),
        _text(entry, "outputs"),
    )


def _median(entry: Mapping[str, Any], key: str) -> float | None:
    values = _list(entry, key, 10000)
    found = [_number({key: value}, key) for value in values]
    known = [value for value in found if value is not None]
    return sorted(known)[len(known) // 2] if known else None  # as the gate prints it


def _number(entry: Mapping[str, Any], key: str) -> float | None:
    """Finite, not negative; 1e999 is strict JSON and yet infinite."""
    value = entry.get(key)
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 <= value < 1e30:
        _refuse(key, "a finite number or null", value)
    return float(value)


def _verdict(entry: Mapping[str, Any]) -> Verdict:
    value = entry.get("verdict")
    if not isinstance(value, str) or value not in set(Verdict):
        _refuse("verdict", ", ".join(Verdict), value)
    return Verdict(value)


def _code(entry: Mapping[str, Any], key: str) -> int:
    value = _of(entry, key, int)
    if value not in NAMES:
        _refuse(key, sorted(NAMES), value)
    return int(value)


def _commit(entry: Mapping[str, Any]) -> str:
    value = _text(entry, "commit")
    if not re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?|", value):
        _refuse("commit", "40 or 64 hexadecimal digits", value)
    return value


def _text(entry: Mapping[str, Any], key: str) -> str:
    return str(_of(entry, key, str))


def _texts(entry: Mapping[str, Any], key: str) -> list[str]:
    return [_text({key: one}, key) for one in _list(entry, key, 1000)]


def _object(entry: Mapping[str, Any], key: str) -> dict[str, Any]:
    return dict(_of(entry, key, dict))


def _list(entry: Mapping[str, Any], key: str, most: int) -> list[Any]:
    value = _of(entry, key, list)
    if len(value) > most:
        _refuse(key, f"at most {most} entries", f"{len(value)}")
    return list(value)


def _of(entry: Mapping[str, Any], key: str, kind: type) -> Any:
    value = entry.get(key)
    if type(value) is not kind:
        _refuse(key, f"a value of type {kind.__name__}", value)
    return value


def _no_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not allowed")


def _refuse(what: str, expected: object, got: object) -> NoReturn:
    raise ResultsError(
        f"{what} is not as the gate writes it",
        expected=expected,
        got=repr(got)[:80] if not isinstance(got, str) else got[:200],
        remedy="run the gate again, with the version that reads the report",
    )
