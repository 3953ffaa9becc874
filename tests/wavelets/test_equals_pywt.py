"""Every transform equals PyWavelets in float64, to 1e-12 of the norm of what goes in."""

import zlib

import numpy as np
import pytest
import pywt
import torch

from rightfast import wavelets as ours

MODES = pywt.Modes.modes
# One wavelet of each family, each short, middle and long; the rest run as slow.
SOME = ["haar", "db2", "db7", "sym5", "coif1", "bior1.3", "bior2.2", "bior4.4", "rbio3.1", "dmey"]
ALL = pywt.wavelist(kind="discrete")
REST = [pytest.param(name, marks=pytest.mark.slow) for name in ALL if name not in SOME]
TOLERANCE = 1e-12


def signal(*shape, key=""):
    return np.random.default_rng(zlib.crc32(f"{shape}{key}".encode())).normal(size=shape)


def fits(n, mode):
    """Whether PyWavelets extends n samples by this mode."""
    return n > 1 or mode not in ("reflect", "antireflect")


def assert_close(actual, expected, scale):
    assert actual.shape == expected.shape
    error = np.abs(actual.numpy() - expected).max(initial=0)
    assert error <= TOLERANCE * scale, f"error {error:.3e}, scale {scale:.3e}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", SOME + REST)
def test_one_level_of_length_1_to_40(wavelet, mode):
    for n in range(1, 41):
        if not fits(n, mode):
            continue
        x = signal(n, key=wavelet + mode)
        scale = np.linalg.norm(x)
        expected = pywt.dwt(x, wavelet, mode)
        actual = ours.dwt(torch.from_numpy(x), wavelet, mode)
        # Extrapolating modes grow a short signal: the bands set the scale then.
        grown = max(scale, *(np.linalg.norm(band) for band in expected))
        for a, e in zip(actual, expected, strict=True):
            assert_close(a, e, grown)
        back = ours.idwt(*map(torch.from_numpy, expected), wavelet, mode)
        assert_close(back, pywt.idwt(*expected, wavelet, mode), grown)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", ["haar", "db3", "bior4.4"])
@pytest.mark.parametrize("n", [8, 21, 64])
@pytest.mark.parametrize("level", [0, 1, 3, None])
@pytest.mark.filterwarnings("ignore:Level value")
def test_several_levels_over_one_axis(wavelet, mode, n, level):
    x = signal(3, n, 2)
    expected = pywt.wavedec(x, wavelet, mode, level, axis=1)
    actual = ours.wavedec(torch.from_numpy(x), wavelet, mode, level, axis=1)
    assert len(actual) == len(expected)
    scale = np.linalg.norm(x) * 10
    for a, e in zip(actual, expected, strict=True):
        assert_close(a, e, scale)
    back = ours.waverec(actual, wavelet, mode, axis=1)
    assert_close(back, pywt.waverec(expected, wavelet, mode, axis=1), scale)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", ["haar", "db3", "bior2.2"])
@pytest.mark.parametrize("axes", [(-2, -1), (0, 1), (2, 0)])
@pytest.mark.filterwarnings("ignore:Level value")
def test_several_levels_over_two_axes(wavelet, mode, axes):
    x = signal(13, 10, 9)
    expected = pywt.wavedec2(x, wavelet, mode, 2, axes)
    actual = ours.wavedec2(torch.from_numpy(x), wavelet, mode, 2, axes)
    scale = np.linalg.norm(x) * 10
    assert_close(actual[0], expected[0], scale)
    for a, e in zip(actual[1:], expected[1:], strict=True):
        for band, wanted in zip(a, e, strict=True):
            assert_close(band, wanted, scale)
    back = ours.waverec2(actual, wavelet, mode, axes)
    assert_close(back, pywt.waverec2(expected, wavelet, mode, axes), scale)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("axes", [None, (0, 2, 3), (-1, 1), (2,)])
@pytest.mark.filterwarnings("ignore:Level value")
def test_several_levels_over_any_axes(mode, axes):
    x = signal(5, 7, 6, 9)
    expected = pywt.wavedecn(x, "db2", mode, 2, axes)
    actual = ours.wavedecn(torch.from_numpy(x), "db2", mode, 2, axes)
    scale = np.linalg.norm(x) * 100
    assert_close(actual[0], expected[0], scale)
    for a, e in zip(actual[1:], expected[1:], strict=True):
        assert set(a) == set(e)
        for key in e:
            assert_close(a[key], e[key], scale)
    back = ours.waverecn(actual, "db2", mode, axes)
    assert_close(back, pywt.waverecn(expected, "db2", mode, axes), scale)


@pytest.mark.parametrize("axes", [(-2, -1), (1, 0), (2, 0)])
def test_per_axis_wavelet_and_mode(axes):
    x = signal(11, 12, 13)
    wavelet, mode = ("db3", "bior2.2"), ("symmetric", "periodization")
    expected = pywt.dwtn(x, wavelet, mode, axes)
    actual = ours.dwtn(torch.from_numpy(x), wavelet, mode, axes)
    assert list(actual) == list(expected)
    for key, band in expected.items():
        assert_close(actual[key], band, np.linalg.norm(x))
    back = ours.idwtn(actual, wavelet, mode, axes)
    assert_close(back, pywt.idwtn(expected, wavelet, mode, axes), np.linalg.norm(x))
    low, details = ours.dwt2(torch.from_numpy(x), wavelet, mode, axes)
    low_, details_ = pywt.dwt2(x, wavelet, mode, axes)
    for a, e in zip((low, *details), (low_, *details_), strict=True):
        assert_close(a, e, np.linalg.norm(x))
    again = ours.idwt2((low, details), wavelet, mode, axes)
    assert_close(again, pywt.idwt2((low_, details_), wavelet, mode, axes), np.linalg.norm(x))
