"""Call a function the way a case asks for and collect all that is judged: output, mutated
arguments, gradients. Backends and references go through the same code."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import leaves, trees
from .case import Call, PerfCase
from .compare import as_tensor
from .errors import CaseError

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass
class Answer:
    """All that one call produced."""

    output: Any
    mutated: dict[int | str, Any] = field(default_factory=dict)
    gradients: dict[str, Tensor | None] = field(default_factory=dict)

    def snapshot(self) -> Answer:
        """Copies, so that what happens later to the returned memory does not show."""
        return Answer(*(trees.map_leaves(_copy, part) for part in vars(self).values()))


def _copy(leaf: Any) -> Any:
    plain = as_tensor(leaf)
    return leaf if plain is None or isinstance(leaf, int | float | complex) else plain.clone()


def answer(function: Callable[..., Any], call: Call, case: PerfCase) -> Answer:
    """Run `function` once on `call`."""
    if case.backward:
        output, inputs = forward_with_graph(function, call, case)
        return Answer(output, {}, gradients(output, inputs))
    returned = function(*call.args, **call.kwargs)
    output = case.output(returned) if case.output else returned
    mutated = {key: state(argument(call, key)) for key in case.mutates}
    return Answer(output, mutated)


def argument(call: Call, key: int | str) -> Any:
    """The argument that `mutates=` names."""
    try:
        return call.tree[key]
    except KeyError:
        raise CaseError(
            f"mutates= names argument {key!r}, which the call does not have",
            expected=f"some of {list(call.tree)}",
            got=repr(key),
            remedy="name an argument by its position or its keyword",
        ) from None


def state(tree: Any) -> Any:
    """The values of an argument: a module stands for its tensors."""
    import torch

    def expand(leaf: Any) -> Any:
        if isinstance(leaf, torch.nn.Module):
            return dict(leaves.tensors_of(leaf))
        return leaf

    return trees.map_leaves(expand, tree)


def forward_with_graph(
    function: Callable[..., Any], call: Call, case: PerfCase
) -> tuple[Any, dict[str, Tensor]]:
    """The output with its autograd graph, and the inputs that want a gradient, by name."""
    inputs = dict(leaves.differentiable(trees.leaves(call.tree)))
    if not inputs:
        raise CaseError(
            "backward= needs a floating torch tensor among the inputs",
            expected="a tensor or module whose gradient can be taken",
            got=f"{[type(leaf).__name__ for _, leaf in trees.leaves(call.tree)]}",
            remedy="give a floating tensor or a module as an argument, or drop backward=",
        )
    returned = function(*call.args, **call.kwargs)
    return (case.output(returned) if case.output else returned), inputs


def graph_outputs(output: Any) -> tuple[list[Tensor], list[Tensor]]:
    """The output leaves that have a graph, and a cotangent for each."""
    import torch

    ends, cotangents = [], []
    for path, leaf in trees.leaves(output):
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
            ends.append(leaf)
            cotangents.append(cotangent(path, leaf))
    return ends, cotangents


def gradients(output: Any, inputs: dict[str, Tensor]) -> dict[str, Tensor | None]:
    """Vector-Jacobian products with random cotangents; None where no gradient was computed."""
    import torch

    ends, cotangents = graph_outputs(output)
    if not ends:
        return dict.fromkeys(inputs)
    found = torch.autograd.grad(ends, list(inputs.values()), cotangents, allow_unused=True)
    return dict(zip(inputs, found))


def cotangent(path: trees.Path, like: Tensor) -> Tensor:
    """Random, never ones; multiples of 1/16 up to 4, which every float type holds exactly."""
    import torch

    shape = (*like.shape, 2) if like.is_complex() else tuple(like.shape)
    real = like.real.dtype if like.is_complex() else like.dtype
    values = _sixteenths(repr(path), shape).to(dtype=real, device=like.device) / 16
    return torch.view_as_complex(values) if like.is_complex() else values


@functools.lru_cache(maxsize=256)
def _sixteenths(name: str, shape: tuple[int, ...]) -> Tensor:
    """Kept as bytes: the same few shapes are asked for again and again."""
    import torch

    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return torch.randint(-64, 65, shape, generator=generator, dtype=torch.int8, device="cpu")


def dtypes_of(tree: Any) -> set[torch.dtype]:
    """The floating dtypes among the tensors of a tree."""
    found = {t.dtype for _, leaf in trees.leaves(tree) for _, t in leaves.tensors_of(leaf)}
    return {dtype for dtype in found if dtype.is_floating_point or dtype.is_complex}
