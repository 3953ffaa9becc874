"""The native CPU kernels: a whole transform in one operator, on tensors.

    down(x, plan)       signal -> [approximation, details of the deepest level, ..., the first]
    up(bands, plan)     its adjoint for the same plan

A synthesis is the adjoint of an analysis by the reconstruction filters, so these two serve
decomposition and reconstruction, and each is the gradient of the other. The operators
``rightfast::dwt_down`` and ``rightfast::dwt_up`` are differentiable any number of times, have
shapes for the compiler and a rule for vmap (native_rules.py); plan.h describes their plan.

Where the extension was not built, `available` is False and nothing else here may be called.
"""

import operator
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import profiler as _profiler

from rightfast_kernels.dwt.native_rules import define, register
from rightfast_kernels.dwt.reference import borders

# PyWavelets' numbers, which plan.h has, too.
MODES = (
    "zero",
    "symmetric",
    "constant",
    "smooth",
    "periodic",
    "periodization",
    "reflect",
    "antisymmetric",
    "antireflect",
)
MOST_AXES = 6
SETS = ("avx512", "avx2", "baseline")
DTYPES = (torch.float32, torch.float64)
PLAIN = (Tensor, torch.nn.Parameter)


def _load() -> bool:
    built = sorted(Path(__file__).parents[1].glob("_native*.so"))
    if built:
        _check_environment()
        torch.ops.load_library(str(built[0]))  # type: ignore[no-untyped-call]
    return bool(built)


def _check_environment() -> None:
    """Raises ValueError if RIGHTFAST_CPU names no instruction set: a slip would go unseen."""
    asked = os.environ.get("RIGHTFAST_CPU", "")
    if asked and asked not in SETS:
        raise ValueError(
            f"expected RIGHTFAST_CPU as one of {SETS}, got {asked!r}; unset it for the widest set "
            "that this processor has"
        )


available = _load()


@dataclass(frozen=True)
class AxisPlan:
    """One axis: dimension from the end, border mode, samples before, taps in reading order."""

    dim: int
    mode: str
    before: int
    lo: tuple[float, ...]
    hi: tuple[float, ...]


def analysis_axis(
    dim: int, mode: str, dec_lo: Sequence[float], dec_hi: Sequence[float]
) -> AxisPlan:
    """A decomposition along ``dim``."""
    before = borders(1, len(dec_lo), mode)[0]
    return AxisPlan(dim, mode, before, tuple(dec_lo[::-1]), tuple(dec_hi[::-1]))


def synthesis_axis(
    dim: int, mode: str, rec_lo: Sequence[float], rec_hi: Sequence[float]
) -> AxisPlan:
    """A reconstruction along ``dim``, as the adjoint of an analysis."""
    taps = len(rec_lo)
    before, how = (taps // 2 - 1, "periodic") if mode == "periodization" else (taps - 2, "zero")
    return AxisPlan(dim, how, before, tuple(rec_lo), tuple(rec_hi))


@dataclass(frozen=True)
class Plan:
    """What the operators take, as plan.h describes it."""

    text: str


def make_plan(
    axes: Sequence[AxisPlan],
    lengths: Sequence[Sequence[tuple[int, int]]],
    present: Sequence[int],
) -> Plan:
    """The plan for ascending ``axes``.

    ``lengths``: for each level, the finest first, (samples, coefficients) along each axis;
    ``present``: for each level the bands that are there, bit k for band k (the first axis is
    the highest bit, "d" is 1; bit 0 counts at the deepest level only).
    """
    ints = [len(axes), len(lengths)]
    for a in axes:
        ints += (a.dim, MODES.index(a.mode), a.before, len(a.lo), *_bits(a.lo), *_bits(a.hi))
    for level, bits in zip(lengths, present, strict=True):
        for pair in level:
            ints += pair
        ints.append(bits)
    return Plan(" ".join(map(str, ints)))


def _bits(taps: Sequence[float]) -> tuple[int, ...]:
    return struct.unpack(f"{len(taps)}q", struct.pack(f"{len(taps)}d", *taps))


def takes(x: Tensor) -> bool:
    """Whether the operators take ``x`` as it is: float32 or float64, of the CPU, no subclass."""
    return (
        type(x) in PLAIN
        and x.device.type == "cpu"
        and x.dtype in DTYPES
        and not torch._C._functorch.is_legacy_batchedtensor(x)
    )


def takes_complex(x: Tensor) -> bool:
    """The same, or a complex tensor, which goes as pairs."""
    return takes(torch.view_as_real(x) if x.is_complex() and not x.is_conj() else x)


def down(x: Tensor, plan: Plan) -> list[Tensor]:
    """All bands of the contiguous signal ``x``; not recorded by autograd."""
    found: list[Tensor] = _run("dwt_down", x, plan)
    return found


def up(bands: Sequence[Tensor], plan: Plan) -> Tensor:
    """The signal from contiguous ``bands``; not recorded by autograd."""
    found: Tensor = _run("dwt_up", list(bands), plan)
    return found


def down_into(x: Tensor, plan: Plan, out: Sequence[Tensor]) -> None:
    """`down` into contiguous tensors, which share no memory with one another nor with ``x``."""
    _run("dwt_down_into", x, plan, list(out))
    written(out)


def up_into(bands: Sequence[Tensor], plan: Plan, out: Tensor) -> None:
    """`up` into a contiguous tensor, which shares no memory with the bands."""
    _run("dwt_up_into", list(bands), plan, out)
    written([out])


def written(out: Sequence[Tensor]) -> None:
    """Tells autograd, which may have kept one of them for a backward pass to come."""
    for x in out:
        if not x.is_inference():
            torch.autograd.graph.increment_version(x)


def recorded_down(x: Tensor, plan: Plan) -> list[Tensor]:
    """`down` as an operator that autograd and compilers see."""
    found: list[Tensor] = torch.ops.rightfast.dwt_down(x, plan.text)
    return found


def recorded_up(bands: Sequence[Tensor], plan: Plan) -> Tensor:
    """`up` as an operator that autograd and compilers see."""
    found: Tensor = torch.ops.rightfast.dwt_up(list(bands), plan.text)
    return found


def empty_many(like: Tensor, sizes: list[int], ndim: int) -> list[Tensor]:
    """Uninitialised contiguous tensors as ``like``; ``sizes`` are their shapes in a row."""
    found: list[Tensor] = torch.ops.rightfast.empty_many.default(like, sizes, ndim)
    return found


def cpu(name: str = "") -> str:
    """Runs the loops of ``name``, "avx512", "avx2" or "baseline", from now on; "": the widest.

    Returns the name. Raises ValueError if this processor does not have it.
    """
    chosen: str = torch.ops.rightfast.dwt_cpu(name)
    if name and chosen != name:
        raise ValueError(
            f"expected an instruction set of this processor, got {name!r}; give 'baseline', or '' "
            f"for the widest, {chosen!r}, which runs now"
        )
    return chosen


def _run(name: str, data: Any, plan: Plan, *out: Any) -> Any:
    if torch._C._len_torch_dispatch_stack():  # whoever looks on sees the operator
        return _OPERATORS[name](data, plan.text, *out)
    # Straight to the kernel: the rules for autograd and vmap, in Python, cost more than it.
    call = _DIRECT[name]
    if _profiler._is_profiler_enabled:  # else it has no name there
        with torch._C._profiler._RecordFunctionFast(f"rightfast::{name}"):
            return call(_MARKED, _all_real(data), plan.text, *out)
    try:
        return call(_MARKED, data, plan.text, *out)
    except RuntimeError:
        real = _all_real(data)
        if real is data:
            raise
        return call(_MARKED, real, plan.text, *out)


def _all_real(data: Any) -> Any:
    """``data``, itself if nothing has to be done."""
    if isinstance(data, Tensor):
        return _real(data)
    real = [_real(x) for x in data]
    return data if all(map(operator.is_, real, data)) else real


def _real(x: Tensor) -> Tensor:
    """``x`` with its zeros in memory, where torch has only noted that all of it is zero."""
    return torch.zeros(x.shape, dtype=x.dtype) if x._is_zerotensor() else x


# What torch may only have noted is a negation, which it carries out on the way, and zeros.
_MARKED = (
    torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    | torch._C.DispatchKeySet(torch._C.DispatchKey.Negative)
    | torch._C.DispatchKeySet(torch._C.DispatchKey.ZeroTensor)
)
_OPERATORS: dict[str, Any] = {}
_DIRECT: dict[str, Any] = {}  # what their `redispatch` calls
if available:
    _names = ("dwt_down", "dwt_up", "dwt_down_into", "dwt_up_into")
    _OPERATORS = {name: getattr(torch.ops.rightfast, name).default for name in _names}
    _DIRECT = {name: found._handle.redispatch_boxed for name, found in _OPERATORS.items()}
else:
    define()
register()
