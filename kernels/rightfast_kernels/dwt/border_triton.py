"""What lies past the ends of a signal, for Triton kernels: extension.py's formulas by index.

Each sample of the extended signal is x~(i) = s x[place] + a x[0] + b x[n-1]; only the modes in
WEIGHTED have weights (s, a, b) other than (1, 0, 0), and zero has none past the ends.
Periodization is periodic with the period rounded up to an even number.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

ZERO = tl.constexpr(0)
SYMMETRIC = tl.constexpr(1)
CONSTANT = tl.constexpr(2)
SMOOTH = tl.constexpr(3)
PERIODIC = tl.constexpr(4)
PERIODIZATION = tl.constexpr(5)
REFLECT = tl.constexpr(6)
ANTISYMMETRIC = tl.constexpr(7)
ANTIREFLECT = tl.constexpr(8)
WEIGHTED = (3, 7, 8)


@triton.jit
def turn(i, n, MODE: tl.constexpr, SHORT: tl.constexpr):
    """i within one period of the extension, which begins with the signal.

    SHORT: i may be further away than one period, as it is for a signal shorter than the filter.
    """
    period = n
    if MODE == PERIODIZATION:
        period = n + n % 2
    elif (MODE == SYMMETRIC) or (MODE == ANTISYMMETRIC):
        period = 2 * n
    elif (MODE == REFLECT) or (MODE == ANTIREFLECT):
        period = 2 * n - 2
    if SHORT:
        return ((i % period) + period) % period
    return tl.where(i < 0, i + period, tl.where(i >= period, i - period, i))


@triton.jit
def place(i, n, MODE: tl.constexpr, SHORT: tl.constexpr):
    """The index in 0..n-1 that x~(i) is read at."""
    if not SHORT and ((MODE == SYMMETRIC) or (MODE == REFLECT)):  # the same, of fewer steps
        edge: tl.constexpr = 1 if MODE == SYMMETRIC else 0
        j = tl.maximum(i, -edge - i)
        return tl.minimum(j, 2 * n - 2 + edge - j)
    elif (MODE == PERIODIC) or (MODE == PERIODIZATION):
        return tl.minimum(turn(i, n, MODE, SHORT), n - 1)
    elif (MODE == SYMMETRIC) or (MODE == ANTISYMMETRIC):
        j = turn(i, n, MODE, SHORT)
        return tl.where(j < n, j, 2 * n - 1 - j)
    elif (MODE == REFLECT) or (MODE == ANTIREFLECT):
        j = turn(i, n, MODE, SHORT)
        return tl.where(j < n, j, 2 * n - 2 - j)
    elif MODE == SMOOTH:
        inner = tl.where(i < 0, tl.minimum(1, n - 1), tl.maximum(n - 2, 0))
        return tl.where((i < 0) | (i >= n), inner, i)
    else:
        return tl.minimum(tl.maximum(i, 0), n - 1)


@triton.jit
def weigh(i, n, MODE: tl.constexpr, SHORT: tl.constexpr):
    """The weights (s, a, b) of x~(i), whole numbers: see the head of this file."""
    outside = (i < 0) | (i >= n)
    none = i * 0
    if MODE == ANTISYMMETRIC:
        s = tl.where(turn(i, n, MODE, SHORT) < n, none + 1, none - 1)
        return s, none, none
    elif MODE == ANTIREFLECT:
        r = turn(i, n, MODE, SHORT)
        q = (i - r) // (2 * n - 2)  # exact
        s = tl.where(r < n, none + 1, none - 1)
        return s, -2 * q, 2 * q + tl.where(r < n, none, none + 2)
    elif MODE == SMOOTH:
        # A line through the two samples at the edge; through one sample, a constant.
        away = tl.where(n == 1, none, tl.where(i < 0, -i, i - (n - 1)))
        a = tl.where(i < 0, 1 + away, none)
        b = tl.where(i >= n, 1 + away, none)
        return tl.where(outside, -away, none + 1), a, b
    else:
        return none + 1, none, none
