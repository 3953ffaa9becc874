"""Kernels of 1 to 30 arguments that do next to nothing, so that a launch is all host."""

from __future__ import annotations

import triton
import triton.language as tl

BLOCK = 128


@triton.jit
def one_kernel(x, BLOCK: tl.constexpr):
    at = x + tl.arange(0, BLOCK)
    tl.store(at, 1 - tl.load(at))


@triton.jit
def four_kernel(out, a, b, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(a + at, at < n) + tl.load(b + at, at < n), at < n)


@triton.jit
def eight_kernel(out, a, b, c, d, n, scale, shift, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(a + at, at < n) + tl.load(b + at, at < n)
    right = tl.load(c + at, at < n) + tl.load(d + at, at < n)
    tl.store(out + at, (left + right) * scale + shift, at < n)


@triton.jit
def sixteen_kernel(
    out, a, b, c, d, e, f, g, h, n, scale, shift, stride, offset, low, high, BLOCK: tl.constexpr
):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = tl.load(a + at, at < n) + tl.load(b + at, at < n)
    second = tl.load(c + at, at < n) + tl.load(d + at, at < n)
    third = tl.load(e + at, at < n) + tl.load(f + at, at < n)
    fourth = tl.load(g + at, at < n) + tl.load(h + at, at < n)
    total = (first + second + third + fourth) * scale + shift
    keep = (at < n) & (at >= low) & (at < high)
    tl.store(out + at * stride + offset, total, keep)


@triton.jit
def thirty_kernel(
    out, a, b, c, d, e, f, g, h, i, j, k, m, p, q, r, s, t, u, v, w, x, y,
    n, scale, shift, stride, offset, low, high, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(a + at, at < n) + tl.load(b + at, at < n) + tl.load(c + at, at < n)
    total += tl.load(d + at, at < n) + tl.load(e + at, at < n) + tl.load(f + at, at < n)
    total += tl.load(g + at, at < n) + tl.load(h + at, at < n) + tl.load(i + at, at < n)
    total += tl.load(j + at, at < n) + tl.load(k + at, at < n) + tl.load(m + at, at < n)
    total += tl.load(p + at, at < n) + tl.load(q + at, at < n) + tl.load(r + at, at < n)
    total += tl.load(s + at, at < n) + tl.load(t + at, at < n) + tl.load(u + at, at < n)
    total += tl.load(v + at, at < n) + tl.load(w + at, at < n) + tl.load(x + at, at < n)
    total = (total + tl.load(y + at, at < n)) * scale + shift
    keep = (at < n) & (at >= low) & (at < high)
    tl.store(out + at * stride + offset, total, keep)


KERNELS = {1: one_kernel, 4: four_kernel, 8: eight_kernel, 16: sixteen_kernel, 30: thirty_kernel}
TENSORS = {1: 0, 4: 2, 8: 4, 16: 8, 30: 22}  # that are read, beside the one that is written
SCALE, SHIFT = 0.5, 0.25


def arguments(count, out, inputs):
    """What the kernel of `count` arguments is launched with."""
    n = out.numel()
    numbers = {
        1: [],
        4: [n],
        8: [n, SCALE, SHIFT],
        16: [n, SCALE, SHIFT, 1, 0, 0, n],
        30: [n, SCALE, SHIFT, 1, 0, 0, n],
    }
    return [out, *inputs, *numbers[count]]


def expected(count, inputs):
    """What the kernel of `count` arguments writes, in the inputs' dtype."""
    if count == 1:
        return 1 - inputs[0]
    total = sum(inputs)
    return total if count == 4 else total * SCALE + SHIFT
