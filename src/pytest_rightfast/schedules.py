"""Schedules: generated from a signature, from sizes or from an alphabet of steps, and shrunk.

Pure: nothing here runs a step. The same seed gives the same schedules.
"""

from __future__ import annotations

import enum
import inspect
import random
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from .errors import CaseError
from .steps import Step, swap

Steps = Step | Sequence[Step]
T = TypeVar("T")


@dataclass(frozen=True)
class Schedule:
    """Steps in order, with a name for reports."""

    name: str
    steps: tuple[Step, ...]


def as_schedules(given: Any) -> list[Schedule]:
    """One schedule of bare steps, or schedules.

    Raises:
        CaseError: there is nothing to run, or something that is neither.
    """
    found: list[Any] = [given] if isinstance(given, Schedule | Step) else list(given)
    if found and all(isinstance(one, Step) for one in found):
        found = [Schedule("", tuple(found))]
    if not found or not all(isinstance(one, Schedule) and one.steps for one in found):
        raise CaseError(
            "steps= is no sequence of steps",
            expected="[call(x), call(y)], or schedules from toggled(), sizes(), swaps(), drawn()",
            got=repr(given)[:120],
            remedy="from pytest_rightfast import call",
        )
    return found


def toggled(
    signature: Callable[..., Any],
    build: Callable[..., Steps],
    values: Mapping[str, Sequence[Any]] | None = None,
    fixed: Iterable[str] = (),
    repeat: int = 2,
) -> list[Schedule]:
    """For every option of a signature: record with A, do B, do A again.

    Options are the parameters with a default, so that a new one is covered the day it is written.

    Args:
        signature: a function, or the class of an options dataclass.
        build: `build(**options)` returns the step, or steps, with these options.
        values: other values by option. Not needed for bools, enums and Literals.
        fixed: options that are left alone, on purpose.
        repeat: how often A and B are done in a row: a recorder may wait for the second sight.

    Raises:
        CaseError: an option has no second value, or a name is not an option.
    """
    defaults = _options(signature)
    values, left_alone = values or {}, set(fixed)
    if unknown := (values.keys() | left_alone) - defaults.keys():
        raise CaseError(
            f"{_name(signature)} has no options {sorted(unknown)}",
            expected=sorted(defaults),
            remedy="name options that have a default",
        )
    found = []
    for option, (default, annotation) in defaults.items():
        if option in left_alone:
            continue
        others = list(values[option]) if option in values else _others(default, annotation)
        if not others:
            raise CaseError(
                f"no second value is known for option {option!r} of {_name(signature)}",
                expected=f"values={{{option!r}: [...]}}, or fixed=[{option!r}]",
                got=f"{option}={default!r}",
                remedy="give a second value, or fix the option",
            )
        for other in others:
            first, second = _listed(build()), _listed(build(**{option: other}))
            steps = first * repeat + second * repeat + first
            found.append(Schedule(f"{option}: {default!r}, {other!r}, {default!r}", tuple(steps)))
    return found


def sizes(
    build: Callable[[int], Steps], sizes: Sequence[int], seed: int = 0, length: int = 12
) -> Schedule:
    """Steps at sizes drawn from `sizes`; each size comes before any comes again."""
    generator = random.Random(seed)
    order = generator.sample(list(sizes), len(sizes))
    order += generator.choices(list(sizes), k=max(0, length - len(order)))
    steps = [step for size in order for step in _listed(build(size))]
    return Schedule(f"sizes {order}, seed {seed}", tuple(steps))


def swaps(steps: Steps, target: Any, values: Any = None, repeat: int = 2) -> Schedule:
    """Record, put other memory under the same tensor, and do it again."""
    once = _listed(steps)
    name = target if isinstance(target, str) else "an argument"
    return Schedule(f"memory under {name}", (*once * repeat, swap(target, values), *once))


def drawn(
    alphabet: Sequence[Steps], length: int = 12, count: int = 4, seed: int = 0
) -> list[Schedule]:
    """`count` random schedules of `length` entries of the alphabet; an entry may be several steps.

    A step that needs earlier calls is drawn only after as many.
    """
    found = []
    for number in range(count):
        generator = random.Random(f"{seed}/{number}")
        steps: list[Step] = []
        for _ in range(length):
            calls = sum(step.is_call for step in steps)
            fitting = [e for e in map(_listed, alphabet) if e[0].needs <= calls]
            if not fitting:
                raise CaseError(
                    "every entry of the alphabet needs an earlier call",
                    expected="a plain call(x)",
                    remedy="add a step that needs no earlier one",
                )
            steps += generator.choice(fitting)
        found.append(Schedule(f"drawn {number}, seed {seed}", tuple(steps)))
    return found


def shrink(items: Sequence[T], fails: Callable[[Sequence[T]], bool], tries: int = 200) -> list[T]:
    """A part of `items`, in order, that fails, too, and of which nothing can be left out.

    Halves are left out first, then ever smaller pieces. At most `tries` calls of `fails`.
    """
    least, piece = list(items), max(1, len(items) // 2)
    while tries > 0:
        start, shorter = 0, False
        while start < len(least) and tries > 0:
            rest = least[:start] + least[start + piece :]
            tries -= 1
            if rest and fails(rest):
                least, shorter = rest, True
            else:
                start += piece
        if piece == 1 and not shorter:
            break
        piece = max(1, piece // 2)
    return least


def _options(signature: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Default and annotation of every parameter that has a default."""
    source: Any = signature.__dict__.get("__init__") if isinstance(signature, type) else signature
    try:
        hints = typing.get_type_hints(source)
    except (NameError, TypeError, AttributeError):  # names known to type checkers only
        hints = {}
    parameters = inspect.signature(signature).parameters.values()
    found = {
        p.name: (p.default, hints.get(p.name, p.annotation))
        for p in parameters
        if p.default is not p.empty and p.kind is not p.POSITIONAL_ONLY
    }
    if not found:
        raise CaseError(
            f"{_name(signature)} has no options",
            expected="parameters with defaults",
            got=str(inspect.signature(signature)),
            remedy="write the steps out: steps=[call(...), ...]",
        )
    return found


def _others(default: Any, annotation: Any) -> list[Any]:
    """The other values that a type allows, where it has few."""
    if isinstance(default, bool):
        return [not default]
    if isinstance(default, enum.Enum):
        return [member for member in type(default) if member is not default]
    members = [annotation, *typing.get_args(annotation)]
    literals = [m for m in members if typing.get_origin(m) is Literal]
    found = [value for literal in literals for value in typing.get_args(literal)]
    if bool in members:
        found += [False, True]
    if type(None) in members and found:
        found.append(None)
    return [value for value in found if value != default or type(value) is not type(default)]


def _listed(steps: Steps) -> list[Step]:
    return [steps] if isinstance(steps, Step) else list(steps)


def _name(signature: Callable[..., Any]) -> str:
    return getattr(signature, "__qualname__", repr(signature))
