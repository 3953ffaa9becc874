"""`recorded`: transforms that are recorded in CUDA graphs at first sight, and replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rightfast.wavelets import multilevel

if TYPE_CHECKING:
    from rightfast.wavelets.recorder import Recorded

AXES = {"wavedec": -1, "wavedec2": (-2, -1), "wavedecn": None}
INVERSES = {"waverec": "wavedec", "waverec2": "wavedec2", "waverecn": "wavedecn"}
MOST = 16


def recorded(
    function: Callable[..., Any],
    wavelet: Any,
    mode: Any = "symmetric",
    level: int | None = None,
    axes: Any = None,
    *,
    packed: bool = False,
    bound: bool = False,
    most: int = MOST,
    backend: Any = None,
) -> Recorded:
    """A transform of several levels that is recorded in a CUDA graph at the first call with a
    shape, and replayed at later ones, which takes the host a fraction of the time.

        analysis = wavelets.recorded(wavelets.wavedec2, "bior4.4", level=3)
        synthesis = wavelets.recorded(wavelets.waverec2, "bior4.4")
        y = synthesis(analysis(x))

    Results are the caller's own, as those of the function; gradients are recorded as well, and can
    be differentiated again. Where nothing can be recorded, the function itself is called: tensors
    of the CPU, a caller's capture, torch.compile and torch.func, filters that learn, missing
    bands, more than 32 MiB of data.

    Args:
        function: `wavedec`, `wavedec2`, `wavedecn`, or the inverse of one of these.
        wavelet, mode, level: as the function takes them; an inverse takes no level.
        axes: as the function takes them, one axis for `wavedec` and `waverec`; None: its default.
        packed: the coefficients come as `Packed`, in one tensor, which costs less than one for
            each band, most of all where gradients are wanted. An inverse takes both.
        bound: read the data where it lies, without a copy, by a recording for each place: for data
            that comes in the same few places. What comes from more than eight is copied.
        most: how many shapes are kept; the one that was seen least recently goes first. Each has
            its data and up to three times its results, forward and backward.
        backend: where to record; by default `rightfast.runtime.CudaGraphs()`.

    Raises:
        ValueError: another function, a level or ``packed`` for an inverse, ``most`` below 1; at a
            call, coefficients packed by another function; and as the function.
    """
    name = getattr(function, "__name__", "")
    known = (*AXES, *INVERSES)
    if name not in known or getattr(multilevel, name) is not function:
        raise ValueError(
            f"expected one of the functions {', '.join(known)}, got {function!r}; "
            "rightfast.runtime.Graphs records others"
        )
    if name in INVERSES and (level is not None or packed):
        raise ValueError(f"expected neither level= nor packed= for {name}, which takes both kinds")
    if most < 1:
        raise ValueError(f"expected most=1 or more, got {most}; call {name} to record nothing")
    from rightfast.wavelets.recorder import Call, Recorded  # which imports the runtime

    form = INVERSES.get(name, name)
    given = AXES[form] if axes is None else axes
    call = Call(function, _fixed(wavelet), _fixed(mode), level, _fixed(given), form, form != name)
    return Recorded(call, packed, bound, most, backend)


def _fixed(value: Any) -> Any:
    """``value``, which does not change with the caller's list."""
    return tuple(value) if isinstance(value, list) else value
