"""Winners as plain data: exported by one process, used by another."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rightfast.runtime.choice import Choice

SCHEMA = 1
VARIABLE = "RIGHTFAST_PINS"

_pins: dict[tuple[str, str], str] = {}
_read: list[bool] = []  # the environment's file was read


def text(key: Any) -> str:
    """A key as text that is the same in every process.

    Raises:
        TypeError: it has a part whose text is not.
    """
    if isinstance(key, tuple):
        return f"({', '.join(map(text, key))})"
    if key is None or type(key) in (str, int, float, bool):
        return repr(key)
    if type(key).__module__ == "torch" and type(key).__name__ in ("dtype", "device"):
        return str(key)
    raise TypeError(
        f"key= expected strings, numbers, None, dtypes, devices and tuples of these, got "
        f"{type(key).__name__}: {key!r}; hand over what tells the calls apart"
    )


def export(choices: Sequence[Choice], path: str | os.PathLike[str] | None) -> dict[str, Any]:
    """The winners as a dict, and in a file if there is a path."""
    winners = [{"place": c.place, "key": c.key, "winner": c.winner} for c in choices]
    content = {"schema": SCHEMA, "choices": winners}
    if path is not None:
        _write(Path(path), json.dumps(content, indent=1) + "\n")
    return content


def _write(path: Path, words: str) -> None:
    """Whole or not at all, whatever else writes or reads meanwhile."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(words)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def load(source: Mapping[str, Any] | str | os.PathLike[str]) -> dict[tuple[str, str], str]:
    """Add an export's winners to the pins, and return them."""
    found = _parsed(source)
    _pins.update(found)
    return found


def _parsed(source: Mapping[str, Any] | str | os.PathLike[str]) -> dict[tuple[str, str], str]:
    content: Any = source
    if not isinstance(source, Mapping):
        try:
            content = json.loads(Path(source).read_text(encoding="utf-8"))
        except ValueError as error:
            raise _no_export(source, str(error)) from error
    if not isinstance(content, Mapping) or content.get("schema") != SCHEMA:
        raise _no_export(source, f"schema {SCHEMA} expected")
    found = {}
    for row in content.get("choices", ()):
        try:
            words = row["place"], row["key"], row["winner"]
        except (TypeError, KeyError) as error:
            raise _no_export(source, f"a choice is {row!r}") from error
        if not all(isinstance(word, str) for word in words):
            raise _no_export(source, f"a choice is {row!r}")
        found[words[0], words[1]] = words[2]
    return found


def _no_export(source: Any, why: str) -> ValueError:
    name = "a mapping" if isinstance(source, Mapping) else source
    return ValueError(
        f"pin_choices() expected what export_choices() returned or wrote, got {name}: {why}; "
        "export the choices anew"
    )


def winner(place: str, key: str) -> str | None:
    """The pinned winner, if there is one."""
    if not _read:
        _read.append(True)
        if path := os.environ.get(VARIABLE):
            for name, pinned in _parsed(path).items():
                _pins.setdefault(name, pinned)
    return _pins.get((place, key))


def clear() -> None:
    """Drop all pins; the environment's file is read again when the next key is met."""
    _pins.clear()
    _read.clear()
