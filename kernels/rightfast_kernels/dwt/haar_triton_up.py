"""The adjoint of Haar's transform, several levels in one pass: each sample is written once.

A level is x[2o] = (low + s high) c, x[2o + 1] = (low - s high) c along each axis, c = SCALE and
s = SIGN, and the last sample of an odd length is dropped. Each thread makes a patch, INNER levels
of it in registers. With ACROSS = 1 it first makes its low coefficient from the next level's bands,
as its neighbours do from the same ones: they are few. haar_triton_tile.py has the terms.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.dwt.haar_triton_tile import (
    after,
    load_patch,
    place,
    scaled,
    sign_of,
    sites,
    store_patch,
    weave,
    weave_line,
)


@triton.jit
def load_level(
    details, where, ok, n, SITES, SIDE, P, AXES: tl.constexpr, EVEN, KIND, SIGN
):  # fmt: skip
    bands = ()
    for band in tl.static_range(1, 1 << AXES):
        lines = load_patch(
            details[band - 1], where, ok, n, SITES, SIDE, P, False, AXES, EVEN, KIND,
            sign_of(band, SIGN),
        )  # fmt: skip
        bands += (lines,)
    return bands


@triton.jit
def synthesise(low, details, SIDE: tl.constexpr, SITES, P: tl.constexpr, AXES: tl.constexpr, GAIN):
    """One level of a patch: 2 SIDE x 2 SIDE lines of 2 P samples from its bands of SIDE x SIDE."""
    if AXES == 1:
        lines = weave_line(low, details[0], 1, SITES, 2 * P)
    elif AXES == 2:
        a = weave(low, details[1], SIDE, 1)
        b = weave(details[0], details[2], SIDE, 1)
        lines = weave_line(a, b, 2 * SIDE, SITES, 2 * P)
    else:
        a = weave(low, details[3], SIDE, SIDE)
        b = weave(details[0], details[4], SIDE, SIDE)
        c = weave(details[1], details[5], SIDE, SIDE)
        d = weave(details[2], details[6], SIDE, SIDE)
        e = weave(a, c, 2 * SIDE * SIDE, 1)
        f = weave(b, d, 2 * SIDE * SIDE, 1)
        lines = weave_line(e, f, 4 * SIDE * SIDE, SITES, 2 * P)
    return scaled(lines, (2 * SIDE) ** (AXES - 1), GAIN)


@triton.jit
def load_one(band, at, ok, SITES: tl.constexpr, KIND: tl.constexpr):
    return tl.zeros((SITES,), KIND) if band is None else tl.load(band + at, ok, 0.0).to(KIND)


@triton.jit
def weave_across(
    low, details, where, ok, n, SITES: tl.constexpr, AXES: tl.constexpr, KIND, GAIN, SIGN
):  # fmt: skip
    """Each site's low coefficient, from the bands of the level above, of lengths n."""
    block, z, y, x = where
    at = ((block * n[0] + z // 2) * n[1] + y // 2) * n[2] + x // 2
    value = load_one(low, at, ok, SITES, KIND)
    for band in tl.static_range(1, 1 << AXES):
        term = load_one(details[band - 1], at, ok, SITES, KIND) * sign_of(band, SIGN)
        odd = (x * (band & 1) + y * (band // 2 & 1) + z * (band // 4)) % 2 == 1
        value += tl.where(odd, -term, term)
    return (tl.reshape(value * GAIN, (SITES, 1)),)


@triton.jit(do_not_specialize=["count", "n1", "n2", "n3"])
def haar_up_kernel(
    x, low,
    d11, d12, d13, d14, d15, d16, d17,
    d21, d22, d23, d24, d25, d26, d27,
    d31, d32, d33, d34, d35, d36, d37,
    count, n1, n2, n3,
    AXES: tl.constexpr, LEVELS: tl.constexpr, ACROSS: tl.constexpr, RUN: tl.constexpr,
    SITES: tl.constexpr, TWO: tl.constexpr, GAIN: tl.constexpr, SIGN: tl.constexpr,
    EVEN: tl.constexpr, WIDE: tl.constexpr, DOUBLE: tl.constexpr,
):  # fmt: skip
    """The parameters of `haar_down_kernel`."""
    inner: tl.constexpr = LEVELS - ACROSS
    width: tl.constexpr = inner + RUN  # of a patch, as a power of two
    kind: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    details = (
        (d11, d12, d13, d14, d15, d16, d17),
        (d21, d22, d23, d24, d25, d26, d27),
        (d31, d32, d33, d34, d35, d36, d37),
    )
    n = (n1, n2, n3)
    program = tl.program_id(0)
    if WIDE:
        program = program.to(tl.int64)
    site = program * SITES + tl.arange(0, SITES)
    ok = site < count
    where = place(site, sites(n, inner, LEVELS, RUN, EVEN), AXES, EVEN)

    loaded = ()  # all of it before the first is needed, the largest first
    for level in tl.static_range(1, inner + 1):
        k = after(n, level, LEVELS, RUN, EVEN)
        bands = load_level(
            details[level - 1], where, ok, k, SITES, 1 << (inner - level),
            1 << (width - level), AXES, EVEN, kind, SIGN,
        )  # fmt: skip
        loaded += (bands,)
    if ACROSS:
        m = after(n, LEVELS, LEVELS, RUN, EVEN)
        lines = weave_across(low, details[LEVELS - 1], where, ok, m, SITES, AXES, kind, GAIN, SIGN)
    else:
        k = after(n, inner, LEVELS, RUN, EVEN)
        lines = load_patch(low, where, ok, k, SITES, 1, 1 << RUN, False, AXES, EVEN, kind, 1)
    for step in tl.static_range(inner):
        bands = loaded[inner - 1 - step]
        lines = synthesise(lines, bands, 1 << step, SITES, 1 << (RUN + step), AXES, GAIN)
    k = after(n, 0, LEVELS, RUN, EVEN)
    store_patch(
        x, lines, where, ok, k, SITES, 1 << inner, 1 << width, TWO, AXES, EVEN
    )  # fmt: skip
