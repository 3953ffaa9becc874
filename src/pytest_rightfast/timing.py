"""Turn a verified case into closures to time: on which inputs, what is kept, what is reset."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from . import leaves, trees
from .case import Call, PerfCase
from .clock_cpu import SHORTEST_SAMPLE, Target
from .evaluate import Answer, argument, cotangent, forward_with_graph, graph_outputs, state

# Two sets of inputs take turns, as long as both together stay below this many bytes.
ROTATED_BYTES = 256 * 2**20
# A consumed set of inputs is restored between samples; so many sets at most.
MOST_SETS, MOST_SET_BYTES = 64, 64 * 2**20

Draw = Callable[[int], Call]
# What a kept round returns: the number of the draw, and a copy of the answer.
Kept = tuple[int, Answer]


def target(function: Callable[..., Any], case: PerfCase, draw: Draw, per_call: float) -> Target:
    """The closures for one backend; `per_call` is a first estimate in seconds."""
    if case.mutates:
        return _consuming(function, case, draw, per_call)
    if case.before:
        return _prepared(function, case, draw)
    first = draw(0)
    calls = [first] if 2 * _bytes(first) > ROTATED_BYTES else [first, draw(1)]
    if case.backward == "only":
        return _backward_only(function, case, calls)
    if case.backward == "with_forward":
        return _with_forward(function, case, calls)

    def keep(which: int, returned: Any) -> Kept:
        return which, Answer(_pick(case, returned)).snapshot()

    bound = [functools.partial(function, *call.args, **call.kwargs) for call in calls]
    return Target([_synced(call, case) for call in bound], keep)


def _prepared(function: Callable[..., Any], case: PerfCase, draw: Draw) -> Target:
    """One call at a time, and `before` each."""
    made = target(function, replace(case, before=None), draw, 0.0)
    call = draw(0)

    def reset() -> None:
        assert case.before is not None
        case.before(*call.args, **call.kwargs)

    return replace(made, calls=made.calls[:1], reset=reset)


def _consuming(function: Callable[..., Any], case: PerfCase, draw: Draw, per_call: float) -> Target:
    """In-place calls: each closure has inputs of its own, restored before every sample."""
    pristine = draw(0)
    sets = min(
        1 if case.before else MOST_SETS,
        max(1, MOST_SET_BYTES // max(1, _bytes(pristine))),
        max(1, int(SHORTEST_SAMPLE / max(per_call, 1e-9))),
    )
    calls = [draw(0) for _ in range(sets)]

    def reset() -> None:
        for call in calls:
            for key in case.mutates:
                _restore(argument(call, key), argument(pristine, key))
            if case.before:
                case.before(*call.args, **call.kwargs)

    def keep(which: int, returned: Any) -> Kept:
        mutated = {key: state(argument(calls[which], key)) for key in case.mutates}
        return 0, Answer(_pick(case, returned), mutated).snapshot()

    bound = [functools.partial(function, *call.args, **call.kwargs) for call in calls]
    return Target([_synced(call, case) for call in bound], keep, reset)


def _restore(used: Any, pristine: Any) -> None:
    import torch

    with torch.no_grad():
        for (_, a), (_, b) in zip(trees.leaves(used), trees.leaves(pristine)):
            for (_, left), (_, right) in zip(leaves.tensors_of(a), leaves.tensors_of(b)):
                left.copy_(right)


def _backward_only(function: Callable[..., Any], case: PerfCase, calls: list[Call]) -> Target:
    """The graph is built once and kept; only the gradient is timed."""
    import torch

    bound, outputs, names = [], [], []
    for call in calls:
        output, inputs = forward_with_graph(function, call, case)
        ends, cotangents = graph_outputs(output)
        bound.append(
            functools.partial(
                torch.autograd.grad,
                ends,
                list(inputs.values()),
                cotangents,
                retain_graph=True,
                allow_unused=True,
            )
        )
        outputs.append(output)
        names = list(inputs)

    def keep(which: int, returned: Any) -> Kept:
        return which, Answer(outputs[which], {}, dict(zip(names, returned))).snapshot()

    return Target([_synced(call, case) for call in bound], keep)


def _with_forward(function: Callable[..., Any], case: PerfCase, calls: list[Call]) -> Target:
    """Forward and gradient together, the cotangents drawn beforehand."""
    import torch

    def build(call: Call) -> Callable[[], Any]:
        output, inputs = forward_with_graph(function, call, case)
        wanted = list(inputs.values())
        cotangents = {
            path: cotangent(path, leaf)
            for path, leaf in trees.leaves(output)
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad
        }

        def step() -> Any:
            found = _pick(case, function(*call.args, **call.kwargs))
            ends = [leaf for path, leaf in trees.leaves(found) if path in cotangents]
            weights = list(cotangents.values())
            return found, torch.autograd.grad(ends, wanted, weights, allow_unused=True)

        names.extend(inputs)
        return step

    names: list[str] = []
    bound = [build(call) for call in calls]

    def keep(which: int, returned: Any) -> Kept:
        output, found = returned
        return which, Answer(output, {}, dict(zip(names, found))).snapshot()

    return Target([_synced(call, case) for call in bound], keep)


def _pick(case: PerfCase, returned: Any) -> Any:
    return case.output(returned) if case.output else returned


def _synced(call: Callable[[], Any], case: PerfCase) -> Callable[[], Any]:
    if case.sync is None:
        return call
    sync = case.sync

    def synced() -> Any:
        returned = call()
        sync()
        return returned

    return synced


def _bytes(call: Call) -> int:
    return sum(
        tensor.numel() * tensor.element_size()
        for _, leaf in trees.leaves(call.tree)
        for _, tensor in leaves.tensors_of(leaf)
    )
