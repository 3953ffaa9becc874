"""The three shapes of a coefficient list, and the one by key that the layouts work on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from rightfast.wavelets.inputs import as_tensor
from rightfast.wavelets.single import check_bands

Level = dict[str, Tensor]
FORMATS = ("wavedec", "wavedec2", "wavedecn")


def keyed(coeffs: Any) -> tuple[Tensor, list[Level]]:
    """The approximation and the levels by key, from any of the three formats.

    Raises ValueError for an empty or malformed list, or None among the bands.
    """
    if not isinstance(coeffs, (list, tuple)) or len(coeffs) == 0:
        raise ValueError("input must be a list of coefficients from wavedec, wavedec2 or wavedecn")
    if coeffs[0] is None:
        raise ValueError("the approximation is None: missing coefficients cannot be packed")
    levels = [_level(entry) for entry in coeffs[1:]]
    if len({len(key) for bands in levels for key in bands}) > 1:
        raise ValueError("All levels must have keys of one length")
    return as_tensor(coeffs[0], "the approximation"), levels


def _level(entry: Any) -> Level:
    if isinstance(entry, dict):
        named: dict[str, Any] = entry
    elif isinstance(entry, (Tensor, np.ndarray)):
        named = {"d": entry}
    elif isinstance(entry, (list, tuple)) and len(entry) == 3:
        named = dict(zip(("da", "ad", "dd"), entry, strict=True))
    else:
        raise ValueError(
            "invalid coefficient list: expected a tensor, a 3-tuple or a dict for each level, got "
            f"{type(entry).__name__}; missing (None) coefficients cannot be packed"
        )
    missing = [key for key, band in named.items() if band is None]
    if missing or not named:
        raise ValueError(f"missing coefficients cannot be packed: {missing or 'an empty level'}")
    return check_bands(named)


def from_keyed(levels: Sequence[Level], output_format: str) -> list[Any]:
    """The levels in the format that the inverse transform ``output_format`` goes with takes."""
    if output_format not in FORMATS:
        raise ValueError(
            f"Unrecognized output format: {output_format!r}; expected one of {FORMATS}"
        )
    if output_format == "wavedecn":
        return list(levels)
    keys = ["d"] if output_format == "wavedec" else ["da", "ad", "dd"]
    for bands in levels:
        if sorted(bands) != sorted(keys):
            raise ValueError(f"format {output_format!r} has bands {keys}, got {sorted(bands)}")
    if output_format == "wavedec":
        return [bands["d"] for bands in levels]
    return [tuple(bands[key] for key in keys) for bands in levels]
