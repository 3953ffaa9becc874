"""What a sequence is made of: `call(x)`, `call.method(x)`, `call.backward()`, `put`, `swap`, `act`.

A step is a record; nothing runs when it is written. It says what is done to an object, and two
things about meaning: `lasting()` steps change what all later steps mean, and a step `needing(n)`
depends on the n latest calls before it. A fresh object is brought up to date by just those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from . import trees
from .errors import CaseError

# Methods of `torch.nn.Module` that change it for good: they last without being told.
_MOVES = ("to", "cpu", "cuda", "xpu", "half", "float", "double", "bfloat16", "type")
LASTING = frozenset((*_MOVES, "train", "eval", "requires_grad_", "load_state_dict"))


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a sequence. Build it with `call`, `put`, `swap` or `act`.

    Attributes:
        action: `call` (the object), `method`, `backward`, `put` (attributes), `swap` (memory under
            a tensor) or `act` (a function of the object).
        name: of the method, or of the attribute whose memory is swapped.
        args, kwargs: arguments; copied before they are handed over.
        lasts: it is replayed on every fresh object that a later step is compared with.
        needs: so many of the latest calls before it are replayed, too.
        raises: the exception that is the right outcome, None if it must return.
    """

    action: Literal["call", "method", "backward", "put", "swap", "act"]
    name: str = ""
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    lasts: bool = False
    needs: int = 0
    raises: type[Exception] | None = None

    def lasting(self) -> Step:
        """The same step, one that changes what all later steps mean."""
        return replace(self, lasts=True)

    def needing(self, calls: int) -> Step:
        """The same step, one whose meaning depends on so many of the latest calls before it."""
        return replace(self, needs=calls)

    def raising(self, error: type[Exception]) -> Step:
        """The same step, whose right outcome is this exception."""
        return replace(self, raises=error)

    @property
    def is_call(self) -> bool:
        return self.action == "call"

    def __repr__(self) -> str:
        return self.show({})

    def show(self, names: dict[int, str]) -> str:
        """The text that builds this step; `names` gives names to tensors by their `id`."""
        given = [_show(value, names) for value in self.args]
        given += [f"{key}={_show(value, names)}" for key, value in self.kwargs.items()]
        if self.action == "swap" and self.name:
            given.insert(0, repr(self.name))
        head = {"call": "call", "method": f"call.{self.name}", "backward": "call.backward"}
        text = f"{head.get(self.action, self.action)}({', '.join(given)})"
        if self.lasts and not lasts_by_itself(self.action, self.name):
            text += ".lasting()"
        if self.needs != (self.action == "backward"):
            text += f".needing({self.needs})"
        return text + (f".raising({self.raises.__name__})" if self.raises else "")


def lasts_by_itself(action: str, name: str) -> bool:
    return action in ("put", "swap") or (action == "method" and name in LASTING)


class _Builder:
    """`call(x)` calls the object under test, `call.name(x)` its method `name`.

    `call.backward()` is the object's own method `backward` if it has one; otherwise autograd from
    the output of the latest call, with random cotangents, to its arguments and the object's
    parameters that require a gradient. It needs the latest call, and no other.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Step:
        return Step("call", "", args, kwargs)

    def __getattr__(self, name: str) -> Callable[..., Step]:
        if name.startswith("__"):
            raise AttributeError(name)

        def method(*args: Any, **kwargs: Any) -> Step:
            if name == "backward":
                return Step("backward", name, args, kwargs, needs=1)
            return Step("method", name, args, kwargs, lasts=lasts_by_itself("method", name))

        return method


call = _Builder()


def put(**attributes: Any) -> Step:
    """Set attributes of the object (options, structure). It lasts."""
    return Step("put", "", (), attributes, lasts=True)


def swap(target: Any, values: Any = None) -> Step:
    """Put other memory under the same tensor object (`Tensor.set_`). It lasts.

    Args:
        target: a tensor that is an argument of other steps, or the name of an attribute of the
            object, such as `"weight"` or `"inner.buffer"`.
        values: what the new memory holds; by default values drawn anew, of the same shape.

    Raises:
        CaseError: the target is neither.
    """
    import torch

    given = () if values is None else (values,)
    if isinstance(target, str):
        return Step("swap", target, given, lasts=True)
    if not isinstance(target, torch.Tensor):
        raise CaseError(
            "swap() needs a tensor",
            expected='a tensor that other steps use, or the name of an attribute ("weight")',
            got=type(target).__name__,
            remedy="give the tensor itself, or its name",
        )
    return Step("swap", "", (target, *given), lasts=True)


def act(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Step:
    """Call `function(object, *args, **kwargs)`: what no method does (evict, churn, move)."""
    return Step("act", "", (function, *args), kwargs)


class CallLog:
    """A callback that remembers what it was called with; the calls of each step are compared.

    Plain functions are shared by all objects under test; this one is copied for each.
    """

    def __init__(self, returns: Any = None) -> None:
        self.returns = returns
        self.log: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from .evaluate import Answer

        self.log.append(Answer((args, kwargs)).snapshot().output)
        return self.returns

    def __repr__(self) -> str:
        return "CallLog()"


def paste(numbered: Sequence[tuple[int, Step]], wrong: int, what: str) -> str:
    """The schedule as text that can be pasted into a test; step number `wrong` is marked."""
    import torch

    names: dict[int, str] = {}
    lines = []
    for _, step in numbered:
        for _, leaf in trees.leaves((step.args, step.kwargs)):
            if isinstance(leaf, torch.Tensor) and id(leaf) not in names:
                names[id(leaf)] = name = f"t{len(names)}"
                lines.append(f"{name} = {_tensor(leaf)}")
    lines.append("steps=[")
    for number, step in numbered:
        mark = f"{number}: {what}" if number == wrong else str(number)
        lines.append(f"    {step.show(names)},  # {mark}")
    return "\n".join([*lines, "]"])


def _tensor(tensor: Any) -> str:
    """Its values if they are few, else a draw of the same kind."""
    import torch

    shape = ", ".join(map(str, tensor.shape))
    grad = ".requires_grad_()" if tensor.requires_grad else ""
    place = f", device={str(tensor.device)!r}" if tensor.device.type != "cpu" else ""
    if tensor.numel() <= 8 and tensor.layout is torch.strided:
        return f"torch.tensor({tensor.detach().tolist()}, dtype={tensor.dtype}{place}){grad}"
    if tensor.is_floating_point() or tensor.is_complex():
        text = f"torch.randn({shape}, dtype={tensor.dtype}{place}){grad}"
    else:
        low, high = int(tensor.min()), int(tensor.max())
        text = f"torch.randint({low}, {high + 1}, ({shape},)).to({tensor.dtype})"
    return f"{text}  # drawn anew; strides were {tuple(tensor.stride())}"


def _show(value: Any, names: dict[int, str]) -> str:
    import torch

    if isinstance(value, torch.Tensor):
        kind = str(value.dtype).removeprefix("torch.")
        return names.get(id(value), f"<{kind} {list(value.shape)}>")
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        inner = ", ".join(_show(part, names) for part in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {_show(v, names)}" for k, v in value.items()) + "}"
    return str(getattr(value, "__qualname__", None) or repr(value))
