"""Splitting a signal into its even and odd samples, and weaving them back.

torch reads and writes stride-2 slices of single samples one element at a time, five to eight
times slower than runs. So a filter of many taps copies each phase to a run first; and
torch.complex, which writes its two inputs alternately, weaves them, vectorised.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

# With this many contiguous numbers at each place of the axis, stride-2 rows are long runs.
LONG_RUN = 16
# Up to these many taps (Haar), and below this many reads in all, slow strides cost least.
FEW_TAPS = 2
FEW_READS = 1 << 14


def is_batched(x: Tensor) -> bool:
    """Whether x stands for a batch, in `torch.autograd.grad(is_grads_batched=True)`.

    That is an older vmap than torch.func's: it enters kernels, and has no rule for ``out=``.
    """
    return torch._C._functorch.is_legacy_batchedtensor(x)


def scale(x: Tensor, factor: float, out: Tensor) -> None:
    """out = factor * x."""
    if is_batched(out):
        out.copy_(x * factor)
    else:
        torch.mul(x, factor, out=out)


def weighted(terms: Sequence[tuple[Tensor, float]]) -> Tensor:
    """The sum of factor * x over the terms (x, factor)."""
    (x, factor), *rest = terms
    if factor == 1 and rest:
        second, alpha = rest.pop(0)
        total = torch.add(x, second, alpha=alpha)
    else:
        total = x * factor
    for x, factor in rest:
        total.add_(x, alpha=factor)
    return total


def every_other(x: Tensor, start: int, dim: int) -> Tensor:
    """x[start::2] along ``dim``: a view."""
    return x[(slice(None),) * dim + (slice(start, None, 2),)]


def split(x: Tensor, taps: int, dim: int) -> list[Tensor]:
    """Even and odd samples of x along ``dim``, for ``taps`` reads of each."""
    n, shape = x.shape[dim], x.shape
    if n % 2 == 0 and not is_batched(x):  # two calls in place of slices, which cost twice that
        parts = list(x.view(*shape[:dim], n // 2, 2, *shape[dim + 1 :]).unbind(dim + 1))
    else:
        parts = [every_other(x, p, dim) for p in (0, 1)]
    return parts if strides_are_cheap(x, taps, dim) else [part.contiguous() for part in parts]


def strides_are_cheap(x: Tensor, taps: int, dim: int) -> bool:
    """Whether to run ``taps`` operations on every other place of x rather than to copy first."""
    return taps <= FEW_TAPS or x.stride(dim) >= LONG_RUN or x.numel() * taps < FEW_READS


def weave(parts: Sequence[Tensor], start: int, out: Tensor, dim: int) -> None:
    """out[i] = sample start + i of the signal whose even and odd samples are ``parts``."""
    n = out.shape[dim]
    pieces = [
        parts[(start + j) % 2].narrow(dim, (start + j) // 2, (n + 1 - j) // 2) for j in (0, 1)
    ]
    last = dim == out.ndim - 1 and out.is_contiguous()
    if last and n % 2 == 0 and n and not out.dtype.is_complex and not is_batched(out):
        pairs = torch.view_as_complex(out.view(*out.shape[:-1], n // 2, 2))
        torch.complex(*pieces, out=pairs)
        return
    for j in (0, 1):
        every_other(out, j, dim).copy_(pieces[j])
