"""Splitting a signal into its even and odd samples, and weaving them back.

torch copies a stride-2 slice one element at a time, five to eight times slower than it copies
a run. Two contiguous, vectorised ways around it, for rows of single samples:

    split   a pair of float32 is one int64: its low half is a narrowing conversion, its high
            half a shift and a narrowing conversion (on a little-endian machine)
    weave   torch.complex writes its two inputs alternately
"""

import sys
from collections.abc import Sequence

import torch
from torch import Tensor

from rightfast_kernels.dwt.extension import extend, schedule, strips

# With this many contiguous numbers at each place of the axis, stride-2 rows are long runs.
LONG_RUN = 16
# Below this many reads in all, a slow stride costs less than the calls that would avoid it.
FEW_READS = 1 << 14


def _batched(x: Tensor) -> bool:
    """Whether x stands for a batch, in `torch.autograd.grad(is_grads_batched=True)`.

    That is an older vmap than torch.func's: it enters kernels, and has no rule for ``out=``.
    """
    return torch._C._functorch.is_legacy_batchedtensor(x)


def weighted(terms: Sequence[tuple[Tensor, float]], out: Tensor) -> None:
    """out = the sum of factor * x over the terms (x, factor)."""
    if not terms:
        out.zero_()
        return
    (x, factor), *rest = terms
    if _batched(out):
        out.copy_(x * factor)
    elif factor == 1 and rest:
        second, alpha = rest.pop(0)
        torch.add(x, second, alpha=alpha, out=out)
    else:
        torch.mul(x, factor, out=out)
    for x, factor in rest:
        out.add_(x, alpha=factor)


def split(x: Tensor, before: int, after: int, mode: str, taps: int) -> list[Tensor]:
    """Even and odd samples of the extension of x, (rows, n, inner), for ``taps`` reads of each.

    n + before + after is even.
    """
    x = _extended(x, before, after, mode)
    if strides_are_cheap(x, taps):
        return [x[:, 0::2], x[:, 1::2]]
    if x.dtype == torch.float32 and x.shape[2] == 1 and _words_are_pairs(x):
        return _split_words(x)
    return [x[:, 0::2].contiguous(), x[:, 1::2].contiguous()]


def strides_are_cheap(x: Tensor, taps: int) -> bool:
    """Whether to run ``taps`` operations on every other place of x rather than to copy first."""
    return x.shape[2] >= LONG_RUN or x.numel() * taps < FEW_READS


def _extended(x: Tensor, before: int, after: int, mode: str) -> Tensor:
    if not (before or after):
        return x
    if mode == "periodization" or len(schedule(x.shape[1], before, after, mode)) > 1:
        return extend(x, before, after, mode, 1)
    left, right = strips(x, before, after, mode, 1)
    return torch.cat([t for t in (left, x, right) if t is not None], 1)


def _words_are_pairs(x: Tensor) -> bool:
    return x.device.type == "cpu" and sys.byteorder == "little" and not _batched(x)


def _split_words(x: Tensor) -> list[Tensor]:
    x = x.contiguous()
    if x.storage_offset() % 2:  # an odd offset cannot be viewed as 64-bit words
        x = x.clone()
    words = x.view(x.shape[0], x.shape[1]).view(torch.int64)
    halves = (words.to(torch.int32), (words >> 32).to(torch.int32))
    return [half.view(torch.float32).unsqueeze(2) for half in halves]


def weave(parts: Sequence[Tensor], start: int, out: Tensor) -> None:
    """out[i] = sample start + i of the signal whose even and odd samples are ``parts``."""
    n, inner = out.shape[1], out.shape[2]
    alternate = inner == 1 and n and n % 2 == 0 and out.is_contiguous()
    if alternate and not out.dtype.is_complex and not _batched(out):
        first, second = (
            parts[(start + j) % 2].narrow(1, (start + j) // 2, n // 2).squeeze(2) for j in (0, 1)
        )
        pairs = torch.view_as_complex(out.view(out.shape[0], n // 2, 2))
        torch.complex(first, second, out=pairs)
        return
    for j in (0, 1):
        here = out[:, j::2]
        here.copy_(parts[(start + j) % 2].narrow(1, (start + j) // 2, here.shape[1]))
