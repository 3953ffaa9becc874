"""All coefficients in one tensor, and where each band lies in it: `Packed`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rightfast.wavelets.recall import bands_of_plane, bands_of_space
from rightfast.wavelets.step import Bands, band_keys


@dataclass(frozen=True)
class Layout:
    """The bands of a decomposition in a row: the approximation, then each level's details, deepest
    first, keys in order.

    Attributes:
        function: "wavedec", "wavedec2" or "wavedecn", whose result it is.
        shapes: of each band.
        axes: how many axes were transformed.
    """

    function: str
    shapes: tuple[torch.Size, ...]
    axes: int

    @property
    def sizes(self) -> list[int]:
        """How many coefficients each band has."""
        return [shape.numel() for shape in self.shapes]

    @property
    def depth(self) -> int:
        """How many levels there are."""
        return (len(self.shapes) - 1) // len(self._keys)

    @property
    def _keys(self) -> list[str]:
        return band_keys(self.axes)[1:]

    def views(self, flat: Tensor) -> list[Tensor]:
        """The bands, as views of ``flat``."""
        parts = flat.split_with_sizes(self.sizes)
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def tree(self, bands: Sequence[Tensor]) -> list[Any]:
        """The bands as the function returns them."""
        if self.function == "wavedec":
            return list(bands)
        if self.function == "wavedec2":
            return bands_of_plane(bands)
        return bands_of_space(bands, self._keys)

    def levels(self, bands: Sequence[Tensor]) -> list[Bands]:
        """The details of each level by key, deepest first."""
        keys = self._keys
        starts = range(1, len(bands), len(keys))
        return [dict(zip(keys, bands[i : i + len(keys)], strict=True)) for i in starts]


class Packed(NamedTuple):
    """A decomposition in one tensor.

    Attributes:
        flat: all coefficients in one dimension, in the order of `ravel_coeffs`;
            ``packed._replace(flat=...)`` is the same decomposition with other values.
        layout: where each band lies.
    """

    flat: Tensor
    layout: Layout

    def unpack(self) -> list[Any]:
        """The coefficients in the structure of the function that they are of, as views."""
        return self.layout.tree(self.layout.views(self.flat))


def bands_of(coeffs: Any, function: str) -> list[Tensor] | None:
    """The bands of a complete result of ``function`` in the order of a `Layout`, else None."""
    if type(coeffs) is not list or len(coeffs) < 2:
        return None
    if function == "wavedec":
        return coeffs
    found = coeffs[:1]
    if function == "wavedec2":
        for entry in coeffs[1:]:
            if type(entry) is not tuple or len(entry) != 3:
                return None
            found += (entry[1], entry[0], entry[2])
        return found
    keys: list[str] = []
    for entry in coeffs[1:]:
        if type(entry) is not dict or not entry:
            return None
        keys = keys or band_keys(len(next(iter(entry))))[1:]
        if len(entry) != len(keys):
            return None
        found += map(entry.get, keys)
    return found
