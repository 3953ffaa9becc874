"""What a pass leaves on its object for the next one: declared, saved and brought back.

A replay runs no Python, so whatever the pass set must be set for it; and what the pass sets without
having declared it would be missing after a replay.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from rightfast.runtime.backend import NotRecordable
from rightfast.runtime.keys import is_frozen

_ABSENT = object()
_FIXED = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)


def save(owner: Any, names: Sequence[str]) -> dict[str, Any]:
    """The declared attributes, their lists and dicts copied.

    Raises:
        NotRecordable: one holds what can change unseen.
    """
    return {name: _copied(getattr(owner, name, _ABSENT), name) for name in names}


def bring_back(owner: Any, saved: dict[str, Any]) -> None:
    """Set them as they were saved; the lists and dicts are copies again."""
    restore(owner, {name: _copied(value, name) for name, value in saved.items()})


def restore(owner: Any, saved: dict[str, Any]) -> None:
    """Set these very values."""
    for name, value in saved.items():
        if value is not _ABSENT:
            setattr(owner, name, value)
        elif hasattr(owner, name):
            delattr(owner, name)


def tensors_of(value: Any) -> Iterator[Tensor]:
    """The tensors in saved state."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors_of(part)
    elif isinstance(value, dict):
        yield from tensors_of(list(value.values()))


class Undone:
    """While the pass runs again to be captured: what it sets on its object is taken back after.

    Raises `NotRecordable` on leaving if it set an attribute that is not declared.
    """

    def __init__(self, owner: Any, names: Sequence[str]) -> None:
        self._owner, self._names = owner, names
        self._cls: Any = type(owner)
        self._before: dict[str, Any] = {}

    def __enter__(self) -> Undone:
        if self._owner is None:
            return self
        self._declared = save(self._owner, self._names)
        cls, before, thread = self._cls, self._before, threading.get_ident()

        def noted(owner: Any, name: str, value: Any) -> None:
            if threading.get_ident() == thread:
                before.setdefault(name, getattr(owner, name, _ABSENT))
            cls.__setattr__(owner, name, value)

        watched = type(cls.__name__, (cls,), {"__setattr__": noted, "__slots__": ()})
        object.__setattr__(self._owner, "__class__", watched)
        return self

    def left(self) -> dict[str, Any]:
        """The declared state that the pass has set or changed, as it is now."""
        if self._owner is None:
            return {}
        now = save(self._owner, self._names)
        return {name: value for name, value in now.items() if self._touched(name, value)}

    def _touched(self, name: str, value: Any) -> bool:
        return name in self._before or not _same(self._declared[name], value)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._owner is None:
            return
        object.__setattr__(self._owner, "__class__", self._cls)
        changed = {
            name: value
            for name, value in self._declared.items()
            if self._touched(name, getattr(self._owner, name, _ABSENT))
        }
        restore(self._owner, {**self._before, **changed})
        unknown = sorted(self._before.keys() - set(self._names))
        if unknown and kind is None:
            raise NotRecordable(
                "state",
                f"the pass sets {unknown} on its object, which no replay would do; declare them: "
                f"state={(*self._names, *unknown)}",
            )


def _same(one: Any, other: Any) -> bool:
    """Whether two saved values are the same objects, lists and dicts by what they hold."""
    if type(one) is not type(other) or type(one) not in (list, tuple, dict):
        return one is other
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return len(one) == len(other) and all(map(_same, one, other))


def _copied(value: Any, name: str) -> Any:
    if value is _ABSENT or isinstance(value, (Tensor, enum.Enum, *_FIXED)):
        return value
    if type(value) in (list, tuple):
        return type(value)(_copied(part, name) for part in value)
    if type(value) is dict:
        return {key: _copied(part, name) for key, part in value.items()}
    if is_frozen(type(value)):
        return value
    raise NotRecordable(
        "state",
        f"state {name!r} holds a {type(value).__name__}; expected tensors, numbers, strings, "
        "frozen dataclasses, or lists, tuples or dicts of these",
    )
