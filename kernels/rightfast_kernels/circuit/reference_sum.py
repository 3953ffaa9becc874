"""A layer of sums as a product of matrices, n[n, b] = log sum_c theta[n, c] exp(e[c, b]).

    m[g, b] = max_c e[g, c, b],    E = exp(e - m),    S = theta E,    n = log S + m
    f_e     = E theta^T (f / S)               flows to the elements
    H       = (f / S) E^T                     derivative by theta; theta H is the parameter flow F

A sum whose weight lies on children far below the largest has a tiny S, of which the dtype keeps few
digits or none. This is right where no S is below `least(dtype)`, or where those that are have no
child with theta > 0 and a finite e, so that n is -inf; elsewhere `reference_wide` is right.
"""

import math

import torch
from torch import Tensor

# Denormal numbers take a CPU's products of matrices a hundred times as long, and results of exp
# that underflow are slow too: arguments are bounded first, and what is below the second number
# becomes 0.
FLOOR = {
    dtype: (math.log(torch.finfo(dtype).tiny) + 1, 3 * torch.finfo(dtype).tiny)
    for dtype in (torch.float32, torch.float64)
}
TINY = {dtype: torch.finfo(dtype).tiny for dtype in (torch.float32, torch.float64)}


def slow(scaled: Tensor) -> bool:
    """Whether E has numbers that `forward` should rather be guarded from."""
    return not float(scaled.amin()) >= FLOOR[scaled.dtype][1]


def least(dtype: torch.dtype) -> float:
    """Below this, sums of scaled exponentials have lost digits to underflow."""
    info = torch.finfo(dtype)
    return float(info.tiny / info.eps)


def matmul(a: Tensor, b: Tensor, out: Tensor) -> None:
    """``out`` = a @ b, of two or three dimensions."""
    if a.dim() == 2:
        torch.mm(a, b, out=out)
    else:
        torch.bmm(a, b, out=out)


def forward(
    theta: Tensor,
    e: Tensor,
    shift: Tensor,
    scaled: Tensor,
    sums: Tensor,
    out: Tensor,
    guard: bool = False,
) -> None:
    """n into ``out`` [G, N, B]; wrong where a sum is below `least`, which is not checked.

    ``shift`` [G, 1, B], ``scaled`` [G, C, B] (may be e itself) and ``sums`` [G, N, B] get m, E
    and S. Where all children are -inf the sums are NaN. With ``guard`` they are 0 there, what
    would be denormal in E is 0, and the logarithm is that of `least` where a sum is smaller.
    """
    torch.amax(e, -2, keepdim=True, out=shift)
    if guard:
        shift.clamp_(min=torch.finfo(shift.dtype).min)  # -inf - -inf would be NaN
    torch.sub(e, shift, out=scaled)
    if guard:
        floor, cut = FLOOR[e.dtype]
        scaled.clamp_(min=floor).exp_()
        torch.threshold_(scaled, cut, 0.0)
    else:
        scaled.exp_()
    if theta.dim() == 2:
        torch.mm(theta, scaled, out=sums)
    else:
        torch.bmm(theta, scaled, out=sums)
    if guard:
        torch.clamp(sums, min=least(e.dtype), out=out).log_()
    else:
        torch.log(sums, out=out)
    out.add_(shift)


def impossible(theta: Tensor, e: Tensor, sums: Tensor) -> bool:
    """Whether every sum that is too small has no child that supports it."""
    supported = (theta > 0).to(e.dtype) @ (~e.isneginf()).to(e.dtype) > 0
    return not bool((supported & (sums < least(sums.dtype))).any())


def ratio(flows: Tensor, sums: Tensor, mask: bool, out: Tensor) -> None:
    """``out`` = f / S; with ``mask`` 0 where a sum is too small: its n is -inf."""
    torch.div(flows, sums, out=out)
    if mask:
        out.masked_fill_(sums < least(sums.dtype), 0.0)
    torch.hardshrink(out, TINY[out.dtype], out=out)


def to_elements(theta: Tensor, quotient: Tensor, scaled: Tensor, out: Tensor) -> None:
    """``out`` [G, C, B] = E theta^T (f / S), the flows of the elements."""
    matmul(theta.transpose(-1, -2), quotient, out)
    out.mul_(scaled)


def to_parameters(quotient: Tensor, scaled: Tensor, out: Tensor, overwrite: bool) -> None:
    """H = (f / S) E^T, added to ``out`` [G, N, C] or in place of it."""
    if overwrite:
        matmul(quotient, scaled.transpose(-1, -2), out)
    elif out.dim() == 2:
        out.addmm_(quotient, scaled.transpose(-1, -2))
    else:
        out.baddbmm_(quotient, scaled.transpose(-1, -2))
