"""Data as the inputs need it: checked, with the batch innermost, missing values masked."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rightfast.circuits.plan import InputFamily, Plan


@dataclass(frozen=True)
class Evidence:
    """By family of inputs the values [G, B], and what is missing, [G, B] or None."""

    batch: int
    values: tuple[Tensor, ...]
    missing: tuple[Tensor | None, ...]


def read(
    plan: Plan, x: Tensor, missing_mask: Tensor | None, dtype: torch.dtype, device: torch.device
) -> Evidence:
    """Data [batch, variables] and a mask of the same shape (or [variables]), True: missing.

    Raises TypeError for other types, ValueError for shapes that do not fit, a category that a
    variable does not have, or a value that is not finite.
    """
    missing = check(plan, x, missing_mask, device)
    by_variable = x.t().contiguous()
    gone = None if missing is None else missing.t().contiguous()
    values, masks = [], []
    for family in plan.inputs:
        part = _pick(by_variable, family)
        mask = None if gone is None else _pick(gone, family)
        if mask is not None:
            part = part.masked_fill(mask, 0)
        values.append(_checked(part, family, dtype))
        masks.append(mask)
    return Evidence(len(x), tuple(values), tuple(masks))


def check(
    plan: Plan, x: Tensor, missing_mask: Tensor | None, device: torch.device
) -> Tensor | None:
    """Raises as `read` does for what types, shapes and devices tell; the mask in the data's shape,
    without a look at values."""
    if not isinstance(x, Tensor):
        raise TypeError(f"data must be a tensor [batch, variables], got {type(x).__name__}")
    if x.layout != torch.strided:
        raise TypeError(f"data must be a dense tensor, got {x.layout}: call x.to_dense()")
    if x.is_complex():
        raise TypeError(f"data must be real, got {x.dtype}")
    if x.dim() != 2 or x.shape[1] != plan.num_variables:
        raise ValueError(
            f"data must have the shape [batch, {plan.num_variables}], one column for each "
            f"variable, got {list(x.shape)}"
        )
    if x.device != device:
        raise ValueError(f"data is on {x.device}, the circuit on {device}: move one of them")
    return _mask(x, missing_mask)


def _mask(x: Tensor, missing_mask: Tensor | None) -> Tensor | None:
    if missing_mask is None:
        return None
    if not isinstance(missing_mask, Tensor) or missing_mask.dtype != torch.bool:
        kind = getattr(missing_mask, "dtype", type(missing_mask).__name__)
        raise TypeError(f"missing_mask must be a tensor of bool, True where missing, got {kind}")
    if missing_mask.shape not in (x.shape, x.shape[1:]):
        raise ValueError(
            f"missing_mask must have the shape of the data, {list(x.shape)}, or "
            f"{list(x.shape[1:])}, got {list(missing_mask.shape)}"
        )
    return missing_mask.expand(x.shape)


def _pick(rows: Tensor, family: InputFamily) -> Tensor:
    variables = family.variables
    first, last = int(variables[0]), int(variables[-1])
    if len(variables) == 1 or (
        last - first + 1 == len(variables) and (np.diff(variables) == 1).all()
    ):
        return rows[first : last + 1]
    return rows[torch.from_numpy(variables).to(rows.device)]


def _checked(part: Tensor, family: InputFamily, dtype: torch.dtype) -> Tensor:
    categories = family.dist.num_categories
    if categories is None:
        part = part.to(dtype)
        if not bool(part.isfinite().all()):
            raise ValueError("data must be finite: mark missing values by missing_mask=")
        return part
    if part.is_floating_point() and not bool((part == part.floor()).all()):
        raise ValueError("data of discrete variables must be whole numbers")
    if not part.is_floating_point():
        part = part.long()
    if part.numel():
        low, high = part.aminmax()
        if low < 0 or high >= categories:
            outside = (part < 0) | (part >= categories)
            group, sample = (int(i) for i in outside.nonzero()[0])
            raise ValueError(
                f"variable {int(family.variables[group])} has the categories 0 to "
                f"{categories - 1}, got {part[group, sample].item():g} in sample {sample}: mark "
                "missing values by missing_mask="
            )
    return part.long()
