"""A tape: records what a pass does on the CPU, and does it again on the same memory.

It behaves as a CUDA graph does, so that code that is recorded on a GPU can be tested without one:
what a capture computes is taken back, memory made in the pass belongs to the recording and holds
no values before the first replay, and all other memory is used where it was, whoever owns it now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from rightfast.runtime.backend import NotRecordable, Recording
from rightfast.runtime.watch import Watch, tensors_in, watched

T = TypeVar("T")
_POISON = 0xFF  # NaN as a float, -1 as an integer
_UNWRITTEN = (
    torch.ops.aten.empty.memory_format,
    torch.ops.aten.empty_like.default,
    torch.ops.aten.empty_strided.default,
    torch.ops.aten.new_empty.default,
    torch.ops.aten.new_empty_strided.default,
)


class Tape:
    """The backend for the CPU: for tests and for finding faults, not for speed."""

    device = "cpu"

    def capturing(self) -> bool:
        return watched()

    def settings(self) -> tuple[object, ...]:
        return ()

    def refuses(self, tensors: Sequence[Tensor]) -> str | None:
        foreign = {str(t.device) for t in tensors if not t.is_cpu}
        return f"a tape records work on the CPU, not on {sorted(foreign)[0]}" if foreign else None

    def order(self) -> None:
        """The CPU does one thing after another."""

    def capture(
        self, body: Callable[[], T], known: Sequence[Tensor], fed: Sequence[Tensor]
    ) -> tuple[T, Recording]:
        recorder = _Recorder(known, fed)
        try:
            with recorder.watching():
                result = body()
            recorder.check_fed()
        finally:
            recorder.take_back()
        recorder.poison()
        return result, _Tape(recorder.entries)


@dataclass(frozen=True)
class _Elsewhere:
    """A tensor in memory that the tape does not own: found again, if it is still there."""

    storage: StorageWeakRef
    like: Tensor  # on no memory: dtype, shape and strides
    offset: int
    negative: bool
    conjugate: bool

    @staticmethod
    def of(tensor: Tensor) -> _Elsewhere:
        like = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        storage = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        return _Elsewhere(
            storage, like, int(tensor.storage_offset()), tensor.is_neg(), tensor.is_conj()
        )

    def tensor(self) -> Tensor:
        storage = torch.UntypedStorage._new_with_weak_ptr(self.storage.cdata)
        if storage is None:
            raise RuntimeError(
                "a replay uses memory that was freed; expected the caller of capture() to keep "
                "alive all known and fed tensors"
            )
        found = torch.empty(0, dtype=self.like.dtype, device="cpu")
        found.set_(storage, self.offset, self.like.shape, self.like.stride())
        found = found.conj() if self.conjugate else found
        return torch._neg_view(found) if self.negative else found


@dataclass(frozen=True)
class _Entry:
    """One call, and where what it made is kept."""

    function: Callable[..., Any]
    args: Any
    kwargs: Any
    made: list[Tensor | None]


class _Recorder(Watch):  # type: ignore[no-untyped-call]
    def __init__(self, known: Sequence[Tensor], fed: Sequence[Tensor]) -> None:
        super().__init__("cpu", known, fed)
        self.entries: list[_Entry] = []
        self._before: dict[int, tuple[Tensor, Tensor]] = {}
        self._drawn = {torch.default_generator: torch.get_rng_state()}

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = list(tensors_in([args, kwargs]))
        for tensor in given:
            self._save(tensor)
        generator = kwargs.get("generator")
        if generator is not None and generator not in self._drawn:
            self._drawn[generator] = generator.get_state()
        output = func(*args, **kwargs)
        places = {t.untyped_storage()._cdata for t in given}
        returned = list(tensors_in(output))
        made = [None if t.untyped_storage()._cdata in places else t for t in returned]
        changes = getattr(getattr(func, "_schema", None), "is_mutable", True)
        works = changes or any(t is not None for t in made)
        if works and not any(func is one for one in _UNWRITTEN):
            self.entries.append(_Entry(func, self._placed(args), self._placed(kwargs), made))
        return output

    def check_fed(self) -> None:
        """What is called past the dispatcher may have written to it."""
        for place in self._fed.keys() & self._before.keys():
            if not torch.equal(*self._before[place]):
                raise NotRecordable("writes", "the pass writes to a tensor that is fed; bind it")

    def take_back(self) -> None:
        """Give all memory, and all generators, what they had before the pass."""
        for whole, values in self._before.values():
            whole.copy_(values)
        for generator, state in self._drawn.items():
            generator.set_state(state)

    def poison(self) -> None:
        """What the pass made holds nothing before the first replay."""
        for tensor in self._made.values():
            _bytes(tensor).fill_(_POISON)

    def _save(self, tensor: Tensor) -> None:
        place = tensor.untyped_storage()._cdata
        if self.is_external(tensor) and place not in self._before:
            whole = _bytes(tensor)
            self._before[place] = whole, whole.clone()

    def _placed(self, tree: Any) -> Any:
        if isinstance(tree, Tensor):
            return _Elsewhere.of(tree) if self.is_external(tree) else tree
        if isinstance(tree, (tuple, list)):
            return type(tree)(self._placed(part) for part in tree)
        if isinstance(tree, dict):
            return {name: self._placed(part) for name, part in tree.items()}
        return tree


def _bytes(tensor: Tensor) -> Tensor:
    """All of the memory that it lies in."""
    return torch.empty(0, dtype=torch.uint8, device="cpu").set_(tensor.untyped_storage())


class _Tape:
    """The calls in order."""

    def __init__(self, entries: list[_Entry]) -> None:
        self._entries = entries

    def replay(self) -> None:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            for entry in self._entries:
                output = entry.function(*_found(entry.args), **_found(entry.kwargs))
                for kept, new in zip(entry.made, tensors_in(output), strict=True):
                    if kept is not None:
                        kept.copy_(new)


def _found(tree: Any) -> Any:
    if isinstance(tree, _Elsewhere):
        return tree.tensor()
    if isinstance(tree, (tuple, list)):
        return type(tree)(_found(part) for part in tree)
    if isinstance(tree, dict):
        return {name: _found(part) for name, part in tree.items()}
    return tree
