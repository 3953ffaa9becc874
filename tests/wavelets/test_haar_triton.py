"""Haar's Triton kernels against the formulas. Without a GPU they are interpreted, in a process of
its own, since Triton decides that when it is imported."""

import os
import subprocess
import sys
from itertools import chain, product

import pytest
import torch
from rightfast_kernels.dwt.reference import analysis

pytest.importorskip("triton")

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
RUNS = INTERPRETED or DEVICE == "cuda"
needs_device = pytest.mark.skipif(not RUNS, reason="neither interpreted nor a GPU: see below")
C = 2**-0.5
F32 = torch.float32
ROUNDING = {
    torch.float64: 1e-14,
    torch.float32: 1e-6,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}


def kernels():
    from rightfast_kernels.dwt import haar_triton

    return haar_triton


def lengths_of(shape, levels):
    """Lengths of the transformed axes at each level, the finest first, and of the low band."""
    return [tuple(-(-n // (1 << level)) for n in shape[1:]) for level in range(levels + 1)]


def decomposed(x, levels, scale=C, sign=1.0):
    """[low band, the details of the deepest level first], in float64."""
    low, details = x.double(), []
    for _ in range(levels):
        bands = [low]
        for axis in range(1, x.ndim):
            # `analysis` reads taps backwards.
            taps = (scale, scale), (-sign * scale, sign * scale)
            bands = [part for band in bands for part in analysis(band, *taps, "zero", axis)]
        low = bands[0]
        details.insert(0, bands[1:])
    return low, details


def composed(low, details, shape, scale=C, sign=1.0):
    """The adjoint, by autograd."""
    x = torch.zeros(shape, dtype=torch.float64, device=low.device, requires_grad=True)
    first, rest = decomposed(x, len(details), scale, sign)
    outputs = [first, *chain(*rest)]
    given = [low, *chain(*details)]
    (grad,) = torch.autograd.grad(outputs, x, [band.double() for band in given])
    return grad


def signal(shape, dtype, key=0):
    generator = torch.Generator().manual_seed(key)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(DEVICE, dtype)


def bands_like(shape, levels, dtype, key=1):
    lengths = lengths_of(shape, levels)
    low = signal((shape[0], *lengths[levels]), dtype, key)
    count = 2 ** (len(shape) - 1) - 1
    details = [
        [signal((shape[0], *lengths[level]), dtype, 10 * level + i) for i in range(count)]
        for level in range(levels, 0, -1)
    ]
    return low, details


def poisoned(like):
    return torch.full_like(like, float("nan"))


def close(found, expected, dtype):
    assert found.dtype == dtype
    size = max(1.0, float(expected.abs().max())) if expected.numel() else 1.0
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=ROUNDING[dtype] * size)


def run_down(x, levels, dtype=None, sign=1.0, config=None, scale=C):
    low, details = bands_like(x.shape, levels, dtype or x.dtype)
    low, details = poisoned(low), [[poisoned(band) for band in bands] for bands in details]
    kernels().down(x, low, details, scale, sign, config)
    return low, details


def check(shape, levels, dtype=torch.float32, bands=None, sign=1.0, config=None, scale=C):
    """Both ways, and that one is the other's adjoint."""
    bands = bands or dtype
    x = signal(shape, dtype)
    low, details = run_down(x, levels, bands, sign, config, scale)
    expected_low, expected = decomposed(x, levels, scale, sign)
    rounding = max(dtype, bands, key=ROUNDING.get)
    close(low, expected_low, bands)
    for some, wanted in zip(details, expected, strict=True):
        for band, right in zip(some, wanted, strict=True):
            close(band, right, bands)

    back, given = poisoned(x), bands_like(shape, levels, bands)
    kernels().up(*given, back, scale, sign, config)
    close(back, composed(*given, shape, scale, sign), dtype)

    there = [(low, given[0])]
    there += [pair for some, others in zip(details, given[1]) for pair in zip(some, others)]
    left = sum(float((a.double() * b.double()).sum()) for a, b in there)
    right = float((x.double() * back.double()).sum())
    size = float(x.double().norm() * back.double().norm()) + 1
    assert abs(left - right) <= ROUNDING[rounding] * size


EVEN = [(3, 32), (3, 8, 16), (2, 8, 8, 16)]
ODD = [(3, 37), (1, 1), (3, 13, 21), (2, 1, 9), (2, 5, 7, 11), (1, 3, 1, 2)]
FIRST_ODD = [(2, 13, 24), (2, 7, 10, 16)]  # the last axis alone is even at every level


@needs_device
@pytest.mark.parametrize("levels", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", EVEN + ODD + FIRST_ODD, ids=str)
def test_both_ways(shape, levels):
    check(shape, levels)


@needs_device
@pytest.mark.parametrize("shape", EVEN + ODD, ids=str)
def test_every_cut(shape):
    """Levels within a thread or across, one or several coefficients in a line, few or many."""
    config = kernels().Config
    for levels, across, run, warps in [
        (1, 0, 1, 1),
        (1, 0, 2, 2),
        (1, 1, 0, 1),
        (2, 0, 1, 1),
        (2, 1, 0, 2),
        (3, 0, 0, 1),
        (3, 1, 0, 1),
    ]:
        if (levels - across) * (len(shape) - 1) + run <= 6:
            check(shape, levels, config=config(across, run, warps))


@needs_device
@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
def test_dtypes(dtype):
    check((2, 8, 16), 3, dtype)
    check((2, 9, 13), 2, dtype)
    check((2, 64), 4, dtype)


@needs_device
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("bands", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_bands_of_another_dtype(dtype, bands):
    check((2, 8, 16), 2, dtype, bands)


@needs_device
def test_a_scratch_tensor_does_not_round():
    """Of four levels the fourth reads what the first three left in float32."""
    x = signal((1, 256), torch.float16)
    low, _ = run_down(x, 4, torch.float32)
    close(low, decomposed(x, 4)[0], torch.float32)


@needs_device
@pytest.mark.parametrize(("sign", "scale"), list(product([1.0, -1.0], [C, 0.5, -1.0])))
def test_signs_and_sizes(sign, scale):
    for shape in EVEN:
        check(shape, 2, sign=sign, scale=scale)
    check((2, 8, 16), 3, sign=sign, scale=scale, config=kernels().Config(1, 0, 1))


@needs_device
@pytest.mark.parametrize("shape", EVEN + ODD[:3], ids=str)
def test_absent_bands(shape):
    """They are zeros on the way up, and not wanted on the way down."""
    haar, levels = kernels(), 3
    x, (low, details) = signal(shape, torch.float32), bands_like(shape, levels, torch.float32)
    count = len(details[0])
    for number, missing in enumerate([{(0, 0)}, {(1, 0), (2, count - 1)}, set(), {(0, None)}]):
        gone = [
            [(level, band) in missing or (level, None) in missing for band in range(count)]
            for level in range(levels)
        ]
        there = [
            [None if g else band for g, band in zip(*pair, strict=True)]
            for pair in zip(gone, details, strict=True)
        ]
        zeroed = [
            [band * (not g) for g, band in zip(*pair, strict=True)]
            for pair in zip(gone, details, strict=True)
        ]
        own, back = (low if number else None), poisoned(x)
        haar.up(own, there, back, C, 1.0)
        close(back, composed(low * bool(number), zeroed, shape), torch.float32)

        out = [[None if b is None else poisoned(b) for b in bands] for bands in there]
        out_low = poisoned(low)
        haar.down(x, out_low, out, C, 1.0)
        expected_low, expected = decomposed(x, levels)
        close(out_low, expected_low, torch.float32)
        for some, wanted in zip(out, expected, strict=True):
            for band, right in zip(some, wanted, strict=True):
                if band is not None:
                    close(band, right, torch.float32)


@needs_device
def test_nothing_around_is_touched():
    """The tensors lie in the middle of larger ones, which keep what they had."""

    def inside(like):
        whole = torch.full((like.numel() + 64,), 7.0, dtype=like.dtype, device=like.device)
        return whole, whole[32 : 32 + like.numel()].view(like.shape)

    for shape in [*EVEN, *ODD, (3, 5, 24)]:
        x, (low, details) = signal(shape, torch.float32), bands_like(shape, 3, torch.float32)
        wholes, out = zip(*[inside(b) for b in (low, *chain(*details), x)], strict=True)
        count = len(details[0])
        rest = [list(out[1 + i * count : 1 + (i + 1) * count]) for i in range(3)]
        kernels().down(x, out[0], rest, C, 1.0)
        kernels().up(low, details, out[-1], C, 1.0)
        for whole in wholes:
            assert bool((whole[:32] == 7).all())
            assert bool((whole[-32:] == 7).all())


@needs_device
def test_offsets_of_large_tensors(monkeypatch):
    """The switch to 64-bit offsets, without the two billion elements."""
    haar, seen = kernels(), []

    def launch(kernel, grid, *arguments, **meta):
        seen.append(meta["WIDE"])
        return kernel[grid](*arguments, **{**meta, "WIDE": True})

    monkeypatch.setattr(haar, "launch", launch)
    for shape in [(3, 32), (2, 13, 21), (2, 8, 8, 16)]:
        check(shape, 3)
    assert seen
    assert not any(seen)


@needs_device
def test_nothing_to_do(monkeypatch):
    monkeypatch.setattr(kernels(), "launch", lambda *_, **__: pytest.fail("launched"))
    for shape in [(0, 16), (0, 8, 8), (2, 0), (2, 0, 4)]:
        x, (low, details) = signal(shape, torch.float32), bands_like(shape, 2, torch.float32)
        kernels().down(x, low, details, C, 1.0)
        kernels().up(low, details, x, C, 1.0)


@needs_device
def test_one_launch_for_three_levels(monkeypatch):
    haar, grids = kernels(), []
    monkeypatch.setattr(haar, "launch", lambda _, grid, *__, **___: grids.append(grid))
    for levels, launches in [(1, 1), (3, 1), (4, 2), (6, 2), (7, 3)]:
        x, (low, details) = (
            signal((2, 256), torch.float32),
            bands_like((2, 256), levels, torch.float32),
        )
        grids.clear()
        haar.down(x, low, details, C, 1.0)
        assert len(grids) == launches
        grids.clear()
        haar.up(low, details, x, C, 1.0)
        assert len(grids) == launches


def test_what_suits():
    suits, haar = kernels().suits, ((C, C), (C, -C))
    even, odd = [((8, 4), (16, 8)), ((4, 2), (8, 4))], [((9, 5),), ((5, 3),)]
    assert suits("zero", *haar, even)
    assert suits("zero", *haar, odd)
    assert suits("symmetric", *haar, even)
    assert suits("periodization", (C, C), (-C, C), even)
    assert not suits("symmetric", *haar, odd)
    assert not suits("symmetric", *haar, [((8, 4), (2, 1)), ((4, 2), (1, 1))])
    assert not suits("zero", (C, C), (C, C), even)
    assert not suits("zero", (C, 0.5), (C, -C), even)
    assert not suits("zero", (C, C), (0.5, -0.5), even)
    assert not suits("zero", (C, C, 0.0, 0.0), (C, -C, 0.0, 0.0), even)
    assert not suits("zero", (0.0, 0.0), (0.0, 0.0), even)
    assert not suits("zero", *haar, [((8, 5),)])
    assert not suits("zero", *haar, [((8, 4),), ((5, 3),)])
    assert not suits("zero", *haar, [((8, 4),) * 4])
    assert not suits("zero", *haar, [])


@pytest.mark.skipif(RUNS, reason="runs above")
def test_interpreted():
    """This file again, interpreted."""
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
