"""The native CPU kernels: a whole transform in one operator, on tensors.

    down(x, plan)       signal -> [approximation, details of the deepest level, ..., the first]
    up(bands, plan)     its adjoint for the same plan

A synthesis is the adjoint of an analysis by the reconstruction filters, so these two serve
decomposition and reconstruction, and each is the gradient of the other. The operators
``rightfast::dwt_down`` and ``rightfast::dwt_up`` are differentiable any number of times, have
shapes for the compiler and a rule for vmap; plan.h describes their lists.

Where the extension was not built, `available` is False and nothing else here may be called.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import profiler as _profiler

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
DTYPES = (torch.float32, torch.float64)


def _load() -> bool:
    built = sorted(Path(__file__).parents[1].glob("_native*.so"))
    if built:
        torch.ops.load_library(str(built[0]))  # type: ignore[no-untyped-call]
    return bool(built)


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
    """The two lists that the operators take."""

    ints: list[int]
    taps: list[float]


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
        ints += (a.dim, MODES.index(a.mode), a.before, len(a.lo))
    for level, bits in zip(lengths, present, strict=True):
        for pair in level:
            ints += pair
        ints.append(bits)
    return Plan(ints, [tap for a in axes for tap in (*a.lo, *a.hi)])


def takes(x: Tensor) -> bool:
    """Whether the operators take ``x`` as it is: a plain float32 or float64 tensor of the CPU."""
    return (
        type(x) is Tensor
        and x.device.type == "cpu"
        and x.dtype in DTYPES
        and not torch._C._functorch.is_legacy_batchedtensor(x)
    )


def down(x: Tensor, plan: Plan) -> list[Tensor]:
    """All bands of the contiguous signal ``x``; not recorded by autograd."""
    found: list[Tensor] = _run("dwt_down", x, plan)
    return found


def up(bands: Sequence[Tensor], plan: Plan) -> Tensor:
    """The signal from contiguous ``bands``; not recorded by autograd."""
    found: Tensor = _run("dwt_up", list(bands), plan)
    return found


def recorded_down(x: Tensor, plan: Plan) -> list[Tensor]:
    """`down` as an operator that autograd and compilers see."""
    found: list[Tensor] = torch.ops.rightfast.dwt_down(x, plan.ints, plan.taps)
    return found


def recorded_up(bands: Sequence[Tensor], plan: Plan) -> Tensor:
    """`up` as an operator that autograd and compilers see."""
    found: Tensor = torch.ops.rightfast.dwt_up(list(bands), plan.ints, plan.taps)
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


def _run(name: str, data: Any, plan: Plan) -> Any:
    operator = _OPERATORS[name]
    if torch._C._len_torch_dispatch_stack():  # whoever looks on sees the operator
        return operator(data, plan.ints, plan.taps)
    data = [_real(x) for x in data] if isinstance(data, list) else _real(data)
    # Straight to the kernel: the rules for autograd and vmap, in Python, cost more than it.
    if not _profiler._is_profiler_enabled:
        return operator.redispatch(_CPU, data, plan.ints, plan.taps)
    with torch._C._profiler._RecordFunctionFast(f"rightfast::{name}"):  # else it has no name there
        return operator.redispatch(_CPU, data, plan.ints, plan.taps)


def _real(x: Tensor) -> Tensor:
    """``x`` with the values in memory that torch may only have noted: a negation, zeros."""
    if x._is_zerotensor():
        return torch.zeros(x.shape, dtype=x.dtype)
    return x.resolve_neg()


_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


def _read(plan: Sequence[int]) -> tuple[list[int], list[list[int]], list[int]]:
    """(dimensions, for each level n and length of each axis in turn, bands that are there)."""
    axes, depth = plan[0], plan[1]
    dims = list(plan[2 : 2 + 4 * axes : 4])
    start, step = 2 + 4 * axes, 2 * axes + 1
    levels = [list(plan[start + i * step :][:step]) for i in range(depth)]
    return dims, [level[:-1] for level in levels], [level[-1] for level in levels]


def _shape(like: Sequence[int], dims: Sequence[int], sizes: Sequence[int]) -> list[int]:
    shape = list(like)
    for dim, size in zip(dims, sizes, strict=True):
        shape[dim] = size
    return shape


def _fake_down(x: Tensor, plan: list[int], taps: list[float]) -> list[Tensor]:
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


def _fake_up(bands: list[Tensor], plan: list[int], taps: list[float]) -> Tensor:
    dims, lengths, _ = _read(plan)
    return bands[0].new_empty(_shape(bands[0].shape, dims, lengths[0][0::2]))


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.plan = inputs[1:]


def _backward_down(ctx: Any, grads: list[Tensor]) -> Any:
    contiguous = [g.contiguous() for g in grads]
    return torch.ops.rightfast.dwt_up(contiguous, *ctx.plan), None, None


def _backward_up(ctx: Any, grad: Tensor) -> Any:
    return torch.ops.rightfast.dwt_down(grad.contiguous(), *ctx.plan), None, None


def _vmap_down(info: Any, in_dims: Any, x: Tensor, plan: Any, taps: Any) -> Any:
    bands = torch.ops.rightfast.dwt_down(x.movedim(in_dims[0], 0).contiguous(), plan, taps)
    return bands, [0] * len(bands)


def _vmap_up(info: Any, in_dims: Any, bands: Any, plan: Any, taps: Any) -> Any:
    moved = [
        (b.expand(info.batch_size, *b.shape) if d is None else b.movedim(d, 0)).contiguous()
        for b, d in zip(bands, in_dims[0], strict=True)
    ]
    return torch.ops.rightfast.dwt_up(moved, plan, taps), 0


_OPERATORS: dict[str, Any] = {}
if available:
    _OPERATORS = {n: getattr(torch.ops.rightfast, n).default for n in ("dwt_down", "dwt_up")}
    for _name, _fake, _backward, _vmap in (
        ("rightfast::dwt_down", _fake_down, _backward_down, _vmap_down),
        ("rightfast::dwt_up", _fake_up, _backward_up, _vmap_up),
    ):
        torch.library.register_fake(_name, _fake)
        torch.library.register_autograd(_name, _backward, setup_context=_keep)
        torch.library.register_vmap(_name, _vmap)
