"""Every transform equals PyWavelets in float64, to 1e-12 of the norm of what goes in.

The modes that extrapolate (smooth, antireflect) can make bands larger than the signal when it
is shorter than the filter; then the bands set the scale.
"""

import numpy as np
import pytest
import pywt
import torch

from rightfast import wavelets as ours

from .common import EVERY, FEW, MODES, assert_close, fits, leaves, norm, signal

pytestmark = pytest.mark.filterwarnings("ignore:Level value")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", EVERY)
def test_one_level_of_length_1_to_40(wavelet, mode):
    for n in range(1, 41):
        if not fits(n, mode):
            continue
        x = signal(n, key=wavelet + mode)
        expected = pywt.dwt(x, wavelet, mode)
        actual = ours.dwt(torch.from_numpy(x), wavelet, mode)
        scale = max(norm(x), norm(*expected))
        for a, e in zip(actual, expected, strict=True):
            assert_close(a, e, scale)
        back = ours.idwt(*map(torch.from_numpy, expected), wavelet, mode)
        assert_close(back, pywt.idwt(*expected, wavelet, mode), scale)


def check(name, x, wavelet, mode, level, **axes):
    """wavedec* of ours against PyWavelets', and waverec* of the result."""
    inverse = name.replace("dec", "rec")
    expected = getattr(pywt, name)(x, wavelet, mode, level, **axes)
    actual = getattr(ours, name)(torch.from_numpy(x), wavelet, mode, level, **axes)
    assert len(actual) == len(expected)
    scale = max(norm(x), norm(*leaves(expected)))
    for a, e in zip(leaves(actual), leaves(expected), strict=True):
        assert_close(a, e, scale)
    back = getattr(ours, inverse)(actual, wavelet, mode, **axes)
    assert_close(back, getattr(pywt, inverse)(expected, wavelet, mode, **axes), scale)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", FEW)
@pytest.mark.parametrize("level", [0, 1, 3, None])
def test_several_levels_over_one_axis(wavelet, mode, level):
    for n in (2, 7, 8, 21, 64):
        if wavelet == "haar" and "reflect" in mode and level and n >> level < 2:
            continue  # a level would start from one sample, which these modes refuse
        for axis in (0, 1, -1):
            shape = [3, 2, 2]
            shape[axis] = n
            check("wavedec", signal(*shape), wavelet, mode, level, axis=axis)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", [*FEW, "bior4.4"])
@pytest.mark.parametrize("axes", [(-2, -1), (0, 1), (2, 0)])
def test_several_levels_over_two_axes(wavelet, mode, axes):
    for level in (1, 2):
        check("wavedec2", signal(13, 10, 9), wavelet, mode, level, axes=axes)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", ["haar", "db2"])
@pytest.mark.parametrize("axes", [None, (0, 2, 3), (-1, 1), (2,), (3, 0, 1)])
def test_several_levels_over_any_axes(wavelet, mode, axes):
    check("wavedecn", signal(5, 7, 6, 9), wavelet, mode, 2, axes=axes)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", EVERY)
def test_lengths_1_to_40_along_each_axis_of_a_volume(wavelet, mode):
    for n in range(1, 41):
        if fits(n, mode):
            for axis in range(3):
                shape = [3, 2, 4]
                shape[axis] = n
                check("wavedecn", signal(*shape), wavelet, mode, 1, axes=(axis,))


@pytest.mark.parametrize("axes", [(-2, -1), (1, 0), (2, 0)])
def test_per_axis_wavelet_and_mode(axes):
    x = signal(11, 12, 13)
    wavelet, mode = ("db3", "bior2.2"), ("symmetric", "periodization")
    check("wavedecn", x, wavelet, mode, 2, axes=axes)
    check("wavedec2", x, wavelet, mode, 2, axes=axes)
    expected = pywt.dwtn(x, wavelet, mode, axes)
    actual = ours.dwtn(torch.from_numpy(x), wavelet, mode, axes)
    assert list(actual) == list(expected)
    for key, band in expected.items():
        assert_close(actual[key], band, norm(x))
    assert_close(
        ours.idwtn(actual, wavelet, mode, axes), pywt.idwtn(expected, wavelet, mode, axes), norm(x)
    )


@pytest.mark.parametrize("axes", [(-2, -1), (0, 1), (1, 0)])
def test_the_order_of_the_bands_of_dwt2(axes):
    x = signal(10, 12, 7)
    low, details = ours.dwt2(torch.from_numpy(x), "db2", axes=axes)
    low_, details_ = pywt.dwt2(x, "db2", axes=axes)
    for a, e in zip((low, *details), (low_, *details_), strict=True):
        assert_close(a, e, norm(x))
    back = ours.idwt2((low, details), "db2", axes=axes)
    assert_close(back, pywt.idwt2((low_, details_), "db2", axes=axes), norm(x))


@pytest.mark.parametrize("mode", MODES)
def test_a_custom_bank(mode):
    bank = signal(4, 6)
    x = signal(3, 17)
    check("wavedec", x, pywt.Wavelet("custom", bank.tolist()), mode, 2)
    custom = ours.Wavelet("custom", bank.tolist())
    tensors = ours.Wavelet("custom", list(torch.from_numpy(bank)))
    for one, other in zip(
        ours.wavedec(x, custom, mode, 2), ours.wavedec(x, tensors, mode, 2), strict=True
    ):
        assert_close(other, one.numpy(), norm(one))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64, np.float32])
def test_the_other_dtypes_of_pywt(mode, dtype):
    x = signal(3, 19, dtype=dtype)
    tolerance = 1e-12 if dtype == np.complex128 else 1e-6
    expected = pywt.wavedec(x, "db3", mode, 2)
    actual = ours.wavedec(torch.from_numpy(x), "db3", mode, 2)
    scale = norm(*expected)
    for a, e in zip(actual, expected, strict=True):
        assert a.numpy().dtype == e.dtype == dtype
        assert_close(a, e, scale, tolerance)
    back = ours.waverec(actual, "db3", mode)
    assert_close(back, pywt.waverec(expected, "db3", mode), scale, tolerance)


@pytest.mark.parametrize("mode", MODES)
def test_non_contiguous_input(mode):
    x = torch.from_numpy(signal(12, 5, 8))
    for view in (x.permute(2, 0, 1), x[::2, :, 1:], x.flip(0), x.transpose(0, 1)):
        for a, e in zip(
            leaves(ours.wavedec2(view, "db2", mode, 1)),
            leaves(pywt.wavedec2(view.numpy(), "db2", mode, 1)),
            strict=True,
        ):
            assert a.is_contiguous()
            assert_close(a, e, norm(e) + norm(x))
