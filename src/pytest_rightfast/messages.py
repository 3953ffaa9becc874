"""The messages between the gate and a worker, as strict JSON.

A frame's body is one object, UTF-8:

    {"number": 7, "kind": "sample", "body": {...}}

A reply repeats the number of its request, so that one that comes late is never taken for another.
Requests and replies are the dataclasses below; a missing, unknown or mistyped field is an error.
NaN and infinities are not JSON: send None and a reason.
"""

from __future__ import annotations

import json
import types
import typing
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from pytest_rightfast.errors import PerfError

VERSION = 1


class ProtocolError(PerfError):
    """What arrived is no message of this protocol; nothing after it can be trusted."""


@dataclass(frozen=True)
class Hello:
    """First request: where the worker may import from (a `sides.Layout`), pytest's arguments."""

    version: int
    layout: dict[str, Any]
    arguments: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Ready:
    """`versions`: python, torch, triton and what else counts must match to be compared."""

    version: int
    pid: int
    versions: dict[str, str]
    machine: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Collect:
    pass


@dataclass(frozen=True)
class Collected:
    """`failed`: file -> why it could not be imported; its cases are unknown, not absent."""

    ids: list[str]
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Verify:
    """`outputs`: folder for the outputs to be compared element by element; empty keeps none."""

    case: str
    seed: int
    outputs: str = ""


@dataclass(frozen=True)
class Verified:
    """`status`: a `verdicts.Status`. `fingerprint`: of the inputs. `errors`: input family -> error
    to float64, None where there is no number. `outputs`: file of the outputs, or empty. `timed`:
    False for a case that only verifies. `right`: kinds and digest of the right answers, by draw.
    """

    status: str
    reason: str = ""
    fingerprint: str = ""
    errors: dict[str, float | None] = field(default_factory=dict)
    outputs: str = ""
    timed: bool = True
    right: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """One block of one case: samples for `seconds`, `least` of them at any rate.

    `lead`: seconds of calls before them, see `clock_cpu.Budget`. `right`: see `Verified`.
    `refute`: say whether this machine can be that fast; its limits take time to measure.
    """

    case: str
    seconds: float
    least: int = 3
    lead: float = 0.0
    refute: bool = False
    right: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Sampled:
    """Seconds a call, in time order.

    `check`: why the kept outputs were wrong, or empty. `refuted`: why such a time can't be.
    """

    seconds: list[float]
    check: str = ""
    refuted: str = ""


@dataclass(frozen=True)
class Count:
    case: str


@dataclass(frozen=True)
class Counted:
    """One dict a pass; only what agrees between passes is exact."""

    passes: list[dict[str, float]]


@dataclass(frozen=True)
class Trace:
    """Write a profiler's trace of some calls to `file`; the reply is `Done`."""

    case: str
    file: str


@dataclass(frozen=True)
class Measure:
    """Run the case as a whole, as a run of its own would; `trace`: a folder, or empty."""

    case: str
    profile: bool = False
    trace: str = ""


@dataclass(frozen=True)
class Measured:
    """The fields of a `rows.Row`."""

    row: dict[str, Any]


@dataclass(frozen=True)
class AskModules:
    pass


@dataclass(frozen=True)
class Modules:
    """`files`: as `provenance.ModuleFile`, as dicts."""

    files: list[dict[str, Any]]


@dataclass(frozen=True)
class Bye:
    pass


@dataclass(frozen=True)
class Done:
    pass


@dataclass(frozen=True)
class Failed:
    """Reply to any request that raised in the worker."""

    error: str
    traceback: str = ""


Message = (
    Hello
    | Ready
    | Collect
    | Collected
    | Verify
    | Verified
    | Sample
    | Sampled
    | Count
    | Counted
    | Trace
    | Measure
    | Measured
    | AskModules
    | Modules
    | Bye
    | Done
    | Failed
)
KINDS: dict[str, type[Any]] = {
    cls.__name__.lower(): cls for cls in typing.get_args(Message)
}  # "sample" -> Sample


def encode(number: int, message: Message) -> bytes:
    """The body of one frame. Raises ProtocolError for what is not strict JSON."""
    kind = type(message).__name__.lower()
    try:
        text = json.dumps(
            {"number": number, "kind": kind, "body": asdict(message)}, allow_nan=False
        )
    except (TypeError, ValueError) as error:
        raise ProtocolError(f"a {kind} message holds what is not strict JSON: {error}") from error
    return text.encode()


def decode(body: bytes) -> tuple[int, Message]:
    """Number and message of one frame's body. Raises ProtocolError."""
    try:
        data = json.loads(body, parse_constant=_refuse, object_pairs_hook=_unique)
    except ValueError as error:
        raise ProtocolError(f"not strict JSON: {error}: {_show(body)}") from error
    if not isinstance(data, dict) or set(data) != {"number", "kind", "body"}:
        raise ProtocolError(f"expected number, kind and body, got {_show(body)}")
    cls = KINDS.get(data["kind"]) if isinstance(data["kind"], str) else None
    if cls is None or type(data["number"]) is not int or not isinstance(data["body"], dict):
        raise ProtocolError(f"expected a message of {', '.join(KINDS)}, got {_show(body)}")
    hints = typing.get_type_hints(cls)
    unknown = set(data["body"]) ^ {f.name for f in fields(cls)}
    if unknown:
        raise ProtocolError(f"{data['kind']}: fields missing or unknown: {sorted(unknown)}")
    for name, value in data["body"].items():
        if not _fits(value, hints[name]):
            raise ProtocolError(
                f"{data['kind']}.{name}: expected {hints[name]}, got {value!r:.200}"
            )
    return data["number"], cls(**data["body"])


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin is types.UnionType:
        return any(_fits(value, part) for part in arguments)
    if origin is list:
        return isinstance(value, list) and all(_fits(x, arguments[0]) for x in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(x, arguments[1]) for x in value.values())
    if hint is float:  # JSON writes 1.0 as 1 in other languages' hands
        return type(value) in (int, float)
    return type(value) is hint


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _show(data: bytes) -> str:
    return repr(data[:80]) + ("..." if len(data) > 80 else "")
