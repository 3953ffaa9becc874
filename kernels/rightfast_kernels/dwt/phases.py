"""Splitting a signal into its even and odd samples, and weaving them back.

torch reads and writes stride-2 slices of single samples one element at a time, five to eight
times slower than runs. So a filter of many taps copies each phase to a run first; and
torch.complex, which writes its two inputs alternately, weaves them, vectorised.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from rightfast_kernels.dwt.extension import extend

# With this many contiguous numbers at each place of the axis, stride-2 rows are long runs.
LONG_RUN = 16
# Up to these many taps (Haar), and below this many reads in all, slow strides cost least.
FEW_TAPS = 2
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
    x = extend(x, before, after, mode, 1)
    if strides_are_cheap(x, taps):
        return [x[:, 0::2], x[:, 1::2]]
    return [x[:, 0::2].contiguous(), x[:, 1::2].contiguous()]


def strides_are_cheap(x: Tensor, taps: int) -> bool:
    """Whether to run ``taps`` operations on every other place of x rather than to copy first."""
    return x.shape[2] >= LONG_RUN or taps <= FEW_TAPS or x.numel() * taps < FEW_READS


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
