"""Derivatives of every order for a linear map, from the map and its adjoint.

The gradient of a linear map is its adjoint, whose gradient is the map again; the tangent of a
linear map is the map of the tangent. So nothing is saved for the backward pass, and one
`torch.autograd.Function` serves forward mode, reverse mode and vmap at any nesting.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Map = Callable[..., tuple[Tensor, ...]]


@dataclass(frozen=True)
class LinearMap:
    """A linear map of tensors whose dimensions are counted from the end, and its adjoint.

    ``run`` and ``adjoint`` take the tensors of one side and return the tuple of the other.
    """

    run: Map
    adjoint: Map

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        result: tuple[Tensor, ...] = _Apply.apply(self, *inputs)
        return result

    @property
    def transposed(self) -> "LinearMap":
        return LinearMap(self.adjoint, self.run)


class _Apply(torch.autograd.Function):
    @staticmethod
    def forward(linear: LinearMap, *inputs: Tensor) -> tuple[Tensor, ...]:
        return linear.run(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.linear = inputs[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, *ctx.linear.transposed(*grads)

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor) -> Any:
        return ctx.linear(*tangents)

    @staticmethod
    def vmap(info: Any, in_dims: Any, linear: LinearMap, *inputs: Tensor) -> Any:
        moved = [
            x.expand(info.batch_size, *x.shape) if d is None else x.movedim(d, 0)
            for x, d in zip(inputs, in_dims[1:], strict=True)
        ]
        out = linear(*moved)
        return out, (0,) * len(out)
