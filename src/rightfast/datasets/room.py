"""How many samples a cache has room for."""

import math
import operator
import re
from typing import Any

import numpy as np

_UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
_UNITS |= {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def capacity(
    count: int, sample_bytes: int, fraction: float | None, nbytes: int | str | None
) -> int:
    """Samples of ``count`` that a fraction, or an amount of memory, has room for."""
    if (fraction is None) == (nbytes is None):
        raise ValueError(
            f"expected either fraction= or bytes=, got {'neither' if nbytes is None else 'both'}; "
            "fraction=1.0 keeps all samples"
        )
    if fraction is None:
        return min(count, _bytes(nbytes) // max(1, sample_bytes))
    if isinstance(fraction, bool) or not isinstance(
        fraction, (int, float, np.integer, np.floating)
    ):
        raise TypeError(f"expected fraction= as a number, got {type(fraction).__name__}")
    if not 0 <= fraction <= 1:
        raise ValueError(
            f"expected fraction= from 0 to 1, got {fraction}; for an amount of memory use bytes="
        )
    return math.floor(fraction * count + 1e-9)


def _bytes(given: Any) -> int:
    if isinstance(given, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", given)
        if found is None or found[2].upper() not in _UNITS:
            raise ValueError(f"expected bytes= such as '4GiB', '512 MB' or 65536, got {given!r}")
        return int(float(found[1]) * _UNITS[found[2].upper()])
    try:
        number = operator.index(given)
        if isinstance(given, bool):
            raise TypeError
    except TypeError:
        raise TypeError(
            f"expected bytes= as an integer or a text such as '4GiB', got {type(given).__name__}"
        ) from None
    if number < 0:
        raise ValueError(f"expected bytes= of at least 0, got {number}")
    return number
