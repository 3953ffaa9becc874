"""Scratch memory by name: one storage each, cut anew for each shape, at an address that stays.

Recorded work has its addresses baked in. So a storage that has to move, because it is too small,
takes the recordings with it, and one that is far too large is let go only while there are none.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from rightfast.runtime.backend import NotRecordable
from rightfast.runtime.watch import watched

_TOO_LARGE = 4


class Dependent(Protocol):
    """What has addresses of buffers baked in."""

    def __len__(self) -> int:
        """How many recordings it keeps."""

    def clear(self) -> None:
        """Drop them."""


@dataclass(frozen=True)
class Cut:
    """One shape of a storage."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    tensor: Tensor

    def is_like(self, other: Cut) -> bool:
        return self.shape == other.shape and self.dtype == other.dtype


@dataclass
class _Held:
    storage: Tensor  # bytes
    cut: Cut


class Buffers:
    """Named buffers whose storage is kept from call to call.

        buffers = Buffers()
        hidden = buffers.get("hidden", (rows, batch), torch.float32, x.device)

    A buffer has zeros when it is made and whenever its shape or dtype is another than that of the
    call before; else it has what was left in it. A storage moves only when it is too small, when
    it is asked for on another device, or when it is more than four times too large and nothing is
    recorded. While somebody else captures work, a buffer is memory of its own, with zeros: his
    recording may outlive this storage.

    Args:
        zeroed: False if every buffer is always overwritten as a whole.
    """

    def __init__(self, zeroed: bool = True) -> None:
        self.zeroed = zeroed
        self._empty()

    def _empty(self) -> None:
        self._held: dict[str, _Held] = {}
        self._dependents: weakref.WeakSet[Any] = weakref.WeakSet()
        self._memory: set[torch.UntypedStorage] = set()
        self._asked: set[str] | None = None
        self._captured = False

    def get(
        self,
        name: str,
        shape: Sequence[int],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Tensor:
        """The buffer of this name, contiguous, in this shape.

        Raises:
            ValueError: a size is negative.
        """
        shape, place = (
            tuple(shape),
            device if type(device) is torch.device else torch.device(device),
        )
        if place.type == "cuda" and str(place) == "cuda":
            place = torch.device("cuda", torch.cuda.current_device())
        if not self._captured and _captured_elsewhere(place):
            return torch.zeros(shape, dtype=dtype, device=place)
        held = self._held.get(name)
        if held is None or held.storage.device != place:
            held = self._move(name, shape, dtype, place)
        elif held.cut.shape != shape or held.cut.dtype != dtype:
            held = self._fit(name, held, shape, dtype)
        if self._asked is not None:
            self._asked.add(name)
        # A view, so that autograd, where it is on, does not make the buffer part of its graph.
        return held.cut.tensor.detach() if torch.is_grad_enabled() else held.cut.tensor

    def clear(self) -> None:
        """Let all storages go, and drop what was recorded on them."""
        self._drop()
        for held in self._held.values():
            _in_use(held.storage)
        self._held.clear()
        self._memory.clear()

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(held.storage.nbytes for held in self._held.values())

    def addresses(self) -> dict[str, int]:
        """The address of each storage, by name."""
        return {name: held.storage.data_ptr() for name, held in self._held.items()}

    def storages(self) -> list[Tensor]:
        """All storages, as bytes."""
        return [held.storage for held in self._held.values()]

    def holds(self, tensor: Tensor) -> bool:
        """Whether a tensor lies in one of the storages."""
        return tensor.untyped_storage() in self._memory

    def attach(self, dependent: Dependent) -> None:
        """From now on its recordings are dropped when a storage has to move."""
        self._dependents.add(dependent)

    def cuts(self) -> dict[str, Cut]:
        """How each storage is cut now."""
        return {name: held.cut for name, held in self._held.items()}

    def recut(self, cuts: Mapping[str, Cut]) -> None:
        """Cut again as a recording had it: zeros where the shape is another one by now."""
        for name, cut in cuts.items():
            held = self._held[name]
            if not held.cut.is_like(cut):
                held.cut = cut
                self._clean(cut)

    def begin(self, captured: bool = False) -> tuple[set[str] | None, bool]:
        """A pass begins; returns what `end` needs.

        Args:
            captured: it is captured with these buffers, so none may move.
        """
        before = self._asked, self._captured
        self._asked, self._captured = set(), captured
        return before

    def end(self, before: tuple[set[str] | None, bool]) -> set[str]:
        """The pass ends; returns the names of the buffers that it asked for."""
        asked, (self._asked, self._captured) = self._asked or set(), before
        return asked

    def _fit(self, name: str, held: _Held, shape: tuple[int, ...], dtype: torch.dtype) -> _Held:
        need, have = _bytes(name, shape, dtype), held.storage.nbytes
        # A pass that cuts one storage twice needs the larger size again the next time.
        again = self._captured or (self._asked is not None and name in self._asked)
        kept = again or any(map(len, self._dependents))
        wasteful = 0 < need * _TOO_LARGE < have and not kept
        if need > have or wasteful:
            return self._move(name, shape, dtype, held.storage.device)
        held.cut = _cut(held.storage, shape, dtype)
        self._clean(held.cut)
        return held

    def _move(
        self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
    ) -> _Held:
        nbytes = _bytes(name, shape, dtype)
        if self._captured:
            raise NotRecordable(
                "buffers", f"the pass asks for a larger buffer {name!r} when it is run again"
            )
        if name in self._held:  # let go first, so that both are never held at once
            self._drop()
            old = self._held.pop(name).storage
            self._memory.discard(old.untyped_storage())
            _in_use(old)
        with torch.inference_mode(False):
            storage = torch.empty(nbytes, dtype=torch.uint8, device=device)
        self._memory.add(storage.untyped_storage())
        held = self._held[name] = _Held(storage, _cut(storage, shape, dtype))
        self._clean(held.cut)
        return held

    def _clean(self, cut: Cut) -> None:
        if self.zeroed:
            cut.tensor.zero_()

    def _drop(self) -> None:
        for dependent in self._dependents:
            dependent.clear()

    def __getstate__(self) -> dict[str, Any]:
        """A copy starts empty."""
        return {"zeroed": self.zeroed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.zeroed = state["zeroed"]
        self._empty()


def _cut(storage: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Cut:
    with torch.inference_mode(False):
        flat = storage[: math.prod(shape) * dtype.itemsize].view(dtype)
        return Cut(shape, dtype, flat.view(shape))


def _bytes(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> int:
    if any(n < 0 for n in shape):
        raise ValueError(f"expected sizes of 0 or more for buffer {name!r}, got {shape}")
    return math.prod(shape) * dtype.itemsize


def _in_use(storage: Tensor) -> None:
    """Work on this stream may not be done with it yet, which matters if it is from another one."""
    if storage.is_cuda:
        storage.record_stream(torch.cuda.current_stream(storage.device))


def _captured_elsewhere(place: torch.device) -> bool:
    return watched() or (place.type == "cuda" and torch.cuda.is_current_stream_capturing())
