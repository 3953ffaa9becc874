"""The recordings that are kept: found by their key, the least recently replayed dropped first."""

from __future__ import annotations

import itertools
from typing import Any

from rightfast.runtime.keys import Key
from rightfast.runtime.recorded import Recorded


class Kept:
    """At most so many recordings, by key.

    Looking up is on the way of every replay: only what tells most recordings apart is hashed, the
    rest is compared.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_near: dict[Any, list[tuple[Any, Recorded]]] = {}
        self._count = itertools.count(1)
        self._number = 0

    def find(self, key: Key) -> Recorded | None:
        """The recording of this very call, which is then the most recent one."""
        near, rest = key
        for other, found in self._by_near.get(near, ()):
            if other == rest:
                found.used = next(self._count)
                return found
        return None

    def keep(self, key: Key, made: Recorded) -> None:
        """Keep another one."""
        if self._number >= self._most:
            self._drop_one()
        made.used = next(self._count)
        self._by_near.setdefault(key.near, []).append((key.rest, made))
        self._number += 1

    def clear(self) -> None:
        """Drop all."""
        self._by_near.clear()
        self._number = 0

    def __len__(self) -> int:
        return self._number

    def _drop_one(self) -> None:
        entries = [(one.used, near) for near, some in self._by_near.items() for _, one in some]
        used, near = min(entries, key=lambda entry: entry[0])
        rest = [entry for entry in self._by_near[near] if entry[1].used != used]
        if rest:
            self._by_near[near] = rest
        else:
            del self._by_near[near]
        self._number -= 1
