"""What a recording is found by: the options, torch's own settings, and every tensor's memory.

Nothing is looked up by identity but storages, which the key holds, so that none can be recycled
while its recording lives.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rightfast.runtime.backend import Backend, NotRecordable

_EXACT = (
    bool,
    int,
    str,
    bytes,
    type(None),
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
)
_dtypes = attrgetter("dtype")
_devices = attrgetter("device")
_Fields = tuple[tuple[str, ...], Any]
_fields: dict[type, _Fields] = {}
# Without the functions in Python around them, which do no more.
_deterministic = torch._C._get_deterministic_algorithms
_precision = torch._C._get_float32_matmul_precision
_loose: dict[tuple[type, ...], tuple[int, ...]] = {}


class Sight(NamedTuple):
    """What is noted of a call; see `Key`. It holds no memory."""

    options: tuple[Any, ...]
    settings: tuple[Any, ...]
    layout: tuple[Any, ...]
    addresses: tuple[int, ...]


class Key(NamedTuple):
    """Equal keys: the same pass on the same memory.

    Attributes:
        near: the options by field, see `options_key`, and the addresses of the bound tensors.
        rest: names, shapes, strides and dtypes of all tensors, devices of the fed ones (the
            layout); autocast, precision and other modes of torch (the settings); the storages
            that the bound tensors are views of, which live as long as the key.
    """

    near: tuple[tuple[Any, ...], tuple[int, ...]]
    rest: tuple[tuple[Any, ...], tuple[Any, ...], tuple[torch.UntypedStorage, ...]]

    @property
    def sight(self) -> Sight:
        """The same without the storages, which a note must not keep alive."""
        options, addresses = self.near
        layout, settings, _ = self.rest
        return Sight(options, settings, layout, addresses)


def key_of(
    options: Any, fed: Mapping[str, Tensor], bound: Mapping[str, Tensor], backend: Backend
) -> Key:
    """The key of a call; absent (None) tensors must have been left out.

    Raises:
        NotRecordable: an option has a value that cannot be compared later.
    """
    own = list(bound.values())
    addresses, storages = tuple(map(Tensor.data_ptr, own)), tuple(map(Tensor.untyped_storage, own))
    every = [*fed.values(), *own]
    layout = (
        tuple(fed),
        tuple(bound),
        tuple(map(Tensor.size, every)),
        tuple(map(Tensor.stride, every)),
        tuple(map(_dtypes, every)),
        tuple(map(_devices, fed.values())),
    )
    settings = (_settings(backend.device), backend.settings())
    near, rest = (options_key(options), addresses), (layout, settings, storages)
    return tuple.__new__(Key, (near, rest))  # its own __new__ is a function in Python


def options_key(options: Any) -> tuple[Any, ...]:
    """The class of a frozen dataclass, then the type and value of every field.

    Raises:
        TypeError: it is none, or a field holds a tensor.
        NotRecordable: a field is callable or mutable.
    """
    cls = type(options)
    names, read = _fields.get(cls) or fields_of(options)
    values = read(options)
    kinds = tuple(map(type, values))
    loose = _loose.get(kinds)
    if loose is None:
        loose = _loose[kinds] = tuple(i for i, kind in enumerate(kinds) if not _is_exact(kind))
    for place in loose:
        value = values[place]
        if kinds[place] is not float:
            value = _frozen(value, names[place])
        elif not value or value != value:
            value = value.hex()  # 0.0 == -0.0, and NaN is not NaN; other floats are exact
        if value is not values[place]:
            values = (*values[:place], value, *values[place + 1 :])
    return (cls, kinds, values)


def fields_of(options: Any) -> _Fields:
    """The names of the fields of a frozen dataclass, and what reads them all."""
    cls = type(options)
    known = _fields.get(cls)
    if known is not None:
        return known
    if not is_frozen(cls):
        raise TypeError(
            f"expected as options an instance of a frozen dataclass, got {cls.__name__}; a pass "
            "may depend on nothing that can change: @dataclass(frozen=True)"
        )
    names = tuple(field.name for field in dataclasses.fields(cls))
    found = attrgetter(*names) if len(names) > 1 else lambda o: tuple(getattr(o, n) for n in names)
    if "__dataclass_params__" not in vars(cls):  # its base's alone: it takes other attributes, too
        found = _nothing_but(names, found)
    _fields[cls] = names, found
    return _fields[cls]


def _nothing_but(names: Sequence[str], read: Any) -> Any:
    def checked(options: Any) -> Any:
        if more := sorted(set(getattr(options, "__dict__", ())) - set(names)):
            raise NotRecordable(
                "option",
                f"{', '.join(more)} of {type(options).__name__} is no field: the class is frozen "
                "once it is under @dataclass(frozen=True) itself",
            )
        return read(options)

    return checked


def _is_exact(kind: type) -> bool:
    """Whether equal values of this type are one value."""
    return kind in _EXACT or issubclass(kind, enum.Enum)


def is_frozen(cls: type) -> bool:
    """Whether it is a frozen dataclass."""
    return dataclasses.is_dataclass(cls) and bool(getattr(cls, "__dataclass_params__").frozen)  # noqa: B009


def _frozen(value: Any, name: str) -> Any:
    """A value to compare by, in place of an option's value that `==` is too lax for."""
    kind = type(value)
    if _is_exact(kind) or isinstance(value, type):
        return value
    if dataclasses.is_dataclass(value):
        return options_key(value)
    bare = not getattr(value, "__dict__", None)  # an instance of a subclass may hold more
    if isinstance(value, float) and bare:
        return value.hex()
    if isinstance(value, complex) and bare:
        return value.real.hex(), value.imag.hex()
    if isinstance(value, (tuple, frozenset)) and bare:
        parts = [(type(part), _frozen(part, name)) for part in value]
        return tuple(parts) if isinstance(value, tuple) else frozenset(parts)
    if isinstance(value, Tensor):
        raise TypeError(
            f"option {name!r} is a tensor: expected numbers, strings, enums, or tuples or frozen "
            "dataclasses of these; give tensors in fed= or bound="
        )
    if callable(value):
        raise NotRecordable(
            "callback",
            f"option {name!r} is callable: it would run while recording, not at a replay",
        )
    raise NotRecordable(
        "option",
        f"option {name!r} is a {kind.__name__}, which may change unseen; expected numbers, "
        "strings, enums, or tuples, frozensets or frozen dataclasses of these",
    )


def _settings(device: str) -> tuple[Any, ...]:
    """The modes of torch that change what an operator computes."""
    autocast = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    precision: Any
    try:
        precision = _precision()
    except RuntimeError:  # set by backend, which the getter refuses to sum up
        known: Any = torch.backends
        precision = known.cuda.matmul.fp32_precision, known.mkldnn.matmul.fp32_precision
    return (
        autocast,
        precision,
        _deterministic(),
        torch.get_default_dtype(),
        torch.is_inference_mode_enabled(),
        torch.is_grad_enabled(),
    )


def flippable(tensors: Sequence[Tensor]) -> tuple[int, ...]:
    """The places of tensors whose memory may also be seen negated or conjugated.

    Those are complex tensors, and views of a complex tensor's parts, whose strides are even.
    """
    return tuple(
        place
        for place, tensor in enumerate(tensors)
        if tensor.is_complex()
        or all(step % 2 == 0 for step, n in zip(tensor.stride(), tensor.shape) if n > 1)
    )


def flipped(tensors: Sequence[Tensor], places: Sequence[int]) -> bool:
    """Whether one of those is negated or conjugated when it is read, which no address tells."""
    return any(tensors[place].is_neg() or tensors[place].is_conj() for place in places)


def differences(sights: Sequence[Sight]) -> str:
    """What these calls, of one layout, differ in, in words."""
    if len({one.options[0] for one in sights}) > 1:
        return "the class of the options"
    found = []
    names, _ = _fields[sights[0].options[0]]
    for place, name in enumerate(names):
        if len({(one.options[1][place], one.options[2][place]) for one in sights}) > 1:
            found.append(f"option {name!r}")
    if len({one.settings for one in sights}) > 1:
        found.append("a setting of torch (autocast, gradients, precision, the device)")
    for place, name in enumerate(sights[0].layout[1]):
        if len({one.addresses[place] for one in sights}) > 1:
            found.append(f"the memory of bound tensor {name!r}")
    return ", ".join(found)
