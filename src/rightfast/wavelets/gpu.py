"""Whole transforms by Triton kernels: what native.py is for the CPU, for CUDA tensors.

    down(x, plan)       signal -> [approximation, details of the deepest level, ..., the first]
    up(bands, plan)     its adjoint for the same plan

A level is the fused kernel of the last two axes where it serves, and passes along one axis else.
Half precision is read and written as it is and summed in float32.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import torch
from rightfast_kernels.dwt.native import Plan
from rightfast_kernels.dwt.transforms import Transform, read, shape_at
from torch import Tensor

HALF = (torch.float16, torch.bfloat16)
DTYPES = (torch.float32, torch.float64, *HALF)


@lru_cache(maxsize=1)
def available() -> bool:
    """Whether there is a CUDA device, and Triton."""
    return torch.cuda.is_available() and torch.version.hip is None and bool(find_spec("triton"))


def down(x: Tensor, plan: Plan, out: Sequence[Tensor] = ()) -> list[Tensor]:
    """All bands of the contiguous signal ``x``, in ``out`` if given; not recorded by autograd."""
    from rightfast.wavelets import gpu_steps as steps

    transform = read(plan.text)
    bands = list(out) or [
        x.new_empty(shape_at(tuple(x.shape), transform.axes, transform.levels[level].lengths))
        for level, _ in transform.places()
    ]
    if not x.numel():
        return [band.zero_() for band in bands]
    found = dict(zip(transform.places(), bands, strict=True))
    with _on(x):
        for number, level in enumerate(transform.levels):
            wanted = {k: found[number, k] for k in range(1 << len(transform.axes)) if level.has(k)}
            deepest = number + 1 == len(transform.levels)
            low = steps.down(x, transform.axes, level, wanted, deepest)
            if not deepest:
                x = steps.fitted(low, transform.axes, transform.levels[number + 1].samples)
    return bands


def up(bands: Sequence[Tensor], plan: Plan, out: Tensor | None = None) -> Tensor:
    """The signal from contiguous ``bands``, in ``out`` if given; not recorded by autograd."""
    from rightfast.wavelets import gpu_steps as steps

    transform = read(plan.text)
    _check(bands, transform)
    like, first = bands[0], transform.levels[0]
    x = out
    if x is None:
        x = like.new_empty(shape_at(tuple(like.shape), transform.axes, first.samples))
    if not x.numel():
        return x
    found = dict(zip(transform.places(), bands, strict=True))
    low: Tensor | None = None
    with _on(x):
        for number in reversed(range(len(transform.levels))):
            level = transform.levels[number]
            given = {k: found[number, k] for k in range(1 << len(transform.axes)) if level.has(k)}
            if low is not None:
                given[0] = steps.fitted(low, transform.axes, level.lengths)
            low = steps.up(given, transform.axes, level, None if number else x, like)
    return x


def _check(bands: Sequence[Tensor], transform: Transform) -> None:
    """Raises RuntimeError unless the bands are as planned, as the native operators do."""
    like, places = bands[0], list(transform.places())
    shapes = [
        tuple(shape_at(tuple(like.shape), transform.axes, level.lengths))
        for level in transform.levels
    ]
    if len(places) != len(bands) or not all(
        band.shape == shapes[level]
        and band.dtype == like.dtype
        and band.device == like.device
        and band.is_contiguous()
        for band, (level, _) in zip(bands, places, strict=False)
    ):
        raise RuntimeError(
            f"expected {len(places)} contiguous bands of one dtype and device, got "
            f"{[tuple(band.shape) for band in bands]}"
        )


def takes(x: Tensor) -> bool:
    """Whether `down` and `up` take ``x`` as it is: a plain tensor of a CUDA device."""
    return (
        type(x) is Tensor
        and x.is_cuda
        and x.dtype in DTYPES
        and not torch._C._functorch.is_legacy_batchedtensor(x)
    )


def _on(x: Tensor) -> AbstractContextManager[Any]:
    here = not x.is_cuda or x.get_device() == torch.cuda.current_device()
    return nullcontext() if here else torch.cuda.device(x.device)


def _register() -> None:
    """The operators of native.py, on CUDA tensors."""
    for name, run in {
        "dwt_down": lambda x, text: down(x.contiguous(), Plan(text)),
        "dwt_up": lambda bands, text: up([b.contiguous() for b in bands], Plan(text)),
        "dwt_down_into": lambda x, text, out: _nothing(down(x.contiguous(), Plan(text), out)),
        "dwt_up_into": lambda bands, text, out: _nothing(
            up([b.contiguous() for b in bands], Plan(text), out)
        ),
    }.items():
        torch.library.impl(f"rightfast::{name}", "CUDA", run)


def _nothing(_: Any) -> None:
    """In-place operators return nothing."""


_register()
