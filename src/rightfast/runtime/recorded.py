"""One recorded pass: everything that it baked in, and how it is run again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from rightfast.runtime import state
from rightfast.runtime.backend import Backend, Recording
from rightfast.runtime.buffers import Buffers, Cut
from rightfast.runtime.keys import flippable

Tensors = Mapping[str, Tensor]


@dataclass
class Recorded:
    """A recording, and what its memory is used for.

    Attributes:
        statics: where each fed tensor is copied to, in order.
        cuts: how the buffers that the pass uses were cut.
        leaves, spec: what the pass returned, flattened; no spec for a single tensor.
        names: for a leaf that is a bound tensor, its name.
        shared: places of the leaves that lie in bound memory: as views of it they are right.
        state: the declared state that the pass left.
        flippable: see `keys.flippable`, of the bound tensors.
        used: when it was replayed last, as a count.
    """

    recording: Recording
    statics: list[Tensor]
    cuts: dict[str, Cut]
    leaves: list[Any]
    spec: Any
    names: dict[int, str]
    shared: set[int]
    state: dict[str, Any]
    flippable: tuple[int, ...]
    used: int = 0

    def hand_over(self, owner: Any) -> None:
        """Give the state that the real run left the places that it has after every replay.

        Else the pass that reads it would be recorded on memory that never comes again.
        """
        for name, static in self.state.items():
            places, spec = pytree.tree_flatten(static)
            left, other = pytree.tree_flatten(getattr(owner, name, None))
            if spec != other or not all(map(_alike, places, left)):
                return
            for place, value in zip(places, left, strict=True):
                if isinstance(place, Tensor) and place.data_ptr() != value.data_ptr():
                    place.copy_(value)
        state.bring_back(owner, self.state)

    def replay(self, owner: Any, fed: Tensors, bound: Tensors, buffers: Buffers | None) -> Any:
        """Do the work of the pass with what is fed now, and return results of their own."""
        for static, value in zip(self.statics, fed.values()):
            static.copy_(value)
        if buffers is not None:
            buffers.recut(self.cuts)
        self.recording.replay()
        if self.state:
            state.bring_back(owner, self.state)
        results = []
        for place, leaf in enumerate(self.leaves):
            if place in self.names:
                results.append(bound[self.names[place]])
            elif place in self.shared:
                results.append(leaf.detach())
            else:  # the next replay overwrites what is not copied
                results.append(leaf.clone() if isinstance(leaf, Tensor) else leaf)
        return results[0] if self.spec is None else pytree.tree_unflatten(results, self.spec)


def record(
    backend: Backend,
    run: Callable[[dict[str, Tensor]], Any],
    owner: Any,
    names: Sequence[str],
    fed: Tensors,
    bound: Tensors,
    statics: list[Tensor],
    buffers: Buffers | None,
) -> Recorded:
    """Capture the pass on its bound tensors and on the static places of the fed ones.

    Raises:
        NotRecordable: it does what no replay would do.
    """
    for static, value in zip(statics, fed.values()):
        static.copy_(value)
    arguments = {**dict(zip(fed, statics)), **bound}
    buffers = Buffers() if buffers is None else buffers
    cuts = buffers.cuts()
    before, asked = buffers.begin(captured=True), set[str]()
    try:
        with state.Undone(owner, names) as undone:
            result, recording = backend.capture(
                lambda: run(arguments), [*bound.values(), *buffers.storages()], statics
            )
            left = undone.left()
    finally:
        asked = buffers.end(before)
    leaves, spec = pytree.tree_flatten(result)
    own = {id(tensor): name for name, tensor in bound.items()}
    places = {_place(tensor) for tensor in bound.values()}
    named = {i: own[id(leaf)] for i, leaf in enumerate(leaves) if id(leaf) in own}
    shared = {i for i, leaf in enumerate(leaves) if _is_in(leaf, places)}
    return Recorded(
        recording,
        statics,
        {name: cuts[name] for name in asked},
        leaves,
        None if type(result) is Tensor else spec,
        named,
        shared,
        left,
        flippable(list(bound.values())),
    )


def static_place(buffers: Buffers, name: str, like: Tensor) -> Tensor:
    """Memory for a fed tensor, strides as its own if these leave no gap, else contiguous."""
    flat = buffers.get(name, (like.numel(),), like.dtype, like.device).detach()
    dense = torch.empty_like(like, device="meta").stride()
    return flat.as_strided(like.shape, dense)


def apart(result: Any, buffers: Buffers) -> Any:
    """The result of an eager pass, with copies of what lies in buffers."""
    if type(result) is Tensor:  # most are, and a tree takes its time
        return result.clone() if buffers.holds(result) else result
    return pytree.tree_map_only(
        Tensor, lambda leaf: leaf.clone() if buffers.holds(leaf) else leaf, result
    )


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and one.shape == other.shape and one.dtype == other.dtype
    return bool(one == other)


def _place(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _is_in(leaf: Any, places: set[int]) -> bool:
    return isinstance(leaf, Tensor) and _place(leaf) in places
