"""Perf cases from an asv class, which goes on being asv's.

    # perf/test_norm.py
    from benchmarks.norm import Norm

    TestNorm = from_asv(Norm, time_layer=PerfCase(reference=lambda self, width: ...))

An asv method has no inputs and usually no result. Its inputs are what `setup` left in `self`; the
one line that has to change is the `return` before what the method computes, which asv ignores.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from .case import PerfCase
from .errors import CaseError

if TYPE_CHECKING:
    from torch import Generator


def from_asv(benchmarks: type, **cases: PerfCase) -> type:
    """A class of tests, one for each method that is named: `TestNorm = from_asv(Norm, ...)`.

    Each draw is a `setup` of its own, from another seed of torch, numpy and random: a `setup` that
    seeds itself always draws the same. `params`, `setup_cache` and, where `setup` raises it,
    `NotImplementedError` mean what they mean to asv.

    Args:
        benchmarks: the class.
        cases: method -> its case. `reference`, `moved_bytes` and `flops` are called as the method
            is, with `self` and the parameters; `check` too, with the output before them.

    Raises:
        CaseError: a method that is not there, or no case at all.
    """
    missing = [name for name in cases if not callable(getattr(benchmarks, name, None))]
    if missing or not cases:
        there = [name for name in dir(benchmarks) if name.startswith("time")]
        raise CaseError(
            f"from_asv({benchmarks.__name__}, ...) has nothing to measure",
            expected=f"METHOD=PerfCase(reference=...), METHOD of {', '.join(there) or 'none'}",
            got=", ".join(missing) or "no case",
            remedy="name the methods whose answers can be verified",
        )
    tests = {_test_name(name): _test(benchmarks, name, case) for name, case in cases.items()}
    return type(f"Test{benchmarks.__name__}", (), {**tests, "__doc__": benchmarks.__doc__})


def _test_name(method: str) -> str:
    return "test_" + re.sub(r"^time(raw)?_", "", method)


def _test(benchmarks: type, method: str, case: PerfCase) -> Callable[..., None]:
    import pytest

    def run(perf: Callable[..., Any], parameters: tuple[Any, ...]) -> None:
        bound = _Bound(benchmarks, method, parameters)
        try:
            bound.draw(0)
        except NotImplementedError as error:  # asv's word for "not this one"
            pytest.skip(f"{benchmarks.__name__}.setup: {error or 'NotImplementedError'}")
        perf(bound.call, case=bound.adapt(case))

    rows = _parameters(benchmarks)
    if rows == [()]:
        return lambda self, perf: run(perf, ())

    def test(self: Any, perf: Callable[..., Any], parameters: tuple[Any, ...]) -> None:
        run(perf, parameters)

    ids = ["-".join(map(str, row)) for row in rows]
    marked: Callable[..., None] = pytest.mark.parametrize("parameters", rows, ids=ids)(test)
    return marked


def _parameters(benchmarks: type) -> list[tuple[Any, ...]]:
    """asv takes one list for one parameter, or a list of lists."""
    given = list(getattr(benchmarks, "params", ()))
    if given and not isinstance(given[0], list | tuple):
        given = [given]
    return list(product(*given))


@dataclass
class _Bound:
    """One method with its parameters, as a function of what `setup` leaves in `self`."""

    benchmarks: type
    method: str
    parameters: tuple[Any, ...]

    def __post_init__(self) -> None:
        if hasattr(self.benchmarks, "setup_cache"):  # asv hands its result to everything
            self.parameters = (self.benchmarks().setup_cache(), *self.parameters)

    def draw(self, seed: int) -> dict[str, Any]:
        with _seeded(seed):
            instance = self.benchmarks()
            if hasattr(instance, "setup"):
                instance.setup(*self.parameters)
        return dict(vars(instance))

    def restored(self, state: Mapping[str, Any]) -> Any:
        instance: Any = object.__new__(self.benchmarks)
        instance.__dict__.update(state)
        return instance

    def call(self, state: Mapping[str, Any]) -> Any:
        return getattr(self.restored(state), self.method)(*self.parameters)

    def adapt(self, case: PerfCase) -> PerfCase:
        """The case, with what it calls taking a state in place of `self` and the parameters."""

        def of_state(function: Any) -> Any:
            if not callable(function):
                return function
            return lambda state: function(self.restored(state), *self.parameters)

        check = case.check
        return replace(
            case,
            inputs=self.inputs,
            reference=of_state(case.reference),
            moved_bytes=of_state(case.moved_bytes),
            flops=of_state(case.flops),
            check=check
            and (lambda output, state: check(output, self.restored(state), *self.parameters)),
        )

    def inputs(self, generator: Generator) -> tuple[dict[str, Any]]:
        return (self.draw(generator.initial_seed()),)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """The global generators, of which `setup` draws, from a seed; afterwards as they were."""
    import torch

    numpy = sys.modules.get("numpy")  # the benchmarks have imported it, or don't use it
    states = random.getstate(), numpy.random.get_state() if numpy else None
    try:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            random.seed(seed)
            if numpy:
                numpy.random.seed(seed % 2**32)
            yield
    finally:
        random.setstate(states[0])
        if numpy:
            numpy.random.set_state(states[1])
