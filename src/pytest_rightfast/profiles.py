"""Time by operator, from torch's profiler, in a pass of its own after everything was timed.

`Row.profile` is `{"calls": n, "seconds": s, "unprofiled_seconds": m, "operators": [...]}`: seconds
of one call under the profiler and without it, and for each operator `name`, `calls` of one call,
`self` (seconds that one call spends in itself) and `device_self` (seconds of its kernels).
Operators of a project's own library bear the name that it registered, beside `aten::`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .errors import ResultsError
from .rows import Row

CALLS = 10  # recorded, after one that warms up
MOST_LINES = 12  # of one backend in the table
HEADERS = ("case", "backend", "operator", "calls", "self", "share", "on device")


def record(
    call: Callable[[], object],
    reset: Callable[[], None] | None,
    device: str,
    shapes: bool = False,
) -> tuple[dict[str, Any], Any]:
    """Profile `CALLS` calls; `reset` restores inputs that a call consumes, outside the clock.

    Args:
        shapes: with those of the arguments, for a trace.

    Returns:
        The time by operator, and what `write_trace` takes.
    """
    from torch.profiler import profile

    spent = 0.0

    def once() -> float:
        if reset:
            reset()
        begun = time.perf_counter()
        call()
        _wait(device)
        return time.perf_counter() - begun

    once()
    with profile(record_shapes=shapes) as recorded:
        for _ in range(CALLS):
            spent += once()
    found = {"calls": CALLS, "seconds": spent / CALLS, "operators": _operators(recorded)}
    return found, recorded


def _wait(device: str) -> None:
    if device != "cpu":
        import torch

        torch.accelerator.synchronize()


def write_trace(recorded: Any, file: Path) -> None:
    """For Perfetto or chrome://tracing; a reader never sees half a file.

    Raises:
        ResultsError: it cannot be written; no fault of what was profiled.
    """
    partial = file.with_suffix(".partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        recorded.export_chrome_trace(str(partial))
        partial.rename(file)
    except (OSError, RuntimeError) as error:
        raise ResultsError(
            "a trace cannot be written; the measurement is not touched by that",
            expected=f"to write in {file.parent}",
            got=f"{type(error).__name__}: {error}",
            remedy="name another folder in --perf-trace, or free some space",
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _operators(recorded: Any) -> list[dict[str, Any]]:
    """By own time, the longest first. The profiler's microseconds become seconds."""
    found = []
    for event in recorded.key_averages():
        on_device = float(getattr(event, "self_device_time_total", 0.0))
        own = float(event.self_cpu_time_total)
        if own or on_device:
            found.append(
                {
                    "name": str(event.key),
                    "calls": event.count / CALLS,
                    "self": own / CALLS / 1e6,
                    "device_self": on_device / CALLS / 1e6,
                }
            )
    return sorted(found, key=lambda one: -(one["self"] + one["device_self"]))


def table(
    rows: Sequence[Row], short: Callable[[str], str]
) -> tuple[tuple[str, ...], list[list[str]], list[str]]:
    """Headers, lines and notes: the longest operators of each row, and the profiler's own cost."""
    lines, notes, last = [], [], ""
    device = any(one["device_self"] for row in rows for one in row.profile["operators"])
    for row in rows:
        operators = row.profile["operators"]
        whole = sum(one["self"] for one in operators) or 1.0
        for index, one in enumerate(operators[:MOST_LINES]):
            name = short(row.case) if index == 0 and row.case != last else ""
            lines.append([name, row.backend if index == 0 else "", *_cells(one, whole)])
        last = row.case
        if rest := operators[MOST_LINES:]:
            total = {"name": f"{len(rest)} others", "calls": sum(one["calls"] for one in rest)}
            for key in ("self", "device_self"):
                total[key] = sum(one[key] for one in rest)
            lines.append(["", "", *_cells(total, whole)])
        notes.append(f"  {short(row.case)} {row.backend}: {_overhead(row)}")
    if not device:
        return HEADERS[:-1], [line[:-1] for line in lines], notes
    return HEADERS, lines, notes


def _cells(one: dict[str, Any], whole: float) -> list[str]:
    device = f"{one['device_self'] * 1e6:.1f} us" if one["device_self"] else ""
    own = one["self"]
    return [one["name"], f"{one['calls']:g}", f"{own * 1e6:.1f} us", f"{own / whole:.0%}", device]


def _overhead(row: Row) -> str:
    """What the profiler itself cost: its times say where, not how long."""
    under, plain = row.profile["seconds"], row.profile.get("unprofiled_seconds")
    text = f"{under * 1e6:.1f} us a call under the profiler"
    return f"{text}, {plain * 1e6:.1f} us without: {under / plain:.1f}x" if plain else text
