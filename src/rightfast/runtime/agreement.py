"""Whether two answers agree, and how far an answer is from an exact one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from rightfast.runtime.scratch import leaves, tensors

# Of one element, beside its magnitude and the leaf's; a leaf as a whole has a quarter of it.
RTOL = {"float64": 1e-11, "float32": 1e-5, "float16": 6e-3, "bfloat16": 4e-2}
COARSE = 0.25  # of the 8-bit floats
CHUNK = 2**22  # elements that are compared in float64 at a time
WORSE = 1.5  # an error this many times the default's is less accurate


def disagreement(got: Any, wanted: Any, rtol: float | None, atol: float) -> str:
    """Where two results differ by more than rounding, or an empty string.

    An element is right if `|got - wanted| <= rtol * (|wanted| + rms) + atol`, where `rms` is that
    of the leaf; NaN must meet NaN, integers and bools must be equal.
    """
    ours, theirs = list(leaves(got)), list(leaves(wanted))
    if len(ours) != len(theirs):
        return f"{len(ours)} results, not {len(theirs)}"
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if why := _leaf(one, other, rtol, atol):
            return f"result {number}: {why}" if len(ours) > 1 else why
    return ""


def _leaf(got: Any, wanted: Any, rtol: float | None, atol: float) -> str:
    if not isinstance(wanted, torch.Tensor) or not isinstance(got, torch.Tensor):
        same = type(got) is type(wanted) and bool(
            got == wanted or (got != got and wanted != wanted)
        )
        return "" if same else f"{got!r}, not {wanted!r}"
    for name in ("shape", "dtype", "device", "layout"):
        left, right = getattr(got, name), getattr(wanted, name)
        if left != right:
            return f"{name} {left}, not {right}"
    if wanted.layout is not torch.strided:
        got, wanted = got.to_dense(), wanted.to_dense()
    if not (wanted.is_floating_point() or wanted.is_complex()):
        wrong = int((got != wanted).sum())
        return f"{wrong} of {wanted.numel()} elements differ" if wrong else ""
    return _values(got, wanted, tolerance(wanted) if rtol is None else rtol, atol)


def tolerance(tensor: torch.Tensor) -> float:
    """The relative tolerance of a floating or complex dtype."""
    kind = tensor.real.dtype if tensor.is_complex() else tensor.dtype
    return RTOL.get(str(kind).removeprefix("torch."), COARSE)


def _values(got: torch.Tensor, wanted: torch.Tensor, rtol: float, atol: float) -> str:
    size = math.sqrt(sum(float(_finite(b).square().sum()) for _, b in _chunks(got, wanted)))
    mean = size / math.sqrt(max(wanted.numel(), 1))
    wrong, worst, distance = 0, 0.0, 0.0
    for one, other in _chunks(got, wanted):
        same = (one == other) | (one.isnan() & other.isnan())
        error = torch.where(same, 0.0, (one - other).abs())
        bad = ~(error <= rtol * (_finite(other).abs() + mean) + atol)
        wrong += int(bad.sum())
        worst = max(worst, float(_finite(error).max()) if error.numel() else 0.0)
        distance += float(_finite(error).square().sum())
    if wrong:
        return f"{wrong} of {wanted.numel()} elements differ, by up to {worst:.3g}"
    if math.sqrt(distance) > rtol / 4 * size + atol * math.sqrt(wanted.numel()):
        return f"the error as a whole is {math.sqrt(distance):.3g} of {size:.3g}"
    return ""


def _finite(values: torch.Tensor) -> torch.Tensor:
    return values.nan_to_num(0.0, 0.0, 0.0)


def _chunks(*found: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """The elements in float64, some at a time: a large result has no room for a wide copy."""
    flat = [(torch.view_as_real(t.resolve_conj()) if t.is_complex() else t) for t in found]
    flat = [t.detach().reshape(-1) for t in flat]
    for start in range(0, flat[0].numel(), CHUNK):
        yield tuple(t[start : start + CHUNK].to(torch.float64) for t in flat)


def errors(got: Any, exact: Any) -> list[float]:
    """The relative error norm of each tensor to the exact one, on the device of the former.

    Raises:
        ValueError: they do not have the same number of tensors, or not the same shapes.
    """
    ours, theirs = tensors(got), tensors(exact)
    shapes = [[tuple(t.shape) for t in side] for side in (ours, theirs)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"reference= expected tensors of shapes {shapes[0]}, got {shapes[1]}; return what a "
            "candidate returns, or, if that is nothing, the new values of writes= in order"
        )
    found = []
    for one, other in zip(ours, theirs, strict=True):
        pairs = list(_chunks(one, other.to(one.device)))
        distance = math.sqrt(sum(float((a - b).square().sum()) for a, b in pairs))
        size = math.sqrt(sum(float(b.square().sum()) for _, b in pairs))
        found.append(distance / size if size else distance)
    return found


def less_accurate(found: list[float], base: list[float]) -> str:
    """Where an answer is farther from the exact one than the default's, or an empty string."""
    for number, (error, allowed) in enumerate(zip(found, base, strict=True)):
        if not error <= WORSE * allowed:
            return f"result {number}: error {error:.3g}, the default's is {allowed:.3g}"
    return ""
