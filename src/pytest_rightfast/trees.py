"""Nested arguments and results: walk them by path. List and tuple count as the same kind."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any

Path = tuple[object, ...]


def _is_mapping(node: Any) -> bool:
    """A dict that keeps its values; one that works them out when it is read is a leaf."""
    kept = (dict.items, OrderedDict.items)
    return isinstance(node, MappingProxyType) or (
        isinstance(node, dict) and type(node).items in kept
    )


def _is_sequence(node: Any) -> bool:
    return isinstance(node, tuple | list) and type(node).__iter__ in (tuple.__iter__, list.__iter__)


def children(node: Any) -> list[tuple[object, Any]] | None:
    """The (key, child) pairs of a container, or None for a leaf."""
    if _is_mapping(node):
        return list(node.items())
    if _is_sequence(node):
        return list(enumerate(node))
    if is_dataclass(node) and not isinstance(node, type):
        return [(f.name, getattr(node, f.name)) for f in fields(node)]
    return None


def leaves(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """All leaves of `tree` with their paths, in order."""
    below = children(tree)
    if below is None:
        yield path, tree
        return
    for key, child in below:
        yield from leaves(child, (*path, key))


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """`tree` with every leaf replaced by `function(leaf)`; containers keep their types."""
    if _is_mapping(tree):
        return {key: map_leaves(function, child) for key, child in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_leaves(function, child) for child in tree))
    if _is_sequence(tree):
        mapped = [map_leaves(function, child) for child in tree]
        return tuple(mapped) if isinstance(tree, tuple) else mapped
    if is_dataclass(tree) and not isinstance(tree, type):
        values = {f.name: map_leaves(function, getattr(tree, f.name)) for f in fields(tree)}
        return type(tree)(**values)
    return function(tree)


def kind(node: Any) -> str:
    """A word for the structure of one node, equal for structures that may be compared."""
    if _is_mapping(node):
        return f"mapping with keys {sorted(map(str, node))}"
    if _is_sequence(node):
        return f"sequence of {len(node)}"
    if is_dataclass(node) and not isinstance(node, type):
        return f"{type(node).__name__}"
    return "leaf"


def show(path: Path) -> str:
    """`output[1]['ad']`-like text for a path."""
    return "output" + "".join(f"[{key!r}]" for key in path)
