"""Exact counts of what one call does, taken in an untimed pass in the steady state.

Everything is counted twice; only what agrees is exact and may gate, and only against the same
torch, Triton and Python. ATen operators come from a dispatch mode, allocations from the profiler's
memory events (those of C++ operators included), Python calls from the interpreter.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from . import counters_cuda
from .dispatch import watching

Counts = dict[str, int]


def count(
    call: Callable[[], Any], reset: Callable[[], None] | None = None, device: str = "cpu"
) -> tuple[Counts, list[str]]:
    """Counts of one call that agree between two runs, and the names of those that do not.

    `reset` restores inputs that the call consumes; it runs uncounted.
    """
    first, second = one_pass(call, reset, device), one_pass(call, reset, device)
    exact = {name: n for name, n in first.items() if second.get(name) == n}
    return exact, sorted((first.keys() | second.keys()) - exact.keys())


def one_pass(
    call: Callable[[], Any], reset: Callable[[], None] | None = None, device: str = "cpu"
) -> Counts:
    """All counts of one call; on CUDA with what it asks of the driver."""
    counts: Counts = {}
    passes = [dispatched, _python_calls]
    if device.startswith("cuda"):
        passes.append(functools.partial(counters_cuda.counts, device=device))
    for counter in passes:
        if reset:
            reset()
        counts |= counter(call)
    return counts


def dispatched(call: Callable[[], Any]) -> Counts:
    """Operators by name, and memory taken: number, bytes, peak."""
    from torch.autograd.profiler import profile

    counts: Counts = {"operators": 0}

    def see(operator: Any, result: Any) -> None:
        counts["operators"] += 1
        name = f"operators/{operator.name()}"
        counts[name] = counts.get(name, 0) + 1

    with profile(profile_memory=True, use_kineto=False) as recorded, watching(see):
        call()
    sizes = [e.nbytes() for e in recorded.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for size in sizes:
        held += size
        peak = max(peak, held)
    taken = [size for size in sizes if size > 0]
    return {
        **counts,
        "allocations": len(taken),
        "allocated_bytes": sum(taken),
        "peak_bytes": peak,
    }


def work(function: Callable[..., Any], *args: Any) -> tuple[int, int]:
    """Operators, and calls of Python and C functions: a rough sum of what one call does."""
    operators = calls = 0

    def see(operator: Any, result: Any) -> None:
        nonlocal operators
        operators += 1

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    with watching(see):
        if before is None:
            sys.setprofile(note)
        try:
            function(*args)
        finally:
            if before is None:
                sys.setprofile(None)
    return operators, calls


def _python_calls(call: Callable[[], Any]) -> Counts:
    calls = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    if sys.getprofile() is not None:
        return {}  # somebody else's profiler is at work, and would be switched off
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {"python_calls": calls}
