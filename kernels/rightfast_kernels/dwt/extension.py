"""Signal extension past both ends, and its adjoint.

For a signal x of N samples, the extension x~(n) is defined at any integer n:

    zero            0
    constant        x[0] on the left, x[N-1] on the right
    symmetric       x2[n mod 2N],      x2 = x, then x reversed
    antisymmetric   the same, times (-1)^floor(n / N)
    reflect         x2[n mod (2N-2)],  x2 = x, then x reversed without its two ends
    antireflect     2 x(end) - reflect, again at every reflection: slopes continue
    periodic        x[n mod N]
    periodization   periodic, after the last sample of an odd signal is repeated once
    smooth          the straight line through the two samples at the edge

Everything here runs along one dimension, given as a non-negative ``dim``. Only slices, flips
and sums are used, so that a NaN stays where the formula puts it and autograd, vmap and
torch.compile see nothing unusual. Nothing is cached: a tensor made under
``torch.inference_mode`` and reused would break the training that follows.
"""

import torch
from torch import Tensor

MODES = (
    "zero",
    "constant",
    "symmetric",
    "periodic",
    "smooth",
    "periodization",
    "reflect",
    "antisymmetric",
    "antireflect",
)


def reach(mode: str, n: int) -> int | None:
    """How far one reflection or period of an n-sample signal goes; None if there is no limit."""
    if mode in ("reflect", "antireflect"):
        return n - 1
    return None if mode in ("zero", "constant", "smooth") else n


def extend(x: Tensor, before: int, after: int, mode: str, dim: int) -> Tensor:
    """x~(-before) ... x~(N-1+after) along ``dim``: shape N -> before + N + after.

    A signal shorter than the border is extended several times: an extension of an extension
    is the extension, in each of these modes.
    """
    if not (before or after):
        return x
    if mode == "periodization":
        if x.shape[dim] % 2:
            x, after = torch.cat((x, x.narrow(dim, x.shape[dim] - 1, 1)), dim), after - 1
        mode = "periodic"
    for b, a in schedule(x.shape[dim], before, after, mode):
        left, right = strips(x, b, a, mode, dim)
        x = torch.cat([t for t in (left, x, right) if t is not None], dim)
    return x


def schedule(n: int, before: int, after: int, mode: str) -> list[tuple[int, int]]:
    """The (left, right) widths of each round of `extend` (not for periodization)."""
    rounds = []
    while before > 0 or after > 0:
        limit = reach(mode, n)
        if limit == 0:
            raise ValueError(f"mode {mode!r} cannot extend a signal of {n} samples; give it more")
        b, a = (before, after) if limit is None else (min(before, limit), min(after, limit))
        rounds.append((b, a))
        before, after, n = before - b, after - a, n + a + b
    return rounds


def strips(
    x: Tensor, before: int, after: int, mode: str, dim: int
) -> tuple[Tensor | None, Tensor | None]:
    """The two borders of one round, None where a width is 0; widths within `reach`."""
    left = _strip(x, before, mode, dim, at_end=False) if before else None
    right = _strip(x, after, mode, dim, at_end=True) if after else None
    return left, right


def _strip(x: Tensor, width: int, mode: str, dim: int, at_end: bool) -> Tensor:
    n = x.shape[dim]
    if mode == "periodic":
        return x.narrow(dim, 0 if at_end else n - width, width)
    if mode == "symmetric":
        return x.narrow(dim, n - width if at_end else 0, width).flip(dim)
    if mode == "zero":
        return x.new_zeros([*x.shape[:dim], width, *x.shape[dim + 1 :]])
    edge = x.narrow(dim, n - 1 if at_end else 0, 1)
    if mode == "constant" or (mode == "smooth" and n == 1):
        return torch.cat([edge] * width, dim)
    if mode == "smooth":
        inner = x.narrow(dim, n - 2 if at_end else 1, 1)
        return edge + ramp(x, width, dim, at_end) * (edge - inner)
    skip = 1 if mode in ("reflect", "antireflect") else 0
    mirrored = x.narrow(dim, n - width - skip if at_end else skip, width).flip(dim)
    if mode == "antisymmetric":
        return -mirrored
    return 2 * edge - mirrored if mode == "antireflect" else mirrored


def ramp(x: Tensor, width: int, dim: int, at_end: bool) -> Tensor:
    """Distances from the edge: width..1 on the left, 1..width on the right, along ``dim``."""
    real = x.dtype.to_real() if x.dtype.is_complex else x.dtype
    steps = torch.arange(1, width + 1, dtype=real, device=x.device)
    return (steps if at_end else steps.flip(0)).view([-1] + [1] * (x.ndim - dim - 1))


def fold(g: Tensor, before: int, n: int, mode: str, dim: int) -> Tensor:
    """The adjoint of `extend`: g of before + n + after samples -> n samples."""
    after = g.shape[dim] - before - n
    odd = mode == "periodization" and n % 2 == 1
    size, after = (n + 1, after - 1) if odd else (n, after)
    mode = "periodic" if mode == "periodization" else mode
    for b, a in reversed(schedule(size, before, after, mode)):
        length = g.shape[dim] - b - a
        middle = g.narrow(dim, b, length).clone()
        fold_strips(middle, g.narrow(dim, 0, b), g.narrow(dim, b + length, a), mode, dim)
        g = middle
    if odd:
        g = g.narrow(dim, 0, n) + _only_last(g.narrow(dim, n, 1), n, dim)
    return g


def _only_last(last: Tensor, n: int, dim: int) -> Tensor:
    zeros = last.new_zeros([*last.shape[:dim], n - 1, *last.shape[dim + 1 :]])
    return torch.cat((zeros, last), dim)


def fold_strips(middle: Tensor, left: Tensor, right: Tensor, mode: str, dim: int) -> None:
    """The adjoint of `strips`: adds to ``middle``, in place, what the borders owe it."""
    if mode == "zero":
        return
    for strip, at_end in ((left, False), (right, True)):
        if strip.shape[dim]:
            _fold_strip(middle, strip, mode, dim, at_end)


def _fold_strip(middle: Tensor, strip: Tensor, mode: str, dim: int, at_end: bool) -> None:
    n, width = middle.shape[dim], strip.shape[dim]
    edge = middle.narrow(dim, n - 1 if at_end else 0, 1)
    if mode == "constant" or (mode == "smooth" and n == 1):
        edge.add_(strip.sum(dim, keepdim=True))
        return
    if mode == "smooth":
        slope = (strip * ramp(strip, width, dim, at_end)).sum(dim, keepdim=True)
        edge.add_(strip.sum(dim, keepdim=True) + slope)
        middle.narrow(dim, n - 2 if at_end else 1, 1).sub_(slope)
        return
    if mode == "periodic":
        middle.narrow(dim, 0 if at_end else n - width, width).add_(strip)
        return
    skip = 1 if mode in ("reflect", "antireflect") else 0
    sign = -1 if mode in ("antisymmetric", "antireflect") else 1
    middle.narrow(dim, n - width - skip if at_end else skip, width).add_(
        strip.flip(dim), alpha=sign
    )
    if mode == "antireflect":
        edge.add_(strip.sum(dim, keepdim=True), alpha=2)
