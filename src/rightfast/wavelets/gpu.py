"""Whole transforms by Triton kernels: what native.py is for the CPU, for CUDA tensors.

    down(x, plan)       signal -> [approximation, details of the deepest level, ..., the first]
    up(bands, plan)     its adjoint for the same plan

A level is one pass along the last two axes where that serves, and passes along one axis else
(gpu_steps.py). Half precision is read and written as it is and summed in float32.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import lru_cache, partial
from importlib.util import find_spec
from itertools import pairwise
from math import ceil
from operator import attrgetter
from typing import Any

import torch
from rightfast_kernels.dwt import native
from rightfast_kernels.dwt.native import Plan
from rightfast_kernels.dwt.transforms import Transform, read, shape_at
from torch import Tensor

from rightfast.wavelets.gpu_recipe import Recipe, Tape

HALF = (torch.float16, torch.bfloat16)
DTYPES = (torch.float32, torch.float64, *HALF)
MOST = 512
_TRITON = bool(find_spec("triton"))  # here, since a compiler does not trace the search
# From so many bytes on a batch is transformed in parts, where what lies between two passes would
# take more than MORE of the memory of the signal and its bands.
LARGE = 1 << 27
MORE = 0.35
_recipes: dict[Hashable, Recipe] = {}
_shape, _dtype = attrgetter("shape"), attrgetter("dtype")


@lru_cache(maxsize=1)
def available() -> bool:
    """Whether there is a CUDA device, and Triton."""
    return torch.cuda.is_available() and torch.version.hip is None and _TRITON


def down(x: Tensor, plan: Plan, out: Sequence[Tensor] = ()) -> list[Tensor]:
    """All bands of the contiguous signal ``x``, in ``out`` if given; not recorded by autograd."""
    if x.is_neg() or x._is_zerotensor():
        x = _real(x)
    key = (plan.text, x.shape, x.dtype, x.get_device())
    recipe = None if out else _recipes.get(key)
    if recipe and recipe.sizes:
        with _on(x):
            return recipe.results([x])
    transform, shapes, signal = _planned(plan.text, x.shape)
    _check([x], [signal], x)
    bands = list(_check(out, shapes, x)) if out else [x.new_empty(shape) for shape in shapes]
    if not x.numel():
        return [band.zero_() for band in bands]
    with _on(x):
        for some in _parts([x, *bands], x, transform):
            _run((plan.text, some[0].shape, *key[2:]), some, 1, partial(_down, transform))
    native.written(out)
    return bands


def _down(transform: Transform, tape: Tape, x: Tensor, *bands: Tensor) -> None:
    from rightfast.wavelets import gpu_haar
    from rightfast.wavelets import gpu_steps as steps

    found = dict(zip(transform.places(), bands, strict=True))
    if gpu_haar.suits(transform):
        gpu_haar.down(tape, x, found, transform)
        return
    codes = range(1 << len(transform.axes))
    for number, level in enumerate(transform.levels):
        wanted = {code: found[number, code] for code in codes if (number, code) in found}
        deepest = number + 1 == len(transform.levels)
        low = steps.down(tape, x, transform.axes, level, wanted, deepest)
        if not deepest:
            x = steps.fitted(tape, low, transform.axes, transform.levels[number + 1].samples)


def up(bands: Sequence[Tensor], plan: Plan, out: Tensor | None = None) -> Tensor:
    """The signal from contiguous ``bands``, in ``out`` if given; not recorded by autograd."""
    like = bands[0]
    transform, shapes, shape = _planned(plan.text, like.shape)
    bands = _check(bands, shapes, like)
    if any(map(Tensor.is_neg, bands)) or any(map(Tensor._is_zerotensor, bands)):
        bands = [_real(band) for band in bands]
    key = (plan.text, like.shape, like.dtype, like.get_device(), "up")
    recipe = _recipes.get(key) if out is None else None
    if recipe and recipe.sizes:
        with _on(like):
            return recipe.results(bands)[0]
    x = like.new_empty(shape) if out is None else _check([out], [shape], like)[0]
    if not x.numel():
        return x
    with _on(like):
        for some in _parts([*bands, x], x, transform):
            _run((plan.text, some[0].shape, *key[2:]), some, len(bands), partial(_up, transform))
    if out is not None:
        native.written([out])
    return x


def _up(transform: Transform, tape: Tape, *tensors: Tensor) -> None:
    from rightfast.wavelets import gpu_haar
    from rightfast.wavelets import gpu_steps as steps

    *bands, x = tensors
    found = dict(zip(transform.places(), bands, strict=True))
    if gpu_haar.suits(transform):
        gpu_haar.up(tape, found, x, transform)
        return
    codes = range(1 << len(transform.axes))
    low: Tensor | None = None
    for number in reversed(range(len(transform.levels))):
        level = transform.levels[number]
        given = {code: found[number, code] for code in codes if (number, code) in found}
        if low is not None:
            given[0] = steps.fitted(tape, low, transform.axes, level.lengths)
        low = steps.up(tape, given, transform.axes, level, None if number else x)


def _parts(tensors: list[Tensor], x: Tensor, transform: Transform) -> Iterable[Sequence[Tensor]]:
    """The tensors, some of their leading items at a time where ``x``, the signal, is large."""
    from rightfast.wavelets import gpu_haar
    from rightfast.wavelets.gpu_steps import between

    if x.nbytes < LARGE or gpu_haar.suits(transform):
        return [tensors]
    lead = x.ndim + transform.axes[0].dim
    items = x.shape[:lead].numel()
    parts = min(items, ceil(between(transform, x.dtype) / 2 / MORE))
    if parts < 2:
        return [tensors]
    count = -(-items // parts)
    return zip(*(torch.split(y.flatten(0, lead - 1), count) for y in tensors), strict=True)


def _run(
    key: tuple[Any, ...], given: Sequence[Tensor], inputs: int, first: Callable[..., None]
) -> None:
    """By the recipe that is known, else as it is done for the first time."""
    recipe = _recipes.get(key)
    if recipe:
        recipe.run(given)
        return
    from rightfast.wavelets.gpu_tuned import best_cut

    tape = Tape(given, best_cut((*key[:1], tuple(key[1]), *key[2:]), given, inputs, first))
    first(tape, *given)
    if tape.recipe:
        if native.available:
            tape.recipe.together(given, inputs)
        if len(_recipes) >= MOST:
            _recipes.clear()
        _recipes[key] = tape.recipe


def forget() -> None:
    """Work out anew what transforms come to."""
    _recipes.clear()


@lru_cache(maxsize=MOST)
def _planned(text: str, like: torch.Size) -> tuple[Transform, list[torch.Size], torch.Size]:
    """The transform; the shape of each band that is there, as the operators return them; and of
    the signal. Plain dimensions are those of ``like``."""
    transform = _trimmed(read(text))
    axes, levels = transform.axes, transform.levels
    shapes = [torch.Size(shape_at(tuple(like), axes, level.lengths)) for level in levels]
    signal = torch.Size(shape_at(tuple(like), axes, levels[0].samples))
    return transform, [shapes[level] for level, _ in transform.places()], signal


def _trimmed(transform: Transform) -> Transform:
    """The same, no level of more samples than the next finer one has coefficients along an axis in
    mode zero: the odd one out is cut off on the way up, and a zero on the way down."""
    levels = [transform.levels[0]]
    for finer, level in pairwise(transform.levels):
        samples = tuple(
            min(n, length) if axis.mode == 0 else n
            for axis, n, length in zip(transform.axes, level.samples, finer.lengths, strict=True)
        )
        levels.append(replace(level, samples=samples))
    return replace(transform, levels=tuple(levels))


def _check(given: Sequence[Tensor], shapes: Sequence[torch.Size], like: Tensor) -> Sequence[Tensor]:
    """``given``. Raises RuntimeError unless they are as planned, with the dtype and on the device
    of ``like``, as the native operators do: a kernel believes what it is told."""
    if (  # loops in C: this is on the way of every call
        list(map(_shape, given)) != shapes
        or set(map(_dtype, given)) != {like.dtype}
        or set(map(Tensor.get_device, given)) != {like.get_device()}
        or not all(map(Tensor.is_contiguous, given))
    ):
        raise RuntimeError(
            f"expected {len(shapes)} contiguous tensors of one dtype and device, of shapes "
            f"{[tuple(shape) for shape in shapes]}, got {[tuple(x.shape) for x in given]}"
        )
    return given


def _real(x: Tensor) -> Tensor:
    """``x`` with what torch has only noted in memory: a negation, or that all of it is zero."""
    if x._is_zerotensor():
        return torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    return x.resolve_neg()


def takes(x: Tensor) -> bool:
    """Whether `down` and `up` take ``x`` as it is: a tensor of a CUDA device, or parameter."""
    return (
        type(x) in native.PLAIN
        and x.is_cuda
        and x.dtype in DTYPES
        and not torch._C._functorch.is_legacy_batchedtensor(x)
    )


def _on(x: Tensor) -> AbstractContextManager[Any]:
    here = not x.is_cuda or x.get_device() == torch.cuda.current_device()
    return nullcontext() if here else torch.cuda.device(x.device)


def _register() -> None:
    """The operators of native.py, on CUDA tensors."""

    def down_op(x: Tensor, text: str) -> list[Tensor]:
        return down(x.contiguous(), Plan(text))

    def up_op(bands: Sequence[Tensor], text: str) -> Tensor:
        return up([band.contiguous() for band in bands], Plan(text))

    def down_into(x: Tensor, text: str, out: Sequence[Tensor]) -> None:
        down(x.contiguous(), Plan(text), out)

    def up_into(bands: Sequence[Tensor], text: str, out: Tensor) -> None:
        up([band.contiguous() for band in bands], Plan(text), out)

    runs: dict[str, Callable[..., Any]] = {
        "dwt_down": down_op,
        "dwt_up": up_op,
        "dwt_down_into": down_into,
        "dwt_up_into": up_into,
    }
    for name, run in runs.items():
        torch.library.impl(f"rightfast::{name}", "CUDA", run)


_register()
