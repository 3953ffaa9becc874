"""What holds of the transforms without a peer: reconstruction, adjoints, energy."""

import numpy as np
import pytest
import torch

from rightfast import wavelets as ours

from .common import ALL, EVERY, FEW, MODES, assert_close, fits, leaves, norm, signal

pytestmark = pytest.mark.filterwarnings("ignore:Level value")
DOUBLE = torch.float64


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", EVERY)
def test_perfect_reconstruction(wavelet, mode):
    tolerance = 0.1 if wavelet == "dmey" else 1e-10
    for n in (3, 10, 37, 40):
        x = signal(2, n, key=wavelet)
        back = ours.waverec(ours.wavedec(torch.from_numpy(x), wavelet, mode, 2), wavelet, mode)
        assert back.shape[-1] in (n, n + 1)
        # The extrapolating modes cancel large numbers on signals shorter than the filter.
        grown = norm(*ours.wavedec(x, wavelet, mode, 2))
        assert_close(back[:, :n], x, max(norm(x), grown), tolerance)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", FEW)
def test_perfect_reconstruction_in_three_dimensions(wavelet, mode):
    x = torch.from_numpy(signal(2, 7, 10, 9))
    axes = (1, 2, 3)
    back = ours.waverecn(ours.wavedecn(x, wavelet, mode, 2, axes), wavelet, mode, axes)
    assert_close(back[:, :7, :10, :9], x.numpy(), norm(x), 1e-11)


def inner(left, right):
    return sum((a * b).sum() for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", [*FEW, "bior4.4", "db12"])
def test_the_gradient_is_the_adjoint(wavelet, mode):
    for n in range(1, 41):
        if not fits(n, mode):
            continue
        x = torch.from_numpy(signal(2, n)).requires_grad_()
        bands = ours.wavedec(x, wavelet, mode, 2 if n > 2 else 1)
        g = [torch.from_numpy(signal(*band.shape, key="g")) for band in bands]
        (gx,) = torch.autograd.grad(bands, x, g)
        scale = norm(*(b.detach() for b in bands)) * norm(*g) + norm(gx) * norm(x.detach())
        assert abs(inner(bands, g) - (gx * x).sum()) <= 1e-12 * scale

        given = [band.detach().requires_grad_() for band in bands]
        y = ours.waverec(given, wavelet, mode)
        gy = torch.from_numpy(signal(*y.shape, key="y"))
        back = torch.autograd.grad(y, given, gy)
        scale = norm(y.detach()) * norm(gy) + norm(*back) * norm(*(b.detach() for b in given))
        assert abs((y * gy).sum() - inner(back, given)) <= 1e-12 * scale


ORTHOGONAL = [w for w in ALL if ours.Wavelet(w).orthogonal and w != "dmey"]


@pytest.mark.parametrize("wavelet", ORTHOGONAL)
def test_parseval_of_orthogonal_wavelets_in_periodization(wavelet):
    # The published coefficients of the long filters are orthonormal to some 1e-11 only.
    for n in (64, 96):
        x = signal(n)
        bands = ours.wavedec(x, wavelet, "periodization", 2)
        assert norm(*bands) == pytest.approx(norm(x), rel=1e-9)


@pytest.mark.parametrize("mode", MODES)
def test_linearity(mode):
    x, y = torch.from_numpy(signal(3, 11, 14)), torch.from_numpy(signal(3, 11, 14, key="y"))
    both = ours.wavedec2(2 * x - 3 * y, "db3", mode, 1)
    for c, a, b in zip(
        leaves(both),
        leaves(ours.wavedec2(x, "db3", mode, 1)),
        leaves(ours.wavedec2(y, "db3", mode, 1)),
        strict=True,
    ):
        assert_close(c, (2 * a - 3 * b).numpy(), norm(x) * 10)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("dtype", "eps"), [(torch.float16, 2**-11), (torch.bfloat16, 2**-8)])
def test_half_precision_is_computed_in_float32(mode, dtype, eps):
    x = torch.from_numpy(signal(4, 37, dtype=np.float32)).to(dtype)
    bands = ours.wavedec(x, "db4", mode, 2)
    assert {band.dtype for band in bands} == {dtype}
    for band, single in zip(bands, ours.wavedec(x.float(), "db4", mode, 2), strict=True):
        # One rounding, of the result.
        assert torch.equal(band, single.to(dtype))
    back = ours.waverec(bands, "db4", mode)
    assert back.dtype == dtype
    assert_close(back[:, :37].double(), x.double().numpy(), norm(x.float()), 8 * eps)


def test_values_that_are_not_finite_stay_where_the_filter_reaches():
    x = torch.from_numpy(signal(64, dtype=np.float32))
    x[30] = float("nan")
    low, high = ours.dwt(x, "db2")
    assert low.isnan().sum() == high.isnan().sum() == 2
    assert ours.idwt(low, high, "db2").isnan().sum() <= 8


@pytest.mark.parametrize("shape", [(0, 16), (3, 0, 16), (0, 5, 16)])
def test_empty_batches(shape):
    x = torch.zeros(shape)
    coeffs = ours.wavedec(x, "db2", level=2)
    assert [c.shape[:-1] for c in coeffs] == [torch.Size(shape[:-1])] * 3
    assert ours.waverec(coeffs, "db2").shape == torch.Size(shape)


@pytest.mark.parametrize("wavelet", ["haar", "bior4.4"])
@pytest.mark.parametrize("mode", MODES)
def test_deep_levels_and_many_leading_dimensions(wavelet, mode):
    x = torch.from_numpy(signal(2, 1, 3, 1, 33))
    coeffs = ours.wavedec(x, wavelet, mode, 5 if "reflect" in mode else 8)
    back = ours.waverec(coeffs, wavelet, mode)
    assert_close(back[..., :33], x.numpy(), max(norm(x), norm(*coeffs)), 1e-10)
