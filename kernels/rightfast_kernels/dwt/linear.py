"""Derivatives of every order for a linear map, from the map and its adjoint.

The gradient of a linear map is its adjoint, whose gradient is the map again; the tangent of a
linear map is the map of the tangent. So nothing is saved for the backward pass, and any mixture
of reverse mode, forward mode and vmap closes on the same pair.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

Map = Callable[..., tuple[Tensor, ...]]


@dataclass(frozen=True)
class LinearMap:
    """A linear map from tensors to tensors, and its adjoint, as two functions.

    Both take the tensors of one side and return the tuple of the other. Both must accept
    further dimensions in front, which is where `torch.vmap` puts its own.
    """

    run: Map
    adjoint: Map

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        batched = [torch._C._functorch.is_legacy_batchedtensor(x) for x in inputs]
        if any(batched) and not all(batched):
            # torch.autograd.grad(is_grads_batched=True) leaves the zero gradients unbatched.
            one = inputs[batched.index(True)]
            inputs = tuple(x + one.new_empty(x.shape).zero_() for x in inputs)
        transforms = torch._C._are_functorch_transforms_active()
        if not (transforms or any(batched) or torch.is_grad_enabled()) and _no_tangents():
            return self.run(*inputs)  # in a backward pass, mostly: nothing to be noted
        function: Any = _Transformed if transforms else _Eager
        result: tuple[Tensor, ...] = function.apply(self, *inputs)
        return result

    @property
    def transposed(self) -> "LinearMap":
        return LinearMap(self.adjoint, self.run)


def _no_tangents() -> bool:
    return forward_ad._current_level < 0


def _backward(ctx: Any, *grads: Tensor) -> Any:
    return None, *ctx.linear.transposed(*grads)


def _jvp(ctx: Any, _: None, *tangents: Tensor) -> Any:
    return ctx.linear(*tangents)


class _Eager(torch.autograd.Function):
    """Without torch.func: torch binds no signature per call, which costs more than a kernel."""

    @staticmethod
    def forward(ctx: Any, linear: LinearMap, *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.linear = linear
        return linear.run(*inputs)

    backward = staticmethod(_backward)
    jvp = staticmethod(_jvp)


class _Transformed(torch.autograd.Function):
    """Under torch.func, which needs the context apart and a rule for vmap."""

    @staticmethod
    def forward(linear: LinearMap, *inputs: Tensor) -> tuple[Tensor, ...]:
        return linear.run(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.linear = inputs[0]

    backward = staticmethod(_backward)
    jvp = staticmethod(_jvp)

    @staticmethod
    def vmap(info: Any, in_dims: Any, linear: LinearMap, *inputs: Tensor) -> Any:
        moved = [
            x.expand(info.batch_size, *x.shape) if d is None else x.movedim(d, 0)
            for x, d in zip(inputs, in_dims[1:], strict=True)
        ]
        out = linear(*moved)
        return out, (0,) * len(out)
