"""The steps of polyphase.py for small signals, in a handful of torch calls.

Below a few thousand samples the time is that of calling torch, some microseconds a call, and a
tap of the polyphase path is two of them. Here both filters are one convolution, and the
extension is one gather, whose adjoint is one scatter.

In float64 whatever the data: so few numbers cost nothing more, the result is rounded once, and
neither autocast nor a reduced matrix precision (both leave float64 alone) can touch it. The
same arguments take the same path every time.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from rightfast_kernels.dwt.extension import extend, fold
from rightfast_kernels.dwt.phases import FEW_TAPS, is_batched

Taps = tuple[tuple[float, ...], ...]

# Up to so many samples a tap of the filter, measured from 4 taps to 20.
SAMPLES_A_TAP = 400
# The modes in which every sample of the extension is one of the signal.
_GATHERED = ("constant", "symmetric", "periodic", "periodization", "reflect")


def suits(inputs: Sequence[Tensor], taps: Taps) -> bool:
    """Whether a step on these inputs, with these two filters, is one for this module.

    Not with a tap of exactly 0, which must not meet an infinite or NaN sample; nor for tensors
    that stand for others, which would meet or leave behind the constants that are kept here.
    """
    return (
        len(taps[0]) > FEW_TAPS
        and 0 < sum(x.numel() for x in inputs) <= SAMPLES_A_TAP * len(taps[0])
        and all(_plain(x) for x in inputs)
        and not any(0.0 in filter_ for filter_ in taps)
        and not torch._C._are_functorch_transforms_active()
    )


def _plain(x: Tensor) -> bool:
    ours = x.is_cpu and x.dtype in (torch.float32, torch.float64)
    return ours and type(x) in (Tensor, torch.nn.Parameter) and not is_batched(x)


def correlate(x: Tensor, taps: Taps, before: int, after: int, mode: str, dim: int) -> list[Tensor]:
    """band[o] = sum_t taps[t] x~[2o + t - before] for each filter, x~ the extension of x."""
    e, last = x.double(), dim == x.ndim - 1
    if mode in _GATHERED:
        e = e[(slice(None),) * dim + (_places(x.shape[dim], before, after, mode),)]
    else:
        e = extend(e, before, after, mode, dim)
    both = torch.conv2d(_planes(e, dim), _weights(taps, last), stride=(1, 2) if last else (2, 1))
    shape = (*x.shape[:dim], both.shape[3 if last else 2], *x.shape[dim + 1 :])
    # Copied even in float64: a band must not pin the memory of the other.
    bands = (band.reshape(shape) for band in both.unbind(1))
    packed = torch.contiguous_format
    return [band.to(x.dtype, copy=True, memory_format=packed) for band in bands]


def scatter(
    bands: Sequence[Tensor], taps: Taps, before: int, n: int, after: int, mode: str, dim: int
) -> Tensor:
    """The adjoint of `correlate`: n samples from the bands."""
    like, last = bands[0], dim == bands[0].ndim - 1
    both = torch.cat([_planes(band, dim) for band in bands], 1).double()
    planes = torch.conv_transpose2d(both, _weights(taps, last), stride=(1, 2) if last else (2, 1))
    e = planes.reshape(*like.shape[:dim], before + n + after, *like.shape[dim + 1 :])
    if mode in _GATHERED:
        x = e.new_zeros((*like.shape[:dim], n, *like.shape[dim + 1 :]))
        return x.index_add_(dim, _places(n, before, after, mode), e).to(like.dtype)
    return fold(e, before, n, mode, dim).to(like.dtype)


def _planes(x: Tensor, dim: int) -> Tensor:
    """x as a batch of planes with one channel; all rows in one plane where ``dim`` is the last,
    as torch convolves the planes of a batch one by one."""
    if dim == x.ndim - 1:
        return x.reshape(1, 1, -1, x.shape[dim])
    return x.reshape(x.shape[:dim].numel(), 1, x.shape[dim], -1)


def _constant(make: Callable[[], Tensor]) -> Tensor:
    """A tensor that may be kept: plain, whatever mode the caller is in."""
    with torch.inference_mode(False), torch.no_grad(), _disable_current_modes():
        return make()


@lru_cache(maxsize=64)
def _weights(taps: Taps, last: bool) -> Tensor:
    """The filters as weights of a convolution along the last dimension or the one before."""
    shape = (2, 1, 1, -1) if last else (2, 1, -1, 1)
    return _constant(lambda: torch.tensor(taps, dtype=torch.float64, device="cpu").view(shape))


@lru_cache(maxsize=64)
def _places(n: int, before: int, after: int, mode: str) -> Tensor:
    """Which sample of the signal each one of its extension is."""
    return _constant(lambda: extend(torch.arange(n, device="cpu"), before, after, mode, 0))
