"""The expected answer, in float64, from a reference that is watched while it computes.

A reference that silently computes in float32 would bless the errors that it shares with the
backend. Two guards: a dispatch mode refuses torch operators whose result is narrower than float64
and names them; and any reference, numpy ones too, must respond to a relative change of 2^-40 of
its inputs, which float32 arithmetic (2^-24) cannot see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import bits, leaves, trees
from .case import Call, PerfCase
from .compare import as_tensor
from .dispatch import watching
from .errors import CaseError
from .evaluate import Answer, answer, cotangent, dtypes_of, state

if TYPE_CHECKING:
    from torch import Tensor

ABSENT = object()  # the reference says nothing about the return value


@dataclass(frozen=True)
class Slopes:
    """Directional derivatives by central differences, where a reference has no autograd."""

    directions: tuple[Tensor, ...]
    values: tuple[float, ...]


@dataclass
class Expected:
    """What a right answer looks like, in float64."""

    output: Any
    mutated: dict[int | str, Any] = field(default_factory=dict)
    gradients: dict[str, Tensor | Slopes | None] = field(default_factory=dict)
    dtypes: Any = None


@contextmanager
def float64_only(name: str) -> Iterator[None]:
    """Refuse torch arithmetic below float64; the default dtype is float64 inside."""
    import torch

    def guard(operator: Any, result: Any) -> None:
        for _, leaf in trees.leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.dtype != leaves.wide(leaf.dtype):
                raise CaseError(
                    f"the reference {name} computes below float64: {operator} gave {leaf.dtype}",
                    expected="float64 throughout; its inputs come in float64",
                    got=f"{operator} -> {leaf.dtype}",
                    remedy="drop the cast, or build constants with dtype=x.dtype",
                )

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with watching(guard):
            yield
    finally:
        torch.set_default_dtype(before)


def expect(case: PerfCase, call: Call, dtypes: Any) -> Expected:
    """Run the reference of `case` on `call`, in float64 and under the guard."""
    assert case.reference is not None
    wide = call.map(leaves.double)
    name = getattr(case.reference, "__qualname__", repr(case.reference))
    plain = PerfCase(inputs=case.inputs, check=bool, mutates=case.mutates)
    before = {key: trees.map_leaves(leaves.clone, wide.tree.get(key)) for key in case.mutates}
    with float64_only(name):
        if case.backward:
            output, slopes = _gradients(case, wide)
            return Expected(output, {}, slopes, dtypes)
        found = answer(case.reference, wide, plain)
    if not case.mutates:
        return Expected(found.output, {}, {}, dtypes)
    if any(bits.first_difference(found.mutated[k], state(before[k])) for k in case.mutates):
        return Expected(found.output, found.mutated, {}, dtypes)
    return Expected(ABSENT, _as_mutated(case, found), {}, None)


def _as_mutated(case: PerfCase, found: Answer) -> dict[int | str, Any]:
    """A reference that leaves its inputs alone returns the new values in order."""
    keys = list(case.mutates)
    if len(keys) == 1:
        return {keys[0]: found.output}
    values = found.output
    if not isinstance(values, tuple | list) or len(values) != len(keys):
        raise CaseError(
            "the reference of a case with mutates= changed nothing and returned something else",
            expected=f"{len(keys)} new values, in the order of mutates={tuple(keys)}",
            got=trees.kind(values),
            remedy="return the new values, or change the arguments in place as the function does",
        )
    return dict(zip(keys, values))


def _gradients(case: PerfCase, wide: Call) -> tuple[Any, dict[str, Any]]:
    """Gradients by the reference's own autograd, or by central differences if it has none."""
    assert case.reference is not None
    plain = PerfCase(inputs=case.inputs, check=bool, backward=case.backward)
    try:
        found = answer(case.reference, wide.map(leaves.clone), plain)
        if any(gradient is not None for gradient in found.gradients.values()):
            return trees.map_leaves(_detached, found.output), dict(found.gradients)
    except (RuntimeError, TypeError) as error:
        if "requires grad" not in str(error):
            raise
    inputs = dict(leaves.differentiable(trees.leaves(wide.tree)))
    for tensor in inputs.values():
        tensor.requires_grad_(False)
    output = case.reference(*wide.args, **wide.kwargs)
    slopes = {name: _slopes(case.reference, wide, tensor) for name, tensor in inputs.items()}
    return output, slopes


def _detached(leaf: Any) -> Any:
    return leaf.detach() if hasattr(leaf, "detach") else leaf


def _slopes(reference: Callable[..., Any], call: Call, tensor: Tensor, count: int = 3) -> Slopes:
    """d<cotangent, reference>/dt along random directions; `tensor` is stepped in place."""
    import torch

    generator = torch.Generator().manual_seed(tensor.numel())
    centre = tensor.clone()
    step = 1e-6 * (centre.abs().mean().item() or 1.0)
    directions, values = [], []
    for _ in range(count):
        direction = torch.randn(
            tensor.shape, generator=generator, dtype=torch.float64, device="cpu"
        )
        direction = direction.to(dtype=tensor.dtype, device=tensor.device)
        sides = []
        for sign in (1, -1):
            tensor.copy_(centre + sign * step * direction)
            sides.append(_inner(reference(*call.args, **call.kwargs)))
        tensor.copy_(centre)
        directions.append(direction)
        values.append((sides[0] - sides[1]) / (2 * step))
    return Slopes(tuple(directions), tuple(values))


def _inner(output: Any) -> float:
    """Real part of <cotangent, output> over all floating leaves."""
    total = 0.0
    for path, leaf in trees.leaves(output):
        tensor = as_tensor(leaf)
        if tensor is not None and (tensor.is_floating_point() or tensor.is_complex()):
            total += (cotangent(path, tensor).conj() * tensor).sum().real.item()
    return total


def allowed_dtypes(case: PerfCase, call: Call) -> Any:
    """The output dtypes that are right: those of the reference on the inputs as they are.

    A reference that widens (numpy has no bfloat16) or only takes float64 allows the inputs' own
    dtypes as well.
    """
    assert case.reference is not None
    inputs = dtypes_of(call.tree)
    native = None
    for copied in (leaves.clone, leaves.double):
        try:
            with _quiet():
                fresh = call.map(copied)
                native = case.reference(*fresh.args, **fresh.kwargs)
            break
        except Exception:
            continue  # it only takes float64; what it raises there, it will raise again

    def allowed(leaf: Any) -> Any:
        tensor = as_tensor(leaf)
        if tensor is None:
            return None
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return frozenset({tensor.dtype})
        family = {d for d in inputs if d.is_complex == tensor.dtype.is_complex}
        widened = all(tensor.dtype.itemsize > d.itemsize for d in family)
        return frozenset({tensor.dtype} | (family if widened else set()))

    if native is not None:
        return trees.map_leaves(allowed, native)
    return None


@contextmanager
def _quiet() -> Iterator[None]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def check_response(case: PerfCase, call: Call) -> None:
    """Raise if the reference does not respond to a relative change of 2^-40 as to one of 2^-20.

    A function that is insensitive to small changes (a sign, a rounding) passes: it responds to
    neither.
    """
    base, coarse, fine = (_nudged(case, call, size) for size in (0.0, 2.0**-20, 2.0**-40))
    for (path, before), (_, far), (_, near) in zip(*map(trees.leaves, (base, coarse, fine))):
        share = _response(as_tensor(before), as_tensor(far), as_tensor(near))
        if share is not None and share < 0.9:
            raise CaseError(
                f"the reference {getattr(case.reference, '__qualname__', case.reference)} "
                f"computes below float64 ({trees.show(path[1:])})",
                expected="an output that responds to a relative input change of 2^-40",
                got=f"a response of {share:.1%} of the elements that respond to one of 2^-20",
                remedy="compute in float64 inside; its inputs come in float64",
            )


def _nudged(case: PerfCase, call: Call, size: float) -> Any:
    """All outputs of the reference after a random relative change of the inputs."""
    import torch

    assert case.reference is not None
    generator = torch.Generator().manual_seed(0)

    def nudge(leaf: Any) -> Any:
        fresh = leaves.double(leaf)
        for _, tensor in leaves.tensors_of(fresh):
            if tensor.is_floating_point() or tensor.is_complex():
                noise = torch.rand(
                    tensor.shape, generator=generator, dtype=torch.float64, device="cpu"
                )
                with torch.no_grad():
                    tensor.mul_(1 + size * (1 + noise.to(tensor.device)))
        return fresh

    plain = PerfCase(inputs=case.inputs, check=bool, mutates=case.mutates)
    found = answer(case.reference, call.map(nudge), plain)
    return found.output, found.mutated


def _response(base: Tensor | None, far: Tensor | None, near: Tensor | None) -> float | None:
    """Of the elements that 2^-20 moves so far that float64 can hold the 2^-20th part of it, the
    share that 2^-40 moves. None if they are few, as where a rounding or a sign jumps."""
    if base is None or far is None or near is None or not base.shape == far.shape == near.shape:
        return None
    if not (base.is_floating_point() or base.is_complex()):
        return None
    visible = (far - base).abs() * 2.0**-20 > base.abs() * 2.0**-50
    if visible.sum() < 0.1 * visible.numel() or not visible.any():
        return None
    return float((near != base)[visible].double().mean())
