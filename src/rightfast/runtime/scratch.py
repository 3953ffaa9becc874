"""Copies of a call's tensors that candidates may write to, put back before every run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

ALIGNMENT = 512  # bytes; the CUDA allocator's, and more than any specialisation asks for


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with every leaf replaced; lists, tuples and dicts are no leaves."""
    if isinstance(tree, Mapping):
        return {name: mapped(function, value) for name, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(mapped(function, value) for value in tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(mapped(function, value) for value in tree)
    return function(tree)


def leaves(tree: Any) -> Iterator[Any]:
    """What is no list, tuple or dict, in order."""
    if isinstance(tree, Mapping):
        for value in tree.values():
            yield from leaves(value)
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from leaves(value)
    else:
        yield tree


def tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in leaves(tree) if isinstance(leaf, torch.Tensor)]


class Scratch:
    """The arguments of one call with the tensors that may be written replaced by copies.

    Copies keep shape, strides, alignment and what shares memory with what: each stretch of memory
    is copied once.

    Args:
        writes: positions and names of the arguments that may be written; None: any of them.

    Raises:
        ValueError: there is no argument of such a position or name.
    """

    def __init__(
        self,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        writes: Sequence[int | str] | None,
    ) -> None:
        self.declared = writes is not None
        places = [*range(len(arguments)), *keywords] if writes is None else list(writes)
        given: dict[int | str, Any] = dict(enumerate(arguments))
        given.update(keywords)
        if wrong := [place for place in places if place not in given]:
            raise ValueError(
                f"writes= expected positions or names among {list(given)}, got {wrong}; name the "
                "arguments that a candidate changes"
            )
        memory = _Memory(tensors([given[place] for place in places]))
        # What shares memory with a tensor that is written sees what is written.
        shared = [place for place in given if place not in places and memory.has(given[place])]
        memory.add(tensors([given[place] for place in shared]))
        found = dict(given)
        for place in [*places, *shared]:
            found[place] = mapped(memory.copy_of, given[place])
        self.pairs = memory.pairs
        self.written = tensors([found[place] for place in places])
        self.arguments = [found[place] for place in range(len(arguments))]
        self.keywords = {name: found[name] for name in keywords}

    def reset(self, poison: bool = False) -> None:
        """Put the original values back; with `poison`, NaN into what was declared as written."""
        for original, copy in self.pairs:
            copy.copy_(original)
        if poison:
            for tensor in self.written:
                if tensor.is_floating_point():
                    tensor.fill_(float("nan"))


class _Memory:
    """The stretches of memory below some tensors, and their copies."""

    def __init__(self, found: list[torch.Tensor]) -> None:
        self.pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.spans: dict[Any, tuple[int, int]] = {}
        self.copies: dict[Any, torch.Tensor] = {}
        self.add(found)

    def has(self, tree: Any) -> bool:
        """Whether any of some tensors views memory that is known here."""
        return any(_plain(one) and _where(one)[0] in self.spans for one in tensors(tree))

    def add(self, found: list[torch.Tensor]) -> None:
        """Take note of what some tensors view, before anything is copied."""
        for tensor in found:
            if _plain(tensor):
                place, first, last = _where(tensor)
                low, high = self.spans.get(place, (first, last))
                self.spans[place] = min(low, first), max(high, last)

    def copy_of(self, leaf: Any) -> Any:
        """The same view of the copy; anything but a tensor stays what it is."""
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if not _plain(leaf):
            copy = leaf.detach().clone()
            self.pairs.append((leaf.detach(), copy))
            return copy
        place, first, _ = _where(leaf)
        low, high = self.spans[place]
        low -= low % ALIGNMENT
        if place not in self.copies:
            storage = leaf.untyped_storage()
            original = torch.empty(0, dtype=torch.uint8, device=leaf.device)
            original.set_(storage, low, (high - low,), (1,))
            self.copies[place] = original.clone()
            self.pairs.append((original, self.copies[place]))
        below = self.copies[place].untyped_storage()
        view = torch.empty(0, dtype=leaf.dtype, device=leaf.device)
        start = (first - low) // leaf.element_size()
        view.set_(below, start, leaf.size(), leaf.stride())
        return view


def _plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a view of memory and nothing else."""
    known = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    strided = tensor.layout is torch.strided and not tensor.is_quantized
    lazy = tensor.is_neg() or tensor.is_conj() or tensor.device.type == "meta"
    return known and strided and not lazy


def _where(tensor: torch.Tensor) -> tuple[Any, int, int]:
    """Which memory a tensor views, and its first and last byte there."""
    size = tensor.element_size()
    first = int(tensor.storage_offset()) * size
    steps = zip(tensor.size(), tensor.stride(), strict=True)
    reach = sum((int(n) - 1) * int(stride) for n, stride in steps)
    last = first + (reach + 1) * size if tensor.numel() else first
    return (tensor.device, tensor.untyped_storage().data_ptr()), first, last
