"""Samples of several parts: tuples, named tuples, lists and dicts of them, nested as they like."""

from collections.abc import Iterator
from typing import Any, NamedTuple


class Node(NamedTuple):
    """A container of a sample, without its parts. A part itself is None."""

    kind: type
    keys: tuple[Any, ...] | None  # of a dict
    children: tuple[Any, ...]


def flatten(sample: Any) -> tuple[list[Any], Node | None]:
    """The parts of a sample in order, and what they were in."""
    if type(sample) is dict:
        keys, inside = tuple(sample), list(sample.values())
    elif type(sample) in (list, tuple) or (
        isinstance(sample, tuple) and hasattr(sample, "_fields")
    ):
        keys, inside = None, list(sample)
    else:
        return [sample], None
    pairs = [flatten(child) for child in inside]
    parts = [part for found, _ in pairs for part in found]
    return parts, Node(type(sample), keys, tuple(tree for _, tree in pairs))


def unflatten(parts: list[Any], tree: Node | None) -> Any:
    """The inverse of `flatten`."""
    return parts[0] if tree is None else _build(iter(parts), tree)


def _build(parts: Iterator[Any], tree: Node | None) -> Any:
    if tree is None:
        return next(parts)
    inside = [_build(parts, child) for child in tree.children]
    if tree.keys is not None:
        return dict(zip(tree.keys, inside, strict=True))
    return tree.kind(*inside) if hasattr(tree.kind, "_fields") else tree.kind(inside)
