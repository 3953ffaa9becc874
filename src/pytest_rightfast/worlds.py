"""One object under test with its own copies of all arguments, on which steps are run.

A tensor that several steps name is one tensor object here, too, and views of one memory stay
views of one memory; what a single step names is copied for that step and dropped after it, so that
its identity and its address are free to be recycled.
"""

from __future__ import annotations

import copy
import functools
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import leaves, trees
from .errors import CaseError, PerfError, Unsupported
from .evaluate import Answer, graph_outputs
from .steps import CallLog, Step

Numbered = Sequence[tuple[int, Step]]
THE_OBJECT = "the object itself"


@dataclass
class Outcome:
    """All that one step did; copies, but for `live`.

    Attributes:
        output: what it returned; gradients by name for autograd.
        raised: what it raised.
        arguments: the values of its arguments, and of all that other steps name, afterwards.
        state: the object's declared state afterwards.
        live: what it returned and was given, not copied.
    """

    output: Any = None
    raised: Exception | None = None
    arguments: Any = None
    state: Any = None
    live: Any = None


class World:
    """An object, its arguments, and the latest output.

    Args:
        make: builds the object.
        schedule: all steps, for what they share.
        state: reads the declared state of the object.
        seed: of everything random in `make` and in the steps.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        schedule: Numbered,
        state: Callable[[Any], Any],
        seed: int = 0,
    ) -> None:
        self._state, self._seed, self._memo = state, seed, dict[int, Any]()
        self._shares = sharing(schedule)
        self.shared: list[Any] = _copied(list(self._shares.leaves), self._memo)
        self._differentiates = any(step.action == "backward" for _, step in schedule)
        self._latest: tuple[Any, Any] | None = None
        _seed_all(seed)
        self.object = make()

    def run(self, number: int, step: Step) -> Outcome:
        """Run one step and copy all that can be compared."""
        bound, given = self.bind(number, step)
        callbacks = [leaf for _, leaf in trees.leaves([self.shared, given]) if _is_log(leaf)]
        for callback in callbacks:
            callback.log.clear()
        _seed_all(self._seed * 1_000_003 + number)
        returned = raised = None
        try:
            returned = bound()
        except (PerfError, Unsupported):
            raise
        except Exception as error:
            raised = error.with_traceback(None)  # a traceback would keep the arguments alive
        return Outcome(
            snapshot(self.plain(returned)),
            raised,
            snapshot(values({"own": given, "shared": self.shared})),
            snapshot(values(self._state(self.object))),
            (returned, given),
        )

    def bind(self, number: int, step: Step) -> tuple[Callable[[], Any], Any]:
        """A closure that does the step, and the arguments that it was given."""
        memo = self._memo if self._shares.by_step[number] else dict[int, Any]()
        args, kwargs = _copied(step.args, memo), _copied(step.kwargs, memo)
        given = {"args": args, "kwargs": kwargs}
        if step.action == "call":
            return functools.partial(self._call, args, kwargs), given
        if step.action == "put":
            return functools.partial(self._put, kwargs), given
        if step.action == "swap":
            return functools.partial(self._swap, step.name, args, number), given
        if step.action == "act":
            return functools.partial(args[0], self.object, *args[1:], **kwargs), given
        if step.action == "backward" and not hasattr(self.object, "backward"):
            return self._backward, given
        return functools.partial(self._method, step.name, args, kwargs), given

    def restore(self, shared: Any) -> None:
        """Give the shared arguments the values that they had in another world."""
        import torch

        with torch.no_grad():
            for leaf, wanted in zip(self.shared, shared):
                for name, tensor in leaves.tensors_of(leaf):
                    value = wanted[name]
                    if tensor.shape != value.shape:
                        tensor.set_(value.clone())
                    elif not torch.equal(tensor, value):  # untouched, it keeps its autograd version
                        tensor.copy_(value)

    def plain(self, returned: Any) -> Any:
        """What was returned, with the object itself and modules made comparable."""
        import torch

        if returned is self.object:
            return THE_OBJECT

        def replaced(leaf: Any) -> Any:
            if leaf is self.object:
                return THE_OBJECT
            return _values(leaf) if isinstance(leaf, torch.nn.Module) else leaf

        return trees.map_leaves(replaced, returned)

    def unshared(self, given: Any) -> Any:
        """Arguments without those that other steps name, too."""
        shared = {id(leaf) for leaf in self.shared}
        return trees.map_leaves(lambda leaf: None if id(leaf) in shared else leaf, given)

    def owned(self) -> set[int]:
        """The memories that later steps may change: of shared arguments and declared state."""
        found = trees.leaves([self.shared, self._state(self.object), self.object])
        return {storage for _, leaf in found for storage in _storages(leaf)}

    def _call(self, args: Any, kwargs: Any) -> Any:
        self._latest = None  # dropped before the call, so that its memory can be reused
        output = self.object(*args, **kwargs)
        if self._differentiates:
            self._latest = output, {"argument": args, **kwargs}
        return output

    def _method(self, name: str, args: Any, kwargs: Any) -> Any:
        return getattr(self.object, name)(*args, **kwargs)

    def _put(self, attributes: dict[str, Any]) -> None:
        for name, value in attributes.items():
            setattr(self.object, name, value)

    def _swap(self, name: str, args: Any, number: int) -> None:
        import torch

        target = functools.reduce(getattr, name.split("."), self.object) if name else args[0]
        if not isinstance(target, torch.Tensor):
            raise CaseError(
                f"swap({name!r}) names no tensor",
                expected="an attribute that holds a tensor",
                got=type(target).__name__,
                remedy="name a parameter or buffer of the object",
            )
        given = args[0 if name else 1 :]
        generator = torch.Generator().manual_seed(number)
        with torch.no_grad():
            new = given[0] if given else leaves.vary(target.detach(), generator)
            target.set_(leaves.clone(new.detach()))

    def _backward(self) -> dict[str, Any]:
        """Gradients of the latest output, by the name of what they belong to."""
        import torch

        if self._latest is None:
            raise RuntimeError("there is no output of an earlier call")
        output, arguments = self._latest
        ends, cotangents = graph_outputs(output)
        found = [*trees.leaves(arguments), *trees.leaves({"object": self.object})]
        wanted = {
            "".join(f"[{key!r}]" for key in path) + name: tensor
            for path, leaf in found
            for name, tensor in ([] if leaves.is_array(leaf) else leaves.tensors_of(leaf))
            if tensor.requires_grad
        }
        if not ends or not wanted:
            raise RuntimeError("the latest output depends on nothing that requires a gradient")
        gradients = torch.autograd.grad(ends, list(wanted.values()), cotangents, allow_unused=True)
        return dict(zip(wanted, gradients))


@dataclass(frozen=True)
class Sharing:
    """What several steps name: those leaves, and by step number whether it names any."""

    leaves: tuple[Any, ...]
    by_step: dict[int, bool]


def sharing(schedule: Numbered) -> Sharing:
    """Tensors are shared if their memory is; modules, arrays and callbacks by identity."""
    keys = {
        number: [(leaf, _keys(leaf)) for _, leaf in trees.leaves([step.args, step.kwargs])]
        for number, step in schedule
    }
    uses = Counter(
        key for found in keys.values() for key in {key for _, own in found for key in own}
    )
    shared, by_step = dict[int, Any](), dict[int, bool]()
    for number, found in keys.items():
        mine = {id(leaf): leaf for leaf, own in found if any(uses[key] > 1 for key in own)}
        by_step[number] = bool(mine)
        shared |= mine
    return Sharing(tuple(shared.values()), by_step)


def _keys(leaf: Any) -> list[object]:
    storages: list[object] = list(_storages(leaf))
    return storages or ([id(leaf)] if _is_log(leaf) or leaves.is_array(leaf) else [])


def _storages(leaf: Any) -> list[int]:
    if leaves.is_array(leaf):
        return []
    return [
        tensor.untyped_storage()._cdata
        for _, tensor in leaves.tensors_of(leaf)
        if str(tensor.layout) == "torch.strided"
    ]


def storages(tree: Any) -> set[int]:
    """The memories behind the tensors of a tree."""
    return {storage for _, leaf in trees.leaves(tree) for storage in _storages(leaf)}


def _is_log(leaf: Any) -> bool:
    return isinstance(leaf, CallLog)


def values(tree: Any) -> Any:
    """What can be compared of arguments or state."""
    return trees.map_leaves(_values, tree)


def _values(leaf: Any) -> Any:
    if isinstance(leaf, CallLog):
        return list(leaf.log)
    found = dict(leaves.tensors_of(leaf))
    return found or (leaf if isinstance(leaf, str | int | float | bool | None) else None)


def snapshot(tree: Any) -> Any:
    """Copies of all tensors."""
    return Answer(tree).snapshot().output


def _copied(given: Any, memo: dict[int, Any]) -> Any:
    try:
        return copy.deepcopy(given, memo)
    except Exception as error:
        raise CaseError(
            "an argument of a step cannot be copied",
            expected="tensors that are leaves of autograd, and what copy.deepcopy can copy",
            got=f"{type(error).__name__}: {error}",
            remedy="detach() it, or build it inside a method or act()",
        ) from error


def _seed_all(seed: int) -> None:
    """Whatever draws numbers draws the same ones on every object."""
    import torch

    seed %= 2**32
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
