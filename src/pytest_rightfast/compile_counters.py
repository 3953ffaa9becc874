"""`torch.compile` as a backend, and what it costs: graph breaks, recompilations, compile time.

Breaks and recompilations happen in Dynamo, whatever compiles the graphs; they are counted with the
`eager` backend, from a reset Dynamo, over the case's input and a list of further ones.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .case import Call
from .errors import CaseError
from .results import Row
from .steps import Step


@dataclass(frozen=True)
class Compilation:
    """What compiling cost.

    Attributes:
        graphs: compiled for the first input.
        graph_breaks: the most of any one input.
        recompilations: frames that were compiled for later inputs.
        fallbacks: frames that were given up and stay eager (the recompile limit, among others).
        seconds: of the first call less a steady one, with cold caches and the real backend; no
            exact count, and None if it was not asked for.
        reasons: of the breaks, each once.
    """

    graphs: int
    graph_breaks: int
    recompilations: int
    fallbacks: int
    seconds: float | None
    reasons: tuple[str, ...]

    @property
    def counters(self) -> dict[str, int]:
        names = ("graphs", "graph_breaks", "recompilations", "fallbacks")
        return {f"compile/{name}": getattr(self, name) for name in names}


class Compiled:
    """A function under `torch.compile`; see `compiled`."""

    def __init__(
        self, function: Callable[..., Any], over: Any, time_compile: bool, options: dict[str, Any]
    ) -> None:
        self.__name__ = f"compiled({getattr(function, '__name__', type(function).__name__)})"
        self._function, self._over = function, over
        self._time, self._options = time_compile, options
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled is None:  # not before: importing Dynamo takes seconds
            self._compiled = self._build()
        return self._compiled(*args, **kwargs)

    def _build(self, **options: Any) -> Callable[..., Any]:
        import torch

        built: Callable[..., Any] = torch.compile(self._function, **{**self._options, **options})
        return built

    def measure(self, first: Call) -> Compilation:
        """Compile anew, for `first` and then for what `over` lists.

        Everything that Dynamo has compiled in this process is forgotten, before and after.

        Raises:
            CaseError: an entry of `over` is no set of arguments.
        """
        calls = [first, *map(_as_call, self._over() if callable(self._over) else self._over)]
        with _reset():
            steps, reasons = _count(self._build(backend="eager", **_NO_MODE), calls)
        seconds = None
        if self._time:
            if self._options.get("backend", "inductor") == "inductor":
                _warm_up()
            with _reset(), _cold():
                seconds = _seconds(self._build(), first)
        return Compilation(
            graphs=steps[0]["graphs"],
            graph_breaks=max(step["breaks"] for step in steps),
            recompilations=sum(step["frames"] for step in steps[1:]),
            fallbacks=sum(step["fallbacks"] for step in steps),
            seconds=seconds,
            reasons=tuple(reasons),
        )


def compiled(
    function: Callable[..., Any],
    *,
    over: Sequence[Any] | Callable[[], Sequence[Any]] = (),
    time_compile: bool = True,
    **options: Any,
) -> Compiled:
    """A backend: `@pytest.mark.perf_backends(eager=f, compiled=compiled(f, fullgraph=True))`.

    Args:
        function: what is compiled.
        over: further arguments, such as other shapes, that it is called with when recompilations
            are counted: tuples, `call(...)` or single values, or a function that returns them.
        time_compile: also compile once with cold caches for the row's `compile_seconds`.
        options: of `torch.compile`: fullgraph, dynamic, backend, mode, options.
    """
    return Compiled(function, over, time_compile, options)


def note(row: Row, function: Callable[..., Any], first: Call) -> None:
    """Enter what compiling cost into a row, if its function is compiled."""
    if isinstance(function, Compiled):
        found = function.measure(first)
        row.counters |= found.counters
        row.compile_seconds = found.seconds


# `mode` and `options` speak to Inductor; the eager backend refuses them.
_NO_MODE: dict[str, Any] = {"mode": None, "options": None}


def _count(
    function: Callable[..., Any], calls: Sequence[Call]
) -> tuple[list[dict[str, int]], list[str]]:
    """What each call made Dynamo do, and the reasons of all breaks."""
    from torch._dynamo.utils import counters

    def totals() -> dict[str, int]:
        frames = counters["frames"]
        return {
            "graphs": counters["stats"]["unique_graphs"],
            "breaks": sum(counters["graph_break"].values()),
            "frames": frames["ok"],
            "fallbacks": frames["total"] - frames["ok"],
        }

    known, steps, before = dict(counters["graph_break"]), [], totals()
    for call in calls:
        function(*call.args, **call.kwargs)
        after = totals()
        steps.append({name: after[name] - before[name] for name in after})
        before = after
    broken = counters["graph_break"]
    reasons = [text for text, number in broken.items() if number > known.get(text, 0)]
    return steps, [text.splitlines()[0] for text in reasons if text]


def _seconds(function: Callable[..., Any], call: Call) -> float:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        function(*call.args, **call.kwargs)
        times.append(time.perf_counter() - start)
    return max(0.0, times[0] - times[-1])


@contextlib.contextmanager
def _reset() -> Any:
    import torch

    torch._dynamo.reset()
    try:
        yield
    finally:
        torch._dynamo.reset()


@functools.cache
def _warm_up() -> None:
    """Inductor's imports, compiler checks and headers: 30 s that the first case is not charged."""
    import torch

    with contextlib.suppress(Exception):  # no C++ compiler: another backend may do without
        torch.compile(lambda x: x + 1)(torch.ones(8, device="cpu"))


def _cold() -> Any:
    """Inductor's caches on disk left aside, by the name that this torch has for it."""
    import torch._inductor.utils as utils

    for name in ("fresh_inductor_cache", "fresh_cache"):
        if hasattr(utils, name):
            return getattr(utils, name)()
    return contextlib.nullcontext()


def _as_call(given: Any) -> Call:
    if isinstance(given, Call):
        return given
    if isinstance(given, Step):
        if not given.is_call:
            raise CaseError(
                "over= takes arguments",
                expected="call(x), (x,) or x",
                got=repr(given),
                remedy="drop steps that are no calls",
            )
        return Call(given.args, given.kwargs)
    return Call(given if isinstance(given, tuple) else (given,))
