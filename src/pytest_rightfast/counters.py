"""Exact counts of what one call does, taken in an untimed pass in the steady state.

Everything is counted twice; only what agrees is exact and may gate, and only against the same
torch, Triton and Python. ATen operators come from a dispatch mode, allocations from the profiler's
memory events (those of C++ operators included), Python calls from the interpreter.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
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
    passes = [dispatched, memory]
    if device.startswith("cuda"):
        passes.append(functools.partial(counters_cuda.counts, device=device))
    for counter in passes:
        if reset:
            reset()
        counts |= counter(call)
    return counts


def dispatched(call: Callable[[], Any]) -> Counts:
    """Operators, in all and by name."""
    seen: Counter[Any] = Counter()

    def see(operator: Any, result: Any) -> None:
        seen[operator] += 1

    with watching(see):
        call()
    named: Counts = {"operators": seen.total()}
    for operator, times in seen.items():
        name = f"operators/{operator.name()}"
        named[name] = named.get(name, 0) + times
    return named


def memory(call: Callable[[], Any]) -> Counts:
    """Memory taken: number of blocks, bytes, peak; and Python calls.

    Apart from the operators: a dispatch mode below the profiler costs more than both alone.
    """
    from torch.autograd.profiler import profile

    with profile(profile_memory=True, use_kineto=False) as recorded:
        counts = _python_calls(call)
    sizes = [e.nbytes() for e in recorded.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for size in sizes:
        held += size
        peak = max(peak, held)
    taken = [size for size in sizes if size > 0]
    blocks = {"allocations": len(taken), "allocated_bytes": sum(taken), "peak_bytes": peak}
    return blocks | counts


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
        call()
        return {}  # somebody else's profiler is at work, and would be switched off
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {"python_calls": calls}
