"""What Haar's two kernels share: where a thread's patch lies, and its lines in registers.

A site is a patch of the signal whose coefficients need no other sample: 2^INNER samples along each
axis but the last, and P along the last, INNER levels being done in registers. A program has as many
sites as threads, and every tensor is [SITES, elements of one line], a line in one thread: splitting
and joining the last dimension then renames registers, and a line is one access of up to 16 bytes.
Lines over the other axes are a tuple, the last of these axes fastest.

Lengths come as n, three of them. One that is even at every level comes as its quotient by 2^LEVELS
(the last by 2^(LEVELS + RUN)), so that the compiler knows how far addresses are divisible: EVEN is
2 where all are so, and then blocks continue the first axis, 1 where only the last is, 0 elsewhere.
"""

# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def after(n, LEVEL: tl.constexpr, LEVELS: tl.constexpr, RUN: tl.constexpr, EVEN: tl.constexpr):
    """The lengths after LEVEL of LEVELS levels: half each time, rounded up."""
    m1, m2 = _halved(n[0], LEVEL), _halved(n[1], LEVEL)
    if EVEN == 2:
        m1, m2 = n[0] * (1 << (LEVELS - LEVEL)), n[1] * (1 << (LEVELS - LEVEL))
    m3 = n[2] * (1 << (LEVELS + RUN - LEVEL)) if EVEN > 0 else _halved(n[2], LEVEL)
    return m1, m2, m3


@triton.jit
def sites(n, LEVEL: tl.constexpr, LEVELS: tl.constexpr, RUN: tl.constexpr, EVEN: tl.constexpr):
    """Sites along each axis: one has 2^RUN of the coefficients of a level in a line."""
    m = after(n, LEVEL, LEVELS, RUN, EVEN)
    last = n[2] * (1 << (LEVELS - LEVEL)) if EVEN > 0 else _halved(n[2], LEVEL + RUN)
    return m[0], m[1], last


@triton.jit
def _halved(n, TIMES: tl.constexpr):
    return (n + ((1 << TIMES) - 1)) >> TIMES


@triton.jit
def place(site, m, AXES: tl.constexpr, EVEN: tl.constexpr):
    """(block, z, y, x) of a site; axes that are not transformed are 0."""
    block = tl.zeros_like(site)
    z, y, x, rest = block, block, site, site
    if AXES > 1 or EVEN < 2:
        x = site % m[2]
        rest = site // m[2]
    if AXES == 2:
        y = rest
    if AXES == 3 or (AXES == 2 and EVEN < 2):
        y = rest % m[1]
        rest = rest // m[1]
    if AXES == 3:
        z = rest
        if EVEN < 2:
            z = rest % m[0]
            rest = rest // m[0]
    if EVEN < 2:
        block = rest
    return block, z, y, x


@triton.jit
def corner(where, n, SIDE: tl.constexpr, P: tl.constexpr):
    """Offsets of the patches' first samples in a tensor of these lengths."""
    block, z, y, x = where
    return ((block * n[0] + z * SIDE) * n[1] + y * SIDE) * n[2] + x * P


@triton.jit
def line_mask(ok, where, n, Z: tl.constexpr, Y: tl.constexpr, SIDE: tl.constexpr, AXES, EVEN):
    """Which sites have line (Z, Y) of their patch."""
    if EVEN < 2:
        if AXES == 3:
            ok = ok & (where[1] * SIDE + Z < n[0])
        if AXES > 1:
            ok = ok & (where[2] * SIDE + Y < n[1])
    return ok


@triton.jit
def piece_mask(ok, left, FIRST: tl.constexpr, P: tl.constexpr, EVEN: tl.constexpr):
    mask = ok[:, None]
    if EVEN == 0:
        mask = mask & (FIRST + tl.arange(0, P)[None, :] < left[:, None])
    return mask


@triton.jit
def load_piece(line, ok, left, FIRST: tl.constexpr, P: tl.constexpr, EVEN: tl.constexpr):
    at = line[:, None] + (FIRST + tl.arange(0, P))[None, :]
    mask = piece_mask(ok, left, FIRST, P, EVEN)
    # Where all is even a site is there or not, and what is not there is not stored either.
    return tl.load(at, mask) if EVEN == 2 else tl.load(at, mask, 0.0)


@triton.jit
def as_in(value, at):
    """A value in the type that it is stored as; the interpreter has no float64 to bfloat16."""
    if at.dtype.element_ty.primitive_bitwidth == 16:
        value = value.to(tl.float32)
    return value.to(at.dtype.element_ty)


@triton.jit
def store_piece(line, value, ok, left, FIRST: tl.constexpr, P: tl.constexpr, EVEN: tl.constexpr):
    at = line[:, None] + (FIRST + tl.arange(0, P))[None, :]
    tl.store(at, as_in(value, line), piece_mask(ok, left, FIRST, P, EVEN))


@triton.jit
def load_line(line, ok, left, SITES, P: tl.constexpr, TWO: tl.constexpr, EVEN: tl.constexpr):
    """P samples from each address on, in two pieces where they are too many bytes for one."""
    if TWO:
        first = load_piece(line, ok, left, 0, P // 2, EVEN)
        second = load_piece(line, ok, left, P // 2, P // 2, EVEN)
        value = tl.reshape(tl.permute(tl.join(first, second), (0, 2, 1)), (SITES, P))
    else:
        value = load_piece(line, ok, left, 0, P, EVEN)
    return value


@triton.jit
def store_line(line, value, ok, left, SITES, P: tl.constexpr, TWO: tl.constexpr, EVEN):
    if TWO:
        halves = tl.permute(tl.reshape(value, (SITES, 2, P // 2)), (0, 2, 1))
        first, second = tl.split(halves)
        store_piece(line, first, ok, left, 0, P // 2, EVEN)
        store_piece(line, second, ok, left, P // 2, P // 2, EVEN)
    else:
        store_piece(line, value, ok, left, 0, P, EVEN)


@triton.jit
def load_patch(
    band, where, ok, n, SITES: tl.constexpr, SIDE, P: tl.constexpr, TWO,
    AXES: tl.constexpr, EVEN, KIND: tl.constexpr, SIGN: tl.constexpr,
):  # fmt: skip
    """The lines of the patches in a tensor, times SIGN; zeros where there is none."""
    lines = ()
    for z in tl.static_range(SIDE if AXES == 3 else 1):
        for y in tl.static_range(SIDE if AXES > 1 else 1):
            if band is None:
                lines += (tl.zeros((SITES, P), KIND),)
            else:
                at = band + corner(where, n, SIDE, P) + (z * n[1] + y) * n[2]
                there = line_mask(ok, where, n, z, y, SIDE, AXES, EVEN)
                line = load_line(at, there, n[2] - where[3] * P, SITES, P, TWO, EVEN)
                lines += (line.to(KIND) * SIGN,)
    return lines


@triton.jit
def store_patch(
    band, lines, where, ok, n, SITES, SIDE, P, TWO, AXES: tl.constexpr, EVEN
):  # fmt: skip
    at = band + corner(where, n, SIDE, P)
    left = n[2] - where[3] * P
    across: tl.constexpr = SIDE if AXES > 1 else 1
    for z in tl.static_range(SIDE if AXES == 3 else 1):
        for y in tl.static_range(across):
            there = line_mask(ok, where, n, z, y, SIDE, AXES, EVEN)
            line = at + (z * n[1] + y) * n[2]
            store_line(line, lines[z * across + y], there, left, SITES, P, TWO, EVEN)


@triton.jit
def part(lines, OUTER: tl.constexpr, INNER: tl.constexpr):
    """Sums and differences over the middle of OUTER x 2 x INNER lines."""
    low, high = (), ()
    for o in tl.static_range(OUTER):
        for i in tl.static_range(INNER):
            a = lines[2 * o * INNER + i]
            b = lines[(2 * o + 1) * INNER + i]
            low += (a + b,)
            high += (a - b,)
    return low, high


@triton.jit
def weave(low, high, OUTER: tl.constexpr, INNER: tl.constexpr):
    """The adjoint of `part`."""
    lines = ()
    for o in tl.static_range(OUTER):
        for i in tl.static_range(INNER):
            lines += (low[o * INNER + i] + high[o * INNER + i],)
        for i in tl.static_range(INNER):
            lines += (low[o * INNER + i] - high[o * INNER + i],)
    return lines


@triton.jit
def part_line(lines, COUNT: tl.constexpr, SITES: tl.constexpr, P: tl.constexpr):
    """Sums and differences of neighbours in COUNT lines of P samples."""
    low, high = (), ()
    for i in tl.static_range(COUNT):
        a, b = tl.split(tl.reshape(lines[i], (SITES, P // 2, 2)))
        low += (a + b,)
        high += (a - b,)
    return low, high


@triton.jit
def weave_line(low, high, COUNT: tl.constexpr, SITES: tl.constexpr, P: tl.constexpr):
    """The adjoint of `part_line`, to lines of P samples."""
    lines = ()
    for i in tl.static_range(COUNT):
        both = tl.join(low[i] + high[i], low[i] - high[i])
        lines += (tl.reshape(both, (SITES, P)),)
    return lines


@triton.jit
def scaled(lines, COUNT: tl.constexpr, FACTOR: tl.constexpr):
    out = ()
    for i in tl.static_range(COUNT):
        out += (lines[i] * FACTOR,)
    return out


@triton.constexpr_function
def sign_of(band, sign):
    """The sign once for each axis that the band of this code is high along."""
    return sign if band.bit_count() % 2 else 1
