"""Circuits by Triton kernels: what a plan comes to on a GPU, and the passes over it.

What they serve: float32 circuits, with all options of a pass, and samples. Everything else, and the
values of inputs that are not categorical, is served by torch operations on the same device, with
the same results.
"""

from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, get_args

import torch

from rightfast.circuits.plan import Plan

if TYPE_CHECKING:
    from rightfast.circuits.gpu.passes import Engine

Precision = Literal["ieee", "tf32x3", "bf16x3", "tf32", "bf16"]


@lru_cache(maxsize=1)
def _available() -> bool:
    return torch.cuda.is_available() and torch.version.hip is None and bool(find_spec("triton"))


def takes(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether circuits on this device are served by kernels."""
    return device.type == "cuda" and dtype == torch.float32 and _available()


def checked(
    graphs: bool | None, precision: Precision | None
) -> tuple[bool | None, Precision | None]:
    """Raises ValueError for a precision that there is not, and for graphs without one."""
    known = get_args(Precision)
    if precision not in (None, *known):
        raise ValueError(f"precision must be None or one of {known}, got {precision!r}")
    if graphs is not False and precision is None:
        raise ValueError(
            f"graphs={graphs} records what kernels do, expected a precision= of {known}, got None, "
            "which leaves all to torch; 'ieee' is float32 throughout"
        )
    return graphs, precision


def engine(
    plan: Plan, device: torch.device, precision: Precision, graphs: bool | None
) -> "Engine | None":
    """Passes by kernels; None for a plan that they do not serve."""
    from rightfast.circuits.gpu.lowering import tables_of
    from rightfast.circuits.gpu.passes import Engine

    tables = tables_of(plan)
    return None if tables is None else Engine(plan, tables, device, precision, graphs)
