"""What torch must know of the native operators besides their code: shapes, gradients, vmap."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

SCHEMAS = {
    "dwt_down": "(Tensor x, str plan) -> Tensor[]",
    "dwt_up": "(Tensor[] bands, str plan) -> Tensor",
    "dwt_down_into": "(Tensor x, str plan, Tensor(a!)[] out) -> ()",
    "dwt_up_into": "(Tensor[] bands, str plan, Tensor(a!) out) -> ()",
}


def define() -> None:
    """The operators that the extension defines, where it was not built: a GPU has them, too."""
    for name, schema in SCHEMAS.items():
        torch.library.define(f"rightfast::{name}", schema)


def register() -> None:
    """Once the operators are defined."""
    for name, fake, backward, vmap in (
        ("rightfast::dwt_down", _fake_down, _backward_down, _vmap_down),
        ("rightfast::dwt_up", _fake_up, _backward_up, _vmap_up),
    ):
        torch.library.register_fake(name, fake)
        torch.library.register_autograd(name, backward, setup_context=_keep)
        torch.library.register_vmap(name, vmap)
    for name in ("rightfast::dwt_down_into", "rightfast::dwt_up_into"):
        torch.library.register_fake(name, _fake_into)


def _read(plan: str) -> tuple[list[int], list[list[int]], list[int]]:
    """(dimensions, for each level n and length of each axis in turn, bands that are there)."""
    axes, depth, *rest = map(int, plan.split())
    dims = []
    for _ in range(axes):
        dims.append(rest[0])
        rest = rest[4 + 2 * rest[3] :]
    step = 2 * axes + 1
    levels = [rest[i * step :][:step] for i in range(depth)]
    return dims, [level[:-1] for level in levels], [level[-1] for level in levels]


def _shape(like: Sequence[int], dims: Sequence[int], sizes: Sequence[int]) -> list[int]:
    shape = list(like)
    for dim, size in zip(dims, sizes, strict=True):
        shape[dim] = size
    return shape


def _fake_down(x: Tensor, plan: str) -> list[Tensor]:
    dims, lengths, present = _read(plan)
    found = []
    for level in reversed(range(len(lengths))):
        first = 0 if level == len(lengths) - 1 else 1
        shape = _shape(x.shape, dims, lengths[level][1::2])
        found += [
            x.new_empty(shape)
            for band in range(first, 1 << len(dims))
            if present[level] >> band & 1
        ]
    return found


def _fake_up(bands: list[Tensor], plan: str) -> Tensor:
    dims, lengths, _ = _read(plan)
    return bands[0].new_empty(_shape(bands[0].shape, dims, lengths[0][0::2]))


def _fake_into(data: Any, plan: str, out: Any) -> None:
    pass


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.plan = inputs[1]


def _backward_down(ctx: Any, grads: list[Tensor]) -> Any:
    contiguous = [g.contiguous() for g in grads]
    return torch.ops.rightfast.dwt_up(contiguous, ctx.plan), None


def _backward_up(ctx: Any, grad: Tensor) -> Any:
    return torch.ops.rightfast.dwt_down(grad.contiguous(), ctx.plan), None


def _vmap_down(info: Any, in_dims: Any, x: Tensor, plan: str) -> Any:
    bands = torch.ops.rightfast.dwt_down(x.movedim(in_dims[0], 0).contiguous(), plan)
    return bands, [0] * len(bands)


def _vmap_up(info: Any, in_dims: Any, bands: Any, plan: str) -> Any:
    moved = [
        (b.expand(info.batch_size, *b.shape) if d is None else b.movedim(d, 0)).contiguous()
        for b, d in zip(bands, in_dims[0], strict=True)
    ]
    return torch.ops.rightfast.dwt_up(moved, plan), 0
