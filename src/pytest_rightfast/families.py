"""Built-in input families: the corners that a plain normal draw hides.

Each takes one input leaf of a case and returns the leaf of that family; leaves that are not
floating tensors or arrays pass unchanged. They are verified, never timed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .leaves import from_array, is_array


def _floating(transform: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def apply(leaf: Any) -> Any:
        import torch

        if is_array(leaf) and leaf.dtype.kind in "fc":
            return transform(from_array(leaf)).numpy()
        is_float = isinstance(leaf, torch.Tensor) and (
            leaf.is_floating_point() or leaf.is_complex()
        )
        return transform(leaf.detach()) if is_float else leaf

    return apply


def _noncontiguous(tensor: Any) -> Any:
    """Every second element of a larger block, in reversed order of dimensions."""
    wide = tensor.new_zeros((*tensor.shape[::-1], 2))
    view = wide.select(-1, 0).permute(*range(tensor.dim() - 1, -1, -1))
    view.copy_(tensor)
    return view


FAMILIES: dict[str, Callable[[Any], Any]] = {
    # 1e3 stays inside float16 also after sums of some dozen terms.
    "large": _floating(lambda t: t * 1e3),
    "near_zero": _floating(lambda t: t * 1e-3),
    # Confident logits: differences of dozens, where exp() under- and overflows.
    "confident": _floating(lambda t: t * 30),
    "offset": _floating(lambda t: t + 100),
    # Many equal elements, for what sorts or takes a maximum.
    "ties": _floating(lambda t: t.mul(2).round().div(2)),
    "noncontiguous": _floating(_noncontiguous),
}
