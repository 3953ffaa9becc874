"""The pairs that the native kernels lift: along lines, and over planes in one loop."""

from itertools import product

import numpy as np
import pytest
import pywt
import torch
from rightfast_kernels.dwt import native

from rightfast import wavelets as ours

from .common import MODES, assert_close, fits, leaves, norm, signal
from .test_native import SETS

pytestmark = [
    pytest.mark.skipif(not native.available, reason="the native kernels were not built"),
    pytest.mark.filterwarnings("ignore:Level value"),
]
LIFTED = [kind + bank for bank in ("2.2", "2.4", "1.3", "1.5") for kind in ("bior", "rbio")]


@pytest.fixture(autouse=True)
def _only_kernels():
    with ours.backend("kernel"):
        yield
    native.cpu()


def summed(name):
    """The same wavelet but for the last bit of one tap, which no steps give: it is summed."""
    bank = [list(f) for f in ours.Wavelet(name).filter_bank]
    for low, high in (bank[:2], bank[2:]):
        five = max(low, high, key=np.count_nonzero)
        outer = np.flatnonzero(five)[0]
        five[outer] = float(np.nextafter(five[outer], 0))
    return ours.Wavelet(f"{name}, summed", bank)


def both_ways(x, wavelet, mode, axes, level):
    """Bands, signal, and the gradients of both."""
    x = x.clone().requires_grad_()
    bands = ours.wavedecn(x, wavelet, mode, level, axes)
    flat = leaves(bands)
    (down,) = torch.autograd.grad(flat, x, [torch.cos(b.detach()) for b in flat])
    given = [bands[0].detach().requires_grad_()]
    given += [{k: b.detach().requires_grad_() for k, b in d.items()} for d in bands[1:]]
    back = ours.waverecn(given, wavelet, mode, axes)
    up = torch.autograd.grad(back, leaves(given), torch.sin(back.detach()))
    return [t.detach() for t in (*flat, down, back, *up)]


def agrees_with_torch(x, wavelet, mode, axes, level, tolerance):
    if mode == "smooth":  # the straight line, continued far, multiplies errors
        tolerance *= 10
    found = both_ways(x, wavelet, mode, axes, level)
    with ours.backend("torch"):
        wanted = both_ways(x, wavelet, mode, axes, level)
    scale = max(norm(*wanted), 1e-300)
    for a, w in zip(found, wanted, strict=True):
        assert a.dtype == x.dtype
        assert_close(a, w.numpy(), scale, tolerance)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", LIFTED)
@pytest.mark.parametrize("name", SETS)
def test_lines_of_every_set(name, wavelet, mode):
    """Shorter than a line that is lifted, all of it in strips, with one block inside, with more."""
    native.cpu(name)
    for n in (1, 2, 5, 6, 63, 64, 65, 66, 95, 100, 101, 127, 128, 130, 131, 163, 260, 1001):
        if not fits(n, mode):
            continue
        x = signal(2, n, key=wavelet + mode)
        expected = pywt.dwt(x, wavelet, mode)
        scale = max(norm(x), norm(*expected))
        for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-6)):
            given = torch.from_numpy(x).to(dtype)
            for a, e in zip(ours.dwt(given, wavelet, mode), expected, strict=True):
                assert_close(a, e, scale, tolerance)
            back = ours.idwt(*(torch.from_numpy(e).to(dtype) for e in expected), wavelet, mode)
            assert_close(back, pywt.idwt(*expected, wavelet, mode), scale, tolerance)
            agrees_with_torch(given, wavelet, mode, (1,), 1, tolerance)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", LIFTED)
@pytest.mark.parametrize("name", SETS)
def test_planes_of_every_set(name, wavelet, mode):
    native.cpu(name)
    for shape in product((1, 2, 3, 4, 5, 18, 19), (64, 65, 99, 130, 197)):
        if not fits(shape[0], mode):
            continue
        x = signal(2, *shape, key=wavelet + mode)
        expected = leaves(pywt.wavedec2(x, wavelet, mode, 1))
        scale = max(norm(x), norm(*expected))
        for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 2e-6)):
            given = torch.from_numpy(x).to(dtype)
            for a, e in zip(leaves(ours.wavedec2(given, wavelet, mode, 1)), expected, strict=True):
                assert_close(a, e, scale, tolerance)
            agrees_with_torch(given, wavelet, mode, (1, 2), 1, tolerance)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", LIFTED)
def test_volumes_and_levels(wavelet, mode):
    for shape, axes in (
        ((2, 6, 9, 70), (1, 2, 3)),
        ((2, 6, 9, 70), (3, 1)),
        ((3, 70, 66), (1,)),
        ((140, 133), (0, 1)),
    ):
        x = torch.from_numpy(signal(*shape, key=mode))
        level = 1 if "reflect" in mode and min(shape) < 16 else 2
        agrees_with_torch(x, wavelet, mode, axes, level, 1e-12)


@pytest.mark.parametrize("wavelet", LIFTED)
def test_these_are_lifted(wavelet):
    """What is compared with the sums elsewhere is not the sums: last bits differ."""
    for shape in ((300,), (40, 130)):
        x = torch.from_numpy(signal(*shape))
        axes = tuple(range(x.ndim))
        lifted, plain = (both_ways(x, w, "symmetric", axes, 1) for w in (wavelet, summed(wavelet)))
        same = [torch.equal(a, b) for a, b in zip(lifted, plain, strict=True)]
        bands = 1 << x.ndim
        assert not same[bands]  # the gradient of a decomposition
        assert not same[bands + 1]  # a signal
        if x.ndim == 1:  # planes of bior2.4 are summed down
            assert not all(same[:bands])


def test_axes_that_are_lifted_in_different_orders():
    """Only one of them goes by planes, or none."""
    x = torch.from_numpy(signal(2, 40, 130))
    for pair in product([*LIFTED, "bior4.4"], repeat=2):
        agrees_with_torch(x, pair, ("symmetric", "periodic"), (1, 2), 1, 1e-12)


@pytest.mark.parametrize("wavelet", LIFTED)
@pytest.mark.parametrize("ndim", [1, 2])
def test_any_border_and_length(wavelet, ndim):
    """The operators take borders and lengths that no transform here asks for."""
    for mode, before, n, more in product(
        ("zero", "smooth", "periodic"), range(6), (64, 65, 100, 131), (0, 1, 2)
    ):
        found = []
        for bank in (ours.Wavelet(wavelet).filter_bank, summed(wavelet).filter_bank):
            lo, hi = tuple(bank[0][::-1]), tuple(bank[1][::-1])
            axes = [native.AxisPlan(d - ndim, mode, before, lo, hi) for d in range(ndim)]
            length = (before + n + 1) // 2 + more
            plan = native.make_plan(axes, [[(n, length)] * ndim], [(1 << (1 << ndim)) - 1])
            bands = native.down(torch.from_numpy(signal(*[n] * ndim)), plan)
            given = [torch.from_numpy(signal(*b.shape, key=str(i))) for i, b in enumerate(bands)]
            found.append([*bands, native.up(given, plan)])
        for a, b in zip(*found, strict=True):
            assert_close(a, b.numpy(), norm(b), 1e-12)


@pytest.mark.parametrize("mode", ["zero", "periodic", "smooth"])
@pytest.mark.parametrize("wavelet", LIFTED)
@pytest.mark.parametrize("shape", [(1, 300, 401), (7, 130, 96), (64, 64, 64), (1, 1_000_003)])
def test_two_threads_give_the_bits_of_one(shape, wavelet, mode):
    x = torch.from_numpy(signal(*shape, dtype=np.float32))
    axes, before, found = tuple(range(1, len(shape))), torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(both_ways(x, wavelet, mode, axes, 2))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("wavelet", LIFTED)
@pytest.mark.parametrize("mode", ["zero", "symmetric", "periodic"])
def test_what_is_not_finite_reaches_as_far_as_its_taps(mode, wavelet, value):
    x = torch.from_numpy(signal(90, 200))
    for at in ((0, 0), (40, 100), (41, 101), (89, 199)):
        given = x.clone()
        given[at] = value
        for transform in (ours.dwt, ours.dwt2):
            lifted, plain = (
                leaves(torch.utils._pytree.tree_leaves(transform(given, w, mode)))
                for w in (wavelet, summed(wavelet))
            )
            for a, b in zip(lifted, plain, strict=True):
                assert torch.equal(a.isfinite(), b.isfinite())
            low, *high = (b.nan_to_num(0, 0, 0) for b in plain)
            low[tuple(n // 2 for n in low.shape)] = value
            inverse = ours.idwt if transform is ours.dwt else ours.idwt2
            bands = (low, high[0]) if inverse is ours.idwt else ((low, tuple(high)),)
            backs = [inverse(*bands, w, mode).isfinite() for w in (wavelet, summed(wavelet))]
            assert torch.equal(*backs)


@pytest.mark.parametrize("wavelet", LIFTED)
@pytest.mark.parametrize("shape", [(16384,), (128, 130), (8, 20, 70)])
def test_float32_is_no_worse_than_pywt(shape, wavelet):
    axes = tuple(range(1, len(shape) + 1))
    for mode in MODES:
        squares = np.zeros(4)
        for draw in range(4):
            x = signal(4, *shape, key=f"{mode}{draw}", dtype=np.float32)
            exact = pywt.wavedecn(x.astype(np.float64), wavelet, mode, 2, axes)
            small = torch.utils._pytree.tree_map(lambda b: b.astype(np.float32), exact)
            wide = torch.utils._pytree.tree_map(lambda b: b.astype(np.float64), small)
            tensors = torch.utils._pytree.tree_map(torch.from_numpy, small)
            down = leaves(ours.wavedecn(torch.from_numpy(x), wavelet, mode, 2, axes))
            right = pywt.waverecn(wide, wavelet, mode, axes)
            squares += [
                distance(down, leaves(exact)),
                distance(leaves(pywt.wavedecn(x, wavelet, mode, 2, axes)), leaves(exact)),
                distance([ours.waverecn(tensors, wavelet, mode, axes)], [right]),
                distance([pywt.waverecn(small, wavelet, mode, axes)], [right]),
            ]
        assert squares[0] <= squares[1], f"forward, {mode}"
        assert squares[2] <= squares[3], f"inverse, {mode}"


def distance(some, exact):
    pairs = zip(some, exact, strict=True)
    return sum(np.sum((np.asarray(a, np.float64) - e) ** 2) for a, e in pairs)
