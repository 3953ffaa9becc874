"""Haar over up to three axes in one pass of the native kernels, and long lines in pieces."""

import os
from itertools import product

import numpy as np
import pytest
import pywt
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rightfast_kernels.dwt import native

from rightfast import wavelets as ours

from .common import MODES, assert_close, fits, leaves, norm, signal
from .test_native import SETS

pytestmark = [
    pytest.mark.skipif(not native.available, reason="the native kernels were not built"),
    pytest.mark.filterwarnings("ignore:Level value"),
]


@pytest.fixture(autouse=True)
def _only_kernels():
    with ours.backend("kernel"):
        yield
    native.cpu()


def both_ways(x, mode, axes, level):
    """Bands, signal, and the gradients of both, as numpy arrays in float64."""
    x = x.clone().requires_grad_()
    bands = ours.wavedecn(x, "haar", mode, level, axes)
    flat = leaves(bands)
    (down,) = torch.autograd.grad(flat, x, [torch.cos(b.detach()) for b in flat])
    given_ = [bands[0].detach().requires_grad_()]
    given_ += [{k: b.detach().requires_grad_() for k, b in d.items()} for d in bands[1:]]
    back = ours.waverecn(given_, "haar", mode, axes)
    up = torch.autograd.grad(back, leaves(given_), torch.sin(back.detach()))
    return [t.detach() for t in (*flat, down, back, *up)]


def agrees_with_torch(x, mode, axes, level, tolerance):
    """The torch path has a code of its own for all four."""
    found = both_ways(x, mode, axes, level)
    with ours.backend("torch"):
        wanted = both_ways(x, mode, axes, level)
    scale = max(norm(*wanted), 1e-300)
    for a, w in zip(found, wanted, strict=True):
        assert a.dtype == x.dtype
        assert_close(a, w.numpy(), scale, tolerance)
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SETS)
def test_every_set_with_odd_and_even_axes(name, mode):
    """Widths below, at and above one vector; each axis odd or even, one sample as well."""
    native.cpu(name)
    shapes = [(7, 9), (1, 2), (2, 1), (3, 65), (4, 66), (1, 32), (5, 33), (2, 48), (3, 63)]
    shapes += list(product((4, 5), (6, 7), (34, 35))) + [(1, 1, 1), (1, 3, 2)]
    for shape in shapes:
        if not all(fits(n, mode) for n in shape):
            continue
        x, axes = signal(2, *shape, key=mode), tuple(range(1, len(shape) + 1))
        bands = agrees_with_torch(torch.from_numpy(x), mode, axes, 1, 1e-12)
        expected = leaves(pywt.wavedecn(x, "haar", mode, 1, axes))
        for a, e in zip(bands, expected, strict=False):
            assert_close(a, e, max(norm(x), norm(*expected)))
        agrees_with_torch(torch.from_numpy(x).float(), mode, axes, 1, 1e-6)


@st.composite
def cases(draw):
    shape = draw(st.lists(st.integers(1, 20), min_size=1, max_size=4))
    shape[-1] = draw(st.integers(1, 80))
    count = draw(st.integers(1, len(shape)))
    axes = draw(st.permutations(range(len(shape))))[:count]
    return shape, tuple(axes), draw(st.sampled_from(MODES)), draw(st.integers(1, 3))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(cases(), st.sampled_from(SETS or ["none"]))
def test_any_axes_and_depth(case, name):
    shape, axes, mode, level = case
    if "reflect" in mode and min(shape) < 16:  # which refuses one sample
        level = 1
        if min(shape) < 2:
            return
    native.cpu(name)
    agrees_with_torch(torch.from_numpy(signal(*shape, key=mode)), mode, axes, level, 1e-12)


@pytest.mark.parametrize("shape", [(64, 64), (16, 16, 32)])
def test_float32_is_no_worse_than_pywt(shape):
    squares = np.zeros(4)
    axes = tuple(range(1, len(shape) + 1))
    for draw in range(20):
        x = signal(4, *shape, key=str(draw), dtype=np.float32)
        exact = leaves(pywt.wavedecn(x.astype(np.float64), "haar", "zero", 3, axes))
        small = pywt.wavedecn(x, "haar", "zero", 3, axes)
        mine = ours.wavedecn(torch.from_numpy(x), "haar", "zero", 3, axes)
        back = pywt.waverecn(small, "haar", "zero", axes)
        wide = torch.utils._pytree.tree_map(lambda b: b.astype(np.float64), small)
        right = pywt.waverecn(wide, "haar", "zero", axes)
        own = ours.waverecn(
            torch.utils._pytree.tree_map(torch.from_numpy, small), "haar", "zero", axes
        )
        for i, (some, wanted) in enumerate(
            [(leaves(mine), exact), (leaves(small), exact), ([own], [right]), ([back], [right])]
        ):
            pairs = zip(some, wanted, strict=True)
            squares[i] += sum(np.sum((np.asarray(a, np.float64) - e) ** 2) for a, e in pairs)
    assert squares[0] <= squares[1], "forward"
    assert squares[2] <= squares[3], "inverse"


@pytest.mark.parametrize("mode", ["zero", "periodic", "smooth"])
@pytest.mark.parametrize("shape", [(1, 61, 67, 71), (1, 64, 64, 64), (1, 1_000_003)])
def test_two_threads_give_the_bits_of_one(shape, mode):
    x = torch.from_numpy(signal(*shape, dtype=np.float32))
    axes, before, found = tuple(range(1, len(shape))), torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(both_ways(x, mode, axes, 2))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def beyond_the_caches():
    """Bytes that signal and bands together need to be written past the caches (plan.cpp)."""
    try:
        known = os.sysconf("SC_LEVEL3_CACHE_SIZE")
    except (ValueError, OSError, AttributeError):
        known = 0
    return known if known > 0 else 1 << 26


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("one", [(512, 1024), (511, 1001), (64, 64, 128), (1 << 19,)], ids=str)
def test_writing_past_the_caches_changes_no_bit(name, one):
    """A batch that is larger than they are, beside each of its signals alone, which is not."""
    size = int(np.prod(one)) * 4
    count = beyond_the_caches() // (2 * size) + 1
    if count * size > 1 << 29:
        pytest.skip(f"needs {4 * count * size >> 20} MB: the last cache is very large")
    native.cpu(name)
    x = torch.randn(count, *one, generator=torch.Generator().manual_seed(1))
    axes = tuple(range(1, x.ndim))
    whole = ours.wavedecn(x, "haar", "zero", 2, axes)
    back = ours.waverecn(whole, "haar", "zero", axes)
    for i in (0, count // 2, count - 1):
        alone = ours.wavedecn(x[i : i + 1], "haar", "zero", 2, axes)
        for a, b in zip(leaves(whole), leaves(alone), strict=True):
            assert torch.equal(a[i : i + 1], b)
        assert torch.equal(back[i : i + 1], ours.waverecn(alone, "haar", "zero", axes))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", ["bior2.2", "bior4.4", "db2", "db38"])
@pytest.mark.parametrize("name", SETS)
def test_a_line_of_many_pieces(name, wavelet, mode):
    """Pieces have 1024 outputs (512 in float64): ends at, before and after the end of one."""
    native.cpu(name)
    for n in (1021, 1024, 2047, 4096, 4101, 8193):
        x = signal(1, n, key=wavelet + mode)
        expected = pywt.dwt(x, wavelet, mode)
        scale = max(norm(x), norm(*expected))
        for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-6)):
            bands = ours.dwt(torch.from_numpy(x).to(dtype), wavelet, mode)
            for a, e in zip(bands, expected, strict=True):
                assert_close(a, e, scale, tolerance)


@pytest.mark.parametrize(
    ("before", "n", "length"), [(1, 4, 3), (1, 5, 3), (0, 4, 4), (0, 5, 5), (1, 7, 5)]
)
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_a_plan_whose_pairs_do_not_start_with_the_signal(before, n, length, ndim):
    """The operators take borders and lengths that no transform here asks for."""
    x, c = torch.from_numpy(signal(*[n] * ndim)), 0.5**0.5
    axes = [native.AxisPlan(d - ndim, "zero", before, (c, c), (c, -c)) for d in range(ndim)]
    plan = native.make_plan(axes, [[(n, length)] * ndim], [(1 << (1 << ndim)) - 1])
    wanted = [torch.zeros([2 * length] * ndim, dtype=x.dtype)]
    wanted[0][(slice(before, before + n),) * ndim] = x[(slice(2 * length - before),) * ndim]
    for d in range(ndim):
        pairs = [w.unflatten(d, (length, 2)).unbind(d + 1) for w in wanted]
        wanted = [c * (a + sign * b) for a, b in pairs for sign in (1, -1)]
    bands = native.down(x, plan)
    for a, w in zip(bands, wanted, strict=True):
        assert_close(a, w.numpy(), norm(x))
    some = [torch.from_numpy(signal(*b.shape, key=str(i))) for i, b in enumerate(bands)]
    product_ = sum(torch.sum(a * b) for a, b in zip(bands, some, strict=True))
    assert abs(product_ - torch.sum(native.up(some, plan) * x)) <= 1e-12 * norm(x) * norm(*some)
