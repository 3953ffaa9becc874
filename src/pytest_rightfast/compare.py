"""Judge an output against the expected one: structure, dtype, shape, NaN, every element.

An element is right if `|got - expected| <= rtol * (|expected| + rms(expected)) + atol`, and the
whole leaf must also satisfy `||got - expected|| <= rtol / 4 * ||expected|| + atol * sqrt(n)`.
The rms term admits the rounding of sums whose terms cancel; a leaf that is expected to be all
zeros must be zero (or within `atol`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import trees
from .leaves import from_array, is_array

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Relative tolerance of one element by dtype: dozens of units in the last place, below what a
# narrower type inside would cause (tf32 costs 3e-4, bfloat16 4e-3). Integers and bools are exact.
RTOL = {"float64": 1e-11, "float32": 1e-5, "float16": 6e-3, "bfloat16": 4e-2}


# Elements that are compared at once: their float64 copies fit into a core's own cache.
PIECE = 2**15


@dataclass(frozen=True)
class Mismatch:
    """The first thing that is wrong with an output."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True)
class Accuracy:
    """The error to float64: relative norm over all leaves, and the worst element over its rms."""

    norm: float = 0.0
    worst: float = 0.0

    def merge(self, other: Accuracy) -> Accuracy:
        return Accuracy(max(self.norm, other.norm), max(self.worst, other.worst))


@dataclass(frozen=True)
class Tolerance:
    """`rtol` None means: by dtype."""

    rtol: float | None = None
    atol: float = 0.0

    def relative(self, dtype: torch.dtype) -> float:
        return RTOL.get(real_name(dtype), 0.0) if self.rtol is None else self.rtol


def real_name(dtype: torch.dtype) -> str:
    """The name of the real dtype behind a complex one: `complex64` computes in float32."""
    name = str(dtype).removeprefix("torch.")
    return {"complex64": "float32", "complex128": "float64", "complex32": "float16"}.get(name, name)


def compare(
    got: Any, expected: Any, dtypes: Any, tolerance: Tolerance, where: str = "output"
) -> tuple[Mismatch | None, Accuracy]:
    """Compare two trees of results.

    Args:
        got: what the backend returned.
        expected: what the reference returned in float64.
        dtypes: a tree like `expected` with the sets of dtypes that are right, None for any.
        where: the name of the root in messages.
    """
    below, wanted = trees.children(got), trees.children(expected)
    if (below is None) != (wanted is None) or trees.kind(got) != trees.kind(expected):
        what = f"expected a {trees.kind(expected)}, got a {trees.kind(got)}"
        if type(got) is not type(expected):
            what += f" ({type(got).__name__} in place of {type(expected).__name__})"
        return Mismatch(where, what), Accuracy()
    if below is None or wanted is None:
        return compare_leaf(got, expected, dtypes, tolerance, where)
    accuracy = Accuracy()
    mine, theirs = dict(below), dict(wanted)
    allowed = dict(trees.children(dtypes) or ())
    for key in theirs:
        name = f"{where}[{key!r}]"
        wrong, one = compare(mine[key], theirs[key], allowed.get(key), tolerance, name)
        accuracy = accuracy.merge(one)
        if wrong:
            return wrong, accuracy
    return None, accuracy


def compare_leaf(
    got: Any, expected: Any, dtypes: Any, tolerance: Tolerance, where: str
) -> tuple[Mismatch | None, Accuracy]:
    left, right = as_tensor(got), as_tensor(expected)
    if right is None or left is None:
        if left is None and right is None and _equal(got, expected):
            return None, Accuracy()
        return Mismatch(where, f"expected {_brief(expected)}, got {_brief(got)}"), Accuracy()
    if left.shape != right.shape:
        what = f"expected shape {tuple(right.shape)}, got {tuple(left.shape)}"
        return Mismatch(where, what), Accuracy()
    if dtypes and left.dtype not in dtypes:
        names = " or ".join(sorted(str(dtype) for dtype in dtypes))
        return Mismatch(where, f"expected dtype {names}, got {left.dtype}"), Accuracy()
    rtol = tolerance.relative(left.dtype)
    if dtypes and isinstance(got, float | complex):
        # `.item()` gives a Python float whatever it was computed in.
        rtol = max(tolerance.relative(dtype) for dtype in dtypes)
    return _compare_values(left, right, rtol, tolerance.atol, where)


def _equal(left: Any, right: Any) -> bool:
    """Equality of what is no number; objects that cannot say are not equal."""
    try:
        return left is right or bool(left == right)
    except Exception:
        return False


def as_tensor(leaf: Any) -> Tensor | None:
    """A plain strided tensor of the leaf's values, or None if it is no number.

    A tensor subclass is no plain tensor: it may compute later, outside the timed call.
    """
    import torch

    if type(leaf) in (torch.Tensor, torch.nn.Parameter):
        plain: Tensor = leaf.detach()
        return plain.to_dense() if plain.layout is not torch.strided else plain
    if is_array(leaf) and leaf.dtype.kind in "fciub":
        return from_array(leaf)
    if isinstance(leaf, int) and not -(2**63) <= leaf < 2**63:
        return None  # compared as Python does
    if isinstance(leaf, bool | int | float | complex):
        dtype = {float: torch.float64, complex: torch.complex128}.get(type(leaf))
        return torch.tensor(leaf, dtype=dtype, device="cpu")
    return None


def _compare_values(
    got: Tensor, expected: Tensor, rtol: float, atol: float, where: str
) -> tuple[Mismatch | None, Accuracy]:
    import torch

    if got.numel() == 0:
        return None, Accuracy()
    if got.dtype.is_complex != expected.dtype.is_complex:
        return Mismatch(where, f"expected {expected.dtype}, got {got.dtype}"), Accuracy()
    left, right = got.cpu(), expected.cpu()
    if not (left.dtype.is_floating_point or left.dtype.is_complex):
        wrong = left != right
        if not wrong.any():
            return None, Accuracy()
        return _describe(left, right, wrong, where), Accuracy()
    if left.dtype.is_complex:
        left, right = (torch.view_as_real(side.resolve_conj()) for side in (left, right))
    right = right.to(torch.float64)
    if right.any():
        # Below its smallest normal number a type has steps, not digits: two of them are allowed.
        known = torch.finfo(left.dtype)
        atol += 2 * known.smallest_normal * known.eps
    errors = _errors(left, right, rtol, atol)
    accuracy = Accuracy(_ratio(errors.distance, errors.size), _ratio(errors.worst, errors.rms))
    if errors.wrong is not None:
        return _describe(left, right, errors.wrong, where), accuracy
    allowed = rtol / 4 * errors.size + atol * left.numel() ** 0.5
    if not errors.distance <= allowed:
        what = f"relative norm of the error {accuracy.norm:.3g}, allowed {rtol / 4:.3g}"
        return Mismatch(where, what), accuracy
    return None, accuracy


@dataclass(frozen=True)
class _Errors:
    distance: float  # norm of the error
    size: float  # norm of what is expected
    rms: float
    worst: float  # largest error of an element
    wrong: Tensor | None  # mask of the wrong elements, if there are any


def _errors(got: Tensor, expected: Tensor, rtol: float, atol: float) -> _Errors:
    """Errors of finite values, in pieces that stay in the cache; anything else goes the careful
    way."""
    import torch

    size = torch.linalg.vector_norm(expected).item()
    rms = size / math.sqrt(expected.numel())
    distance = worst = 0.0
    within = True
    left, right = (torch.split(side.reshape(-1), PIECE) for side in (got, expected))
    for one, wanted in zip(left, right):
        error = (one.to(torch.float64) - wanted).abs_()
        distance = math.hypot(distance, torch.linalg.vector_norm(error).item())
        most = error.amax().item()
        worst = max(worst, most)
        # What is small beside the rms is within the limit of every element.
        small = most <= rtol * rms + atol
        within = within and (small or not _beyond(error, wanted, rms, rtol, atol).any())
    if not (math.isfinite(size) and math.isfinite(distance)):
        return _careful_errors(got, expected, rtol, atol)
    wrong = None
    if not within:
        wrong = _beyond((got.to(torch.float64) - expected).abs(), expected, rms, rtol, atol)
    return _Errors(distance, size, rms, worst, wrong)


def _beyond(error: Tensor, expected: Tensor, rms: float, rtol: float, atol: float) -> Tensor:
    return error > expected.abs().add_(rms).mul_(rtol).add_(atol)


def _careful_errors(got: Tensor, expected: Tensor, rtol: float, atol: float) -> _Errors:
    """NaN must meet NaN, infinity the same infinity; the rest is judged as if they were not there.

    A value beyond the narrow type's range is rightly infinite there.
    """
    import torch

    reach = expected.to(got.dtype).to(torch.float64)
    expected = torch.where(reach.isinf(), reach, expected)
    got = got.to(torch.float64)
    same = (got.isnan() & expected.isnan()) | (got == expected)
    finite = expected.isfinite()
    error = torch.where(same, 0.0, (got - expected).abs())
    squares = torch.where(finite, expected, 0.0).square()
    rms = squares.mean().sqrt().item()
    limit = torch.where(finite, rtol * (expected.abs() + rms) + atol, 0.0)
    wrong = ~(error <= limit)  # NaN compares false and is wrong
    regular = torch.where(finite, error, 0.0).nan_to_num(nan=math.inf)
    distance = torch.linalg.vector_norm(regular).item()
    size = squares.sum().sqrt().item()
    return _Errors(distance, size, rms, regular.amax().item(), wrong if wrong.any() else None)


def _ratio(error: float, scale: float) -> float:
    """`error / scale`, finite: JSON has no infinity, and NaN never passes."""
    if error == 0:
        return 0.0
    ratio = error / scale if scale else 1e300
    return ratio if ratio == ratio and ratio < 1e300 else 1e300


def _describe(got: Tensor, expected: Tensor, wrong: Tensor, where: str) -> Mismatch:
    count, total = int(wrong.sum()), wrong.numel()
    first = tuple(int(i) for i in wrong.nonzero()[0])
    mine, theirs = got[first].item(), expected[first].item()
    what = f"{count} of {total} elements are wrong, first at {first}: expected {theirs:.9g}, "
    return Mismatch(where, what + f"got {mine:.9g}")


def _brief(value: Any) -> str:
    try:
        shown = repr(value)
    except Exception as error:  # a foreign object's own; its type is what matters
        shown = f"(its repr fails: {error})"
    text = f"{type(value).__module__}.{type(value).__qualname__} {shown}"
    return text if len(text) <= 120 else text[:117] + "..."
