"""Calls seen before: arguments that were checked once and led to a native kernel.

A small transform takes a few microseconds, less than it takes to read its arguments. So what a
call led to is kept by all that decided on it: the arguments, and the shapes and dtypes of the
tensors. The last few hundred are kept; they hold names and numbers, no tensor.
"""

from collections.abc import Sequence
from typing import Any

import torch
from rightfast_kernels.dwt.phases import is_batched
from torch import Tensor
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from rightfast.wavelets import backends, gpu
from rightfast.wavelets.backends import Native
from rightfast.wavelets.inputs import is_dense
from rightfast.wavelets.modes import Modes
from rightfast.wavelets.wavelet import Wavelet

_MOST = 512
_known: dict[Any, Native] = {}
_DTYPES = (torch.float32, torch.float64)
_MODES = frozenset(Modes.modes)


def plane(coeffs: Any) -> list[Any] | None:
    """The bands of ``[cA, (cH, cV, cD), ...]`` in a row; None for any other structure."""
    if type(coeffs) is not list or not coeffs:
        return None
    found = [coeffs[0]]
    for entry in coeffs[1:]:
        if type(entry) is not tuple or len(entry) != 3:
            return None
        found += entry
    return found


def space(coeffs: Any) -> tuple[list[Any], tuple[Any, ...]] | None:
    """The bands of ``[cA, {key: band}, ...]`` in a row, and the keys of each level; None for any
    other structure."""
    if type(coeffs) is not list or not coeffs:
        return None
    found, keys = [coeffs[0]], []
    for entry in coeffs[1:]:
        if type(entry) is not dict:
            return None
        found += entry.values()
        keys.append(tuple(entry))
    return found, tuple(keys)


def key_of(
    name: str,
    data: Any,
    wavelet: Any,
    mode: Any,
    numbers: tuple[Any, ...] = (),
    keys: tuple[Any, ...] = (),
) -> Any:
    """What to look a call up by; None if it needs derivatives, or more reading than this.

    ``numbers``: levels and axes, as they came; ``keys``: of bands, which need no check, as what
    is equal to a text is that text.
    """
    if (
        type(data) is not list
        or not data
        or not (type(wavelet) is str or type(wavelet) is Wavelet)
        or type(mode) is not str
        or mode not in _MODES  # an old name warns every time
        or is_compiling()
        or not backends.takes_kernel()
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
        or torch._C._get_tracing_state() is not None
    ):
        return None
    for number in numbers:  # 1.0 and True are equal to 1, but no axis and no level
        if type(number) is not int and number is not None:
            return None
    recorded = torch.is_grad_enabled()
    for x in data:
        if type(x) is not Tensor or (recorded and x.requires_grad):
            return None
    first, last = data[0], data[-1]  # the kernel checks the others, see `Native.recalled_up`
    if not _suits(first) or not (last is first or _suits(last)):
        return None
    ends = (first.dtype, first.shape, last.dtype, last.shape, first.is_cuda and first.get_device())
    return name, wavelet, mode, numbers, keys, len(data), ends


def _suits(x: Tensor) -> bool:
    here = x.is_cpu or (x.is_cuda and gpu.available())
    return here and is_dense(x) and x.dtype in _DTYPES and not is_batched(x)


def recall(key: Any) -> Native | None:
    """The kernel that this call led to before, if any."""
    known = _known.get(key) if key else None
    if known:
        backends.note_eager("kernel")
    return known


def remember(key: Any, kernel: Native) -> None:
    """Keeps what this call led to."""
    if key:
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = kernel


def bands_of_plane(flat: Sequence[Tensor]) -> list[Any]:
    """``[cA, (cH, cV, cD), ...]`` from bands in the order of their keys: aa, then ad, da, dd."""
    levels = range(1, len(flat), 3)
    return [flat[0], *[(flat[i + 1], flat[i], flat[i + 2]) for i in levels]]


def bands_of_space(flat: Sequence[Tensor], keys: Sequence[str]) -> list[Any]:
    """``[cA, {key: band}, ...]`` from bands in the order of the ``keys`` of a level."""
    step = len(keys)
    levels = range(1, len(flat), step)
    return [flat[0], *(dict(zip(keys, flat[i : i + step], strict=True)) for i in levels)]
