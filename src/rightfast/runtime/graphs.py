"""Recording a pass and replaying it, so that it cannot replay the wrong thing."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from rightfast.runtime import recorded as recordings
from rightfast.runtime.backend import Backend, NotRecordable, NotRecorded
from rightfast.runtime.buffers import Buffers
from rightfast.runtime.cuda import CudaGraphs
from rightfast.runtime.history import History
from rightfast.runtime.kept import Kept
from rightfast.runtime.keys import Key, fields_of, flipped, key_of
from rightfast.runtime.recorded import Tensors

_wants_gradient = attrgetter("requires_grad")
_PLAIN = frozenset((Tensor, torch.nn.Parameter))
_NONE: Mapping[str, Tensor] = {}
MOST_KEPT = 128


class Graphs:
    """Records a pass, `function(options, **tensors)`, and replays it where nothing has changed.

        self.forward_graphs = Graphs(self._forward, record=True, buffers=self.buffers)
        y = self.forward_graphs(options, fed={"x": x}, bound={"weight": self.weight})

    A pass may depend on its arguments and on nothing else. What it is found by is made of the very
    options that it receives, and of the address, storage, shape, strides and dtype of every bound
    tensor. The result is the caller's own: no later call changes it.

    A call that cannot be recorded runs eagerly, with the right answer, and says why once
    (`NotRecorded`): on the wrong device, within a capture or autograd or a transform, if an option
    is callable or can change unseen, if the pass reads a value on the host, uses a tensor that is
    not declared, writes to a fed one, or sets an attribute that is not declared.

    Args:
        function: the pass; returns tensors, in nested tuples, lists or dicts if it likes. If it is
            a method, `Graphs` does not keep its object alive.
        record: False never, None at second sight of the same call, True at first sight.
        buffers: where the pass gets its scratch memory; other memory of its own is captured too.
        state: attributes of the method's object that the pass sets, for other passes to read.
        backend: by default `CudaGraphs()`; `Tape()` records on the CPU.
        most: recordings kept; the one that was replayed least recently goes first.

    Attributes:
        recordings, replays: how many there were.

    Raises:
        TypeError: state without a method.
        ValueError: `most` is less than 1.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        record: bool | None = False,
        buffers: Buffers | None = None,
        state: Sequence[str] = (),
        backend: Backend | None = None,
        most: int = MOST_KEPT,
    ) -> None:
        if isinstance(state, str) or (state and not hasattr(function, "__self__")):
            raise TypeError(
                f"expected as state names of attributes of a method's object, got {state!r} for "
                f"{function!r}; give a bound method, and a tuple of names"
            )
        if most < 1:
            raise ValueError(f"expected most=1 or more, got {most}; record=False keeps none")
        self.record, self.buffers, self.state, self.most = record, buffers, tuple(state), most
        self.backend: Backend = CudaGraphs() if backend is None else backend
        self._take(function)

    def _take(self, function: Callable[..., Any]) -> None:
        self._method: Callable[[], Callable[..., Any] | None]
        if hasattr(function, "__self__"):
            self._method = weakref.WeakMethod(function)
        else:
            self._method = lambda: function
        self.recordings = self.replays = 0
        self._kept = Kept(self.most)
        self._history = History(self.record)
        self._statics = Buffers(zeroed=False)
        self._said: set[str] = set()
        self._lock = threading.RLock()
        for buffers in (self.buffers, self._statics):
            if buffers is not None:
                buffers.attach(self)

    def __call__(
        self,
        options: Any,
        *,
        fed: Mapping[str, Tensor | None] = _NONE,
        bound: Mapping[str, Tensor | None] = _NONE,
    ) -> Any:
        """Run the pass.

        Args:
            options: a frozen dataclass of numbers, strings, enums, tuples.
            fed: tensors that are other ones at every call; a replay copies them into place.
            bound: tensors that a recording uses where they are, to read or to write. A call with
                another one, or with other memory under the same one, is another call.
                None stands for a tensor that is not given, in both.

        Raises:
            TypeError: the options are no frozen dataclass, or what is given is no tensor.
            And whatever the pass raises.
        """
        if self.record is False or torch.compiler.is_compiling():
            return self._eager(options, fed, bound)
        with self._lock:
            try:
                given, own = _plain(fed), _plain(bound)
                self._check(given, own)
                key = key_of(options, given, own, self.backend)
                if not set(map(Tensor.untyped_storage, given.values())).isdisjoint(key.rest[2]):
                    raise NotRecordable("shared", "a fed and a bound tensor share their memory")
                found = self._kept.find(key)
                if found is None:
                    return self._miss(key, options, (fed, bound), given, own)
                if found.flippable and flipped(list(own.values()), found.flippable):
                    raise NotRecordable("flipped", "a bound tensor is negated or conjugated")
            except NotRecordable as why:
                self._warn(why)
                return self._eager(options, fed, bound)
            self.backend.order()
            self.replays += 1
            owner = self._owner() if found.state else None
            return found.replay(owner, given, own, self.buffers)

    def __len__(self) -> int:
        """How many recordings are kept."""
        return len(self._kept)

    def clear(self) -> None:
        """Drop all recordings."""
        self._kept.clear()

    def _miss(self, key: Key, options: Any, asked: Any, given: Tensors, own: Tensors) -> Any:
        """The pass runs once, for real; then, if it is time, once more to be captured."""
        if why := self.backend.refuses([*given.values(), *own.values()]):
            raise NotRecordable("device", why)
        if flipped(list(own.values()), range(len(own))):
            raise NotRecordable("flipped", "a bound tensor is negated or conjugated")
        if self._history.refused(key):
            return self._eager(options, *asked)
        wanted = self._history.wants(key)
        self.backend.order()
        statics = [recordings.static_place(self._statics, n, t) for n, t in given.items()]
        result = self._eager(options, *asked)
        if wanted:
            self._record(key, options, asked, given, own, statics)
        return result

    def _record(
        self,
        key: Key,
        options: Any,
        asked: Any,
        given: Tensors,
        own: Tensors,
        statics: list[Tensor],
    ) -> None:
        absent = {name: None for part in asked for name, value in part.items() if value is None}
        function = self._function()
        try:
            found = recordings.record(
                self.backend,
                lambda tensors: function(options, **absent, **tensors),
                self._owner(),
                self.state,
                given,
                own,
                statics,
                self.buffers,
            )
        except Exception as error:  # the pass itself has just run without one
            self._history.refuse(key)
            if not isinstance(error, NotRecordable):
                error = NotRecordable("capture", repr(error))
            self._warn(error)
            return
        self._history.recorded(key)
        self.recordings += 1
        self._kept.keep(key, found)
        found.hand_over(self._owner())

    def _eager(
        self, options: Any, fed: Mapping[str, Tensor | None], bound: Mapping[str, Tensor | None]
    ) -> Any:
        fields_of(options)
        tensors = {**fed, **bound}
        if len(tensors) != len(fed) + len(bound):
            twice = sorted(fed.keys() & bound.keys())
            raise TypeError(f"expected each tensor once, got {twice} as fed and as bound")
        if self.buffers is None:
            return self._function()(options, **tensors)
        before = self.buffers.begin()
        try:
            result = self._function()(options, **tensors)
        finally:
            self.buffers.end(before)
        return recordings.apart(result, self.buffers)

    def _check(self, given: Tensors, own: Tensors) -> None:
        """Raises NotRecordable where nothing may be recorded, nor replayed."""
        if self.backend.capturing():
            raise NotRecordable("capturing", "the caller captures work of his own")
        if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
            raise NotRecordable("transform", "a transform of torch.func is active")
        if torch.is_grad_enabled() and any(map(_wants_gradient, (*given.values(), *own.values()))):
            raise NotRecordable(
                "autograd",
                "a tensor requires a gradient, which no replay would have; use no_grad()",
            )

    def _warn(self, why: NotRecordable) -> None:
        if why.kind not in self._said:
            self._said.add(why.kind)
            text = f"{self._method()!r} is not recorded and runs eagerly: {why}"
            warnings.warn(text, NotRecorded, stacklevel=4)

    def _function(self) -> Callable[..., Any]:
        function = self._method()
        if function is None:
            raise ReferenceError("the object whose method was to be recorded is gone")
        return function

    def _owner(self) -> Any:
        return getattr(self._function(), "__self__", None)

    def __getstate__(self) -> dict[str, Any]:
        """A copy has recorded nothing."""
        names = ("record", "buffers", "state", "most", "backend")
        return {**{name: getattr(self, name) for name in names}, "function": self._function()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        function = state.pop("function")
        self.__dict__.update(state)
        self._take(function)


def _plain(tensors: Mapping[str, Tensor | None]) -> Mapping[str, Tensor]:
    """Those that are given.

    Raises:
        TypeError: one is no tensor.
        NotRecordable: one is of a subclass, whose operators are its own.
    """
    if _PLAIN.issuperset(map(type, tensors.values())):
        return tensors  # type: ignore[return-value]
    found = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    if not _PLAIN.issuperset(map(type, found.values())):
        for name, tensor in found.items():
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    f"expected a tensor as {name!r}, got {type(tensor).__name__}; numbers and "
                    "strings are options"
                )
        raise NotRecordable("subclass", "a tensor is of a subclass of torch.Tensor")
    return found
