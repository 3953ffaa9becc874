"""Several levels over some axes, on bands by key; multilevel.py gives it PyWavelets' faces."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from rightfast.wavelets.inputs import common_dtype, computed, result_dtype
from rightfast.wavelets.lengths import check_level
from rightfast.wavelets.step import Axes, analyse, synthesise

Bands = dict[str, Tensor]


def decompose(x: Tensor, axes: Axes, level: Any) -> tuple[Tensor, list[Bands]]:
    """The last approximation and the details, deepest level first."""
    depth = check_level([x.shape[d] for d, _, _ in axes], [w for _, w, _ in axes], level)
    if depth == 0:
        return x, []
    low, details = computed(x), []
    for _ in range(depth):
        bands = analyse(low, axes)
        low = bands.pop("a" * len(axes))
        details.append(bands)
    dtype = result_dtype(x)
    return low.to(dtype), [{k: b.to(dtype) for k, b in bands.items()} for bands in details[::-1]]


def reconstruct(
    low: Tensor | None, details: Sequence[Bands], axes: Axes, trim_first: bool = True
) -> Tensor:
    """The inverse of `decompose`; None and missing bands are zeros.

    ``trim_first``: whether even the deepest approximation may be one longer than its details.
    """
    given = [band for bands in details for band in bands.values()]
    given += [] if low is None else [low]
    if not given:
        raise ValueError("At least one coefficient parameter must be specified.")
    ndims = {band.ndim for band in given}
    if len(ndims) > 1:
        raise ValueError(
            f"All coefficients must have a matching number of dimensions, got {sorted(ndims)}"
        )
    dtype = common_dtype(given)
    result = None if low is None else computed(low.to(dtype))
    dims = [d for d, _, _ in axes]
    for depth, bands in enumerate(details):
        ready: dict[str, Tensor | None] = {k: computed(b.to(dtype)) for k, b in bands.items()}
        if result is None and not ready:
            continue
        ready["a" * len(axes)] = _matched(result, bands, dims if trim_first or depth else [])
        result = synthesise(ready, axes)
    assert result is not None
    return result.to(dtype)


def _matched(low: Tensor | None, bands: Bands, dims: Sequence[int]) -> Tensor | None:
    """``low`` without its last sample along each axis where it is one longer than the details.

    One longer is what the inverse of an odd signal gives; any other difference is an error.
    """
    shapes = {tuple(band.shape) for band in bands.values()}
    if len(shapes) > 1:
        raise ValueError(
            f"All detail shapes of one level must be the same, got {sorted(shapes)}"
        )
    if low is None or not shapes:
        return low
    (shape,) = shapes
    for dim, (have, want) in enumerate(zip(low.shape, shape, strict=True)):
        if have != want and (have != want + 1 or dim not in dims):
            raise ValueError(
                "coefficient shape mismatch: the approximation, "
                f"{tuple(low.shape)}, does not fit details of {shape} along dimension {dim}"
            )
        low = low.narrow(dim, 0, want)
    return low
