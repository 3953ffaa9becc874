"""One tensor for a whole decomposition: Mallat's layout, or all bands in a row.

    coeffs_to_array, array_to_coeffs     Mallat: each level in the corner of the one before
    ravel_coeffs, unravel_coeffs         one dimension, band after band

Unpacking gives views: nothing is copied, and writing to a band writes to the tensor. Packing
copies each band once, or not at all where the bands are already the views of one tensor that
unpacking gives.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rightfast.wavelets.formats import Level, from_keyed, keyed
from rightfast.wavelets.inputs import as_tensor, cast, check_axes, common_dtype

Slices = tuple[slice, ...]


def coeffs_to_array(
    coeffs: Any, padding: float | None = 0, axes: Any = None
) -> tuple[Tensor, list[Any]]:
    """Packs a decomposition into one tensor, in Mallat's layout.

    Args:
        coeffs: list as `wavedec`, `wavedec2` or `wavedecn` gives it, without None.
        padding: what fills the gaps that bands of odd or overlong sizes leave; None to raise
            ValueError if there are gaps.
        axes: the axes that were transformed; None is all of them.

    Returns:
        The tensor, and the slices for `array_to_coeffs`: those of the approximation, then one
        dict by key for each level. If the bands are views of one tensor in just this layout,
        that tensor.

    Raises:
        ValueError: an empty or malformed list, None among the bands, axes that do not fit.
        TypeError: bands that are not numeric.
    """
    low, levels, dims = _parsed(coeffs, axes)
    if not levels:
        return low, [(slice(None),) * low.ndim]
    shape, slices = _layout(low, levels, dims)
    pairs = [(low, slices[0])]
    for bands, places in zip(levels, slices[1:], strict=True):
        pairs += [(band, places[key]) for key, band in bands.items()]
    packed = _already_packed(pairs, shape)
    if packed is not None:
        return packed, slices
    total = 1
    for size in shape:
        total *= size
    if padding is None and total != sum(band.numel() for band, _ in pairs):
        raise ValueError(
            f"array coefficients cannot be tightly packed into {tuple(shape)}; give a padding"
        )
    dtype = common_dtype([band for band, _ in pairs])
    out = low.new_full(shape, 0 if padding is None else padding, dtype=dtype)
    for band, place in pairs:
        out[place] = cast(band, dtype)
    return out, slices


def array_to_coeffs(arr: Any, coeff_slices: Any, output_format: str = "wavedecn") -> list[Any]:
    """Unpacks `coeffs_to_array`: the bands are views of ``arr``.

    Args:
        arr: the packed tensor; further changes to it may have been made.
        coeff_slices: as `coeffs_to_array` gave them.
        output_format: "wavedec", "wavedec2" or "wavedecn": whose inverse is to take the result.

    Raises:
        ValueError: no slices, an unknown format, or one that the keys do not fit.
    """
    x = as_tensor(arr, "arr")
    if len(coeff_slices) == 0:
        raise ValueError("empty list of coefficient slices")
    levels = [{key: x[place] for key, place in places.items()} for places in coeff_slices[1:]]
    return [x[coeff_slices[0]], *from_keyed(levels, output_format)]


def ravel_coeffs(coeffs: Any, axes: Any = None) -> tuple[Tensor, list[Any], list[Any]]:
    """All bands in one dimension: the approximation, then each level, keys in order.

    Arguments and errors as `coeffs_to_array`. Returns the tensor, and the slices and shapes
    that `unravel_coeffs` takes.
    """
    low, levels, _ = _parsed(coeffs, axes)
    parts, slices, shapes = [low], [slice(low.numel())], [tuple(low.shape)]
    all_slices: list[Any] = list(slices)
    all_shapes: list[Any] = list(shapes)
    end = low.numel()
    for bands in levels:
        places = {}
        for key in sorted(bands):
            places[key] = slice(end, end + bands[key].numel())
            end = places[key].stop
            parts.append(bands[key])
        all_slices.append(places)
        all_shapes.append({key: tuple(bands[key].shape) for key in places})
    dtype = common_dtype(parts)
    flat = torch.cat([cast(part, dtype).reshape(-1) for part in parts])
    return flat, all_slices, all_shapes


def unravel_coeffs(
    arr: Any, coeff_slices: Any, coeff_shapes: Any, output_format: str = "wavedecn"
) -> list[Any]:
    """The inverse of `ravel_coeffs`: the bands are views of ``arr``. Errors as `array_to_coeffs`.

    ValueError also if the slices and shapes are not equally many.
    """
    x = as_tensor(arr, "arr")
    if len(coeff_slices) == 0:
        raise ValueError("empty list of coefficient slices")
    if len(coeff_slices) != len(coeff_shapes):
        raise ValueError(
            f"coeff_slices and coeff_shapes differ in length: {len(coeff_slices)} and "
            f"{len(coeff_shapes)}"
        )
    levels = [
        {key: x[place].view(shapes[key]) for key, place in places.items()}
        for places, shapes in zip(coeff_slices[1:], coeff_shapes[1:], strict=True)
    ]
    return [x[coeff_slices[0]].view(coeff_shapes[0]), *from_keyed(levels, output_format)]


def _parsed(coeffs: Any, axes: Any) -> tuple[Tensor, list[Level], list[int]]:
    low, levels = keyed(coeffs)
    if not levels:
        return low, levels, []
    count = len(next(iter(levels[0])))
    if axes is None and count < low.ndim:
        raise ValueError(
            f"coeffs corresponds to a DWT performed over only {count} of {low.ndim} axes. In this "
            "case, axes must be specified."
        )
    dims = check_axes(axes, low.ndim, "coeffs_to_array")
    if len(dims) != count:
        raise ValueError(
            "The length of axes doesn't match the number of dimensions transformed: got "
            f"{len(dims)} axes, {count} transformed"
        )
    return low, levels, dims


def _layout(
    low: Tensor, levels: Sequence[Level], dims: Sequence[int]
) -> tuple[list[int], list[Any]]:
    """The packed shape, and the slices of every band."""
    corner = list(low.shape)
    slices: list[Any] = [tuple(slice(size) for size in corner)]
    for bands in levels:
        last = bands.get("d" * len(dims))
        if last is None:
            raise ValueError(
                f"Expected every level to have a band {'d' * len(dims)!r}, got {sorted(bands)}"
            )
        places: dict[str, Slices] = {}
        for key, band in bands.items():
            place = [slice(None)] * low.ndim
            for letter, dim in zip(key, dims, strict=True):
                start = 0 if letter == "a" else corner[dim]
                place[dim] = slice(start, start + band.shape[dim])
            places[key] = tuple(place)
        slices.append(places)
        for dim in dims:
            corner[dim] += last.shape[dim]
    return corner, slices


def _already_packed(pairs: Sequence[tuple[Tensor, Slices]], shape: Sequence[int]) -> Tensor | None:
    """The tensor whose views, by these slices, the bands are; None if there is none."""
    if torch.compiler.is_compiling():
        return None
    base = pairs[0][0]._base
    if base is None or list(base.shape) != list(shape):
        return None
    for band, place in pairs:
        view = base[place]
        same = band._base is base and band.storage_offset() == view.storage_offset()
        if not same or band.stride() != view.stride() or band.shape != view.shape:
            return None
    return base
