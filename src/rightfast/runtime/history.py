"""When to record: what was seen before, what was refused, and what keeps changing."""

from __future__ import annotations

from typing import Any

from rightfast.runtime.backend import NotRecordable
from rightfast.runtime.keys import Key, Sight, differences

_LAYOUTS = 1024  # no tensors are kept here, only numbers and names
MOST_RECORDINGS = 8


class History:
    """Remembers calls by numbers, never by what they were given.

    Args:
        record: True records at first sight, None at second sight.
    """

    def __init__(self, record: bool | None) -> None:
        self._record = record
        self._seen: dict[Any, None] = {}
        self._refused: dict[Any, None] = {}
        self._recorded: dict[Any, list[Sight]] = {}

    def refused(self, key: Key) -> bool:
        """Whether such a call, wherever its memory is, could not be recorded before."""
        return key.sight[:3] in self._refused

    def wants(self, key: Key) -> bool:
        """Whether this call is to be recorded now.

        Raises:
            NotRecordable: this layout was recorded too often.
        """
        sight = key.sight
        if self._record is None and sight not in self._seen:
            _remember(self._seen, sight, None)
            return False
        recorded = self._recorded.get(sight.layout, [])
        if len(recorded) < MOST_RECORDINGS:
            return True
        changing = differences([*recorded, sight]) or "nothing (they were dropped each time)"
        raise NotRecordable(
            "changing",
            f"one layout was recorded {len(recorded)} times, and no more will be: what keeps "
            f"changing is {changing}",
        )

    def recorded(self, key: Key) -> None:
        """This call was recorded."""
        sight = key.sight
        if sight.layout not in self._recorded:
            _remember(self._recorded, sight.layout, [])
        self._recorded[sight.layout].append(sight)

    def refuse(self, key: Key) -> None:
        """This call could not be recorded; it is not tried again."""
        _remember(self._refused, key.sight[:3], None)
        self.recorded(key)


def _remember(where: dict[Any, Any], what: Any, value: Any) -> None:
    if len(where) >= _LAYOUTS:
        del where[next(iter(where))]
    where[what] = value
