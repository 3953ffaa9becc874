"""Looks at every operator of a pass while it is captured: may it be replayed?

A replay works on the memory of the recording, so all memory must be known: declared, of `Buffers`,
or made in the pass itself. And it computes nothing on the host, so no value may be read there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from rightfast.runtime.backend import NotRecordable

_HOST_TAGS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
_HOST_READS = (Tensor.tolist, Tensor.numpy, Tensor.__array__, Tensor.__dlpack__)
_MASKS = (torch.bool, torch.uint8)


class _Active(threading.local):
    def __init__(self) -> None:
        self.watches: list[Watch] = []


_active = _Active()
captures: list[
    Watch
] = []  # of all threads: a launch looks here first, which costs it next to nothing


def watched() -> bool:
    """Whether a pass is being captured on this thread."""
    return bool(_active.watches)


def opaque(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function whose work torch's dispatcher does not see, such as a Triton kernel.

        opaque(kernel[grid], x, out, n, BLOCK=64)

    Outside of a capture that is all it does. While a pass is captured, its tensors are checked
    like those of any operator, and a `Tape` replays the call as a whole, with the same arguments.
    It must read no value on the host, and must not write to a tensor that is fed. A launch by
    `launchable` needs no such call.
    """
    if not _active.watches:
        return function(*args, **kwargs)
    return _active.watches[-1].opaque(function, args, kwargs)


def through_triton(kernel: Any, grid: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """`kernel[grid](*args, **kwargs)`, opaque; a grid that is a function is called once.

    A replay has the grid of the recording, so its function may read no value on the host, either.
    """
    if not _active.watches:
        return kernel[grid](*args, **kwargs)
    watch = _active.watches[-1]
    found: list[tuple[int, ...]] = [] if callable(grid) else [tuple(grid)]

    def blocks(known: Any) -> tuple[int, ...]:
        if not found:
            with watch.paused(False):
                found.append(tuple(grid(known)))
        return found[0]

    def launch(*args: Any, **kwargs: Any) -> Any:
        return kernel[blocks](*args, **kwargs)

    launch.__qualname__ = str(getattr(kernel, "__name__", kernel))
    return watch.opaque(launch, args, dict(kwargs))


def tensors_in(tree: Any) -> Iterator[Tensor]:
    """The tensors in nested tuples, lists and dicts, as operators take and return them.

    Triton wraps a tensor in an object whose `base` it is.
    """
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for part in tree:
            yield from tensors_in(part)
    elif isinstance(tree, dict):
        for part in tree.values():
            yield from tensors_in(part)
    elif isinstance(base := getattr(tree, "base", None), Tensor):
        yield base


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Raises `NotRecordable` at the first operator that cannot be replayed.

    Args:
        device: the type of device whose work is captured.
        known, fed: as in `Backend.capture`.
    """

    def __init__(self, device: str, known: Sequence[Tensor], fed: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._device = device
        self._fed = {_storage(t): t for t in fed}
        self._known: dict[int, Tensor] = {_storage(t): t for t in known}
        self._made: dict[int, Tensor] = {}
        self._constants: dict[int, Tensor] = {}
        self._paused = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what this thread does."""
        _active.watches.append(self)
        captures.append(self)
        try:
            with _HostReads(self), self:
                yield
        finally:
            captures.remove(self)
            _active.watches.pop()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if self._paused:
            return func(*args, **kwargs)
        if func is torch.ops.aten.lift_fresh.default:  # torch.tensor(2.0): a number in the code
            self._constants[_storage(args[0])] = args[0]
        else:
            self._check(func, args, kwargs)
            self._check_device(func, kwargs.get("device"))
        output = self.run(func, args, kwargs)
        for tensor in tensors_in(output):
            place = _storage(tensor)
            if not self.is_external(tensor) and place not in self._constants:
                self._made[place] = tensor
            if tensor.device.type != self._device and place not in self._constants:
                raise NotRecordable("host", f"{func} makes a tensor on {tensor.device}")
        return output

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do one operator; a backend that records by itself notes it here."""
        return func(*args, **kwargs)

    def opaque(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """See the module's `opaque`."""
        if self._paused:  # a part of what is opaque already, and replayed with it
            return function(*args, **kwargs)
        self._check_memory(_name(function), tensors_in([args, kwargs]))
        with self.paused(True):
            return self.run(function, args, kwargs)

    @contextmanager
    def paused(self, paused: bool) -> Iterator[None]:
        """Look away, or look again."""
        before, self._paused = self._paused, paused
        try:
            yield
        finally:
            self._paused = before

    def is_external(self, tensor: Tensor) -> bool:
        """Whether its memory was there before the pass."""
        return _storage(tensor) in self._known or _storage(tensor) in self._fed

    def read_on_host(self, what: str) -> None:
        """Raises unless paused."""
        if not self._paused:
            raise NotRecordable("host", f"{what} reads a value on the host")

    def _check(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if any(tag in func.tags for tag in _HOST_TAGS) and not _indexes_by_number(func, args):
            self.read_on_host(str(func))
        self._check_memory(str(func), tensors_in([args, kwargs]))
        if func._schema.is_mutable:
            for tensor in _written(func, args, kwargs):
                if _storage(tensor) in self._fed:
                    raise NotRecordable(
                        "writes", f"{func} writes to a tensor that is fed; give it in bound="
                    )

    def _check_device(self, func: Any, device: Any) -> None:
        """Before it runs: a copy to the host would break a capture."""
        if device is not None and torch.device(device).type != self._device:
            raise NotRecordable("host", f"{func} makes a tensor on {device}")

    def _check_memory(self, name: str, tensors: Iterator[Tensor]) -> None:
        for tensor in tensors:
            place = _storage(tensor)
            if place in self._constants:
                continue
            if tensor.device.type != self._device:
                raise NotRecordable("host", f"{name} uses a tensor on {tensor.device}")
            if not self.is_external(tensor) and place not in self._made:
                raise NotRecordable(
                    "undeclared",
                    f"{name} uses a tensor of shape {tuple(tensor.shape)} that is neither fed nor "
                    "bound nor of the buffers; give it in bound=",
                )


class _HostReads(TorchFunctionMode):
    """The ways to a value that do not pass the dispatcher."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in _HOST_READS:
            self._watch.read_on_host(_name(func))
        return func(*args, **(kwargs or {}))


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _indexes_by_number(func: Any, args: tuple[Any, ...]) -> bool:
    """Indexing has the tag of a dynamic shape, but only masks make it dynamic."""
    if func is not torch.ops.aten.index.Tensor:
        return False
    return not any(t.dtype in _MASKS for t in tensors_in(args[1]))


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    """The tensors that an operator changes, by its schema."""
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            yield from tensors_in(value)


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or function)
