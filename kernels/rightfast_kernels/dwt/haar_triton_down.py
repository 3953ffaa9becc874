"""Haar's transform of several levels over one to three axes in one pass: each sample is read once.

A level is (a + b) c, (a - b) c s along each axis, c = SCALE and s = SIGN. Each thread loads a patch
and does INNER levels of it in registers; with ACROSS = 1 another level follows between threads,
whose low coefficients are few by then. haar_triton_tile.py has the terms.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from rightfast_kernels.dwt.haar_triton_tile import (
    after,
    as_in,
    load_patch,
    part,
    part_line,
    place,
    scaled,
    sign_of,
    sites,
    store_patch,
)


@triton.jit
def analyse(lines, SIDE: tl.constexpr, SITES: tl.constexpr, P: tl.constexpr, AXES: tl.constexpr):
    """One level of a patch of SIDE x SIDE lines of P samples: its bands by their code."""
    half: tl.constexpr = SIDE // 2
    if AXES == 1:
        low, high = part_line(lines, 1, SITES, P)
        bands = (low, high)
    elif AXES == 2:
        low, high = part_line(lines, SIDE, SITES, P)
        b0, b2 = part(low, half, 1)
        b1, b3 = part(high, half, 1)
        bands = (b0, b1, b2, b3)
    else:
        low, high = part_line(lines, SIDE * SIDE, SITES, P)
        low0, low2 = part(low, SIDE * half, 1)
        low1, low3 = part(high, SIDE * half, 1)
        b0, b4 = part(low0, half, half)
        b1, b5 = part(low1, half, half)
        b2, b6 = part(low2, half, half)
        b3, b7 = part(low3, half, half)
        bands = (b0, b1, b2, b3, b4, b5, b6, b7)
    return bands


@triton.jit
def part_across(value, AXES: tl.constexpr, SITES: tl.constexpr):
    """One level between threads, which lie as (2, 2, sites / 4, 2) or so: bands by their code."""
    if AXES == 1:
        a, b = tl.split(tl.reshape(value, (SITES // 2, 2)))
        bands = (a + b, a - b)
    elif AXES == 2:
        a, b = tl.split(tl.reshape(value, (2, SITES // 4, 2)))
        c, d = tl.split(tl.permute(a + b, (1, 0)))
        e, f = tl.split(tl.permute(a - b, (1, 0)))
        bands = (c + d, e + f, c - d, e - f)
    else:
        a, b = tl.split(tl.reshape(value, (2, 2, SITES // 8, 2)))
        c, d = tl.split(tl.permute(a + b, (0, 2, 1)))
        e, f = tl.split(tl.permute(a - b, (0, 2, 1)))
        b0, b4 = _part_last(c + d)
        b1, b5 = _part_last(e + f)
        b2, b6 = _part_last(c - d)
        b3, b7 = _part_last(e - f)
        bands = (b0, b1, b2, b3, b4, b5, b6, b7)
    return bands


@triton.jit
def _part_last(value):
    a, b = tl.split(tl.permute(value, (1, 0)))
    return a + b, a - b


@triton.jit
def store_level(
    details, bands, where, ok, n, SITES, SIDE: tl.constexpr, P, AXES: tl.constexpr, GAIN,
    SIGN: tl.constexpr, EVEN,
):  # fmt: skip
    """The details of one level of the patches; what comes back is its low band."""
    lines: tl.constexpr = SIDE ** (AXES - 1)
    for band in tl.static_range(1, 1 << AXES):
        if details[band - 1] is not None:
            value = scaled(bands[band], lines, GAIN * sign_of(band, SIGN))
            store_patch(details[band - 1], value, where, ok, n, SITES, SIDE, P, False, AXES, EVEN)
    return scaled(bands[0], lines, GAIN)


@triton.jit
def store_across(band, at, ok, value, GAIN):
    if band is not None:
        tl.store(band + at, as_in(value * GAIN, band), ok)


@triton.jit(do_not_specialize=["count", "n1", "n2", "n3"])
def haar_down_kernel(
    x, low,
    d11, d12, d13, d14, d15, d16, d17,
    d21, d22, d23, d24, d25, d26, d27,
    d31, d32, d33, d34, d35, d36, d37,
    count, n1, n2, n3,
    AXES: tl.constexpr, LEVELS: tl.constexpr, ACROSS: tl.constexpr, RUN: tl.constexpr,
    SITES: tl.constexpr, TWO: tl.constexpr, GAIN: tl.constexpr, SIGN: tl.constexpr,
    EVEN: tl.constexpr, WIDE: tl.constexpr, DOUBLE: tl.constexpr,
):  # fmt: skip
    """count sites; d21 is the band of code 1 at level 2, the finest is level 1; GAIN is c^AXES."""
    inner: tl.constexpr = LEVELS - ACROSS
    width: tl.constexpr = inner + RUN  # of a patch, as a power of two
    kind: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    group: tl.constexpr = SITES >> (ACROSS * AXES)
    details = (
        (d11, d12, d13, d14, d15, d16, d17),
        (d21, d22, d23, d24, d25, d26, d27),
        (d31, d32, d33, d34, d35, d36, d37),
    )
    n = (n1, n2, n3)
    program = tl.program_id(0)
    if WIDE:
        program = program.to(tl.int64)
    thread = tl.arange(0, SITES)
    site = program * group + (thread // 2 % group if ACROSS else thread)
    ok = site < count
    where = place(site, sites(n, LEVELS, LEVELS, RUN, EVEN), AXES, EVEN)
    if ACROSS:
        z = where[1] * 2 + thread // (4 * group) if AXES == 3 else where[1]
        y = where[2] * 2 + thread // (2 * group) % 2 if AXES > 1 else where[2]
        where = (where[0], z, y, where[3] * 2 + thread % 2)

    k = after(n, 0, LEVELS, RUN, EVEN)
    lines = load_patch(x, where, ok, k, SITES, 1 << inner, 1 << width, TWO, AXES, EVEN, kind, 1)
    for level in tl.static_range(1, inner + 1):
        bands = analyse(lines, 2 << (inner - level), SITES, 2 << (width - level), AXES)
        k = after(n, level, LEVELS, RUN, EVEN)
        lines = store_level(
            details[level - 1], bands, where, ok, k, SITES, 1 << (inner - level),
            1 << (width - level), AXES, GAIN, SIGN, EVEN,
        )  # fmt: skip
    if ACROSS:  # as many sites as coefficients, and in their order
        bands = part_across(tl.reshape(lines[0], (SITES,)), AXES, SITES)
        at = program * group + tl.arange(0, group)
        store_across(low, at, at < count, bands[0], GAIN)
        for band in tl.static_range(1, 1 << AXES):
            out = details[LEVELS - 1][band - 1]
            store_across(out, at, at < count, bands[band], GAIN * sign_of(band, SIGN))
    else:
        store_patch(
            low,
            lines,
            where,
            ok,
            after(n, LEVELS, LEVELS, RUN, EVEN),
            SITES,
            1,
            1 << RUN,
            False,
            AXES,
            EVEN,
        )
