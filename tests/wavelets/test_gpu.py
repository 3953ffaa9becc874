"""Wavelets on a GPU against the CPU in float64: every wavelet, mode and dtype, and derivatives."""

import numpy as np
import pytest
import pywt
import torch
from torch.autograd import gradcheck, gradgradcheck

from rightfast import wavelets as ours

from .common import ALL, MODES, leaves, norm, signal
from .gpu_cases import ON_A_GPU, check, flat, gradients, random, tree_map, wide

pytestmark = ON_A_GPU

PARTS = 24  # so that no worker has all long filters
PLANES = ["db3", "sym4", "coif1", "bior1.3", "bior2.2", "bior4.4", "rbio3.1", "db8", "db10", "db11"]


@pytest.mark.parametrize("part", range(PARTS))
def test_every_wavelet(part):
    x = random(3, 121)
    for name in ALL[part::PARTS]:
        check(lambda x, name=name: ours.dwt(x, name), x)
        bands = ours.dwt(x, name)
        check(lambda a, d, name=name: ours.idwt(a, d, name), *bands)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", ["haar", "db2", "bior4.4", "db10"])
def test_every_mode_along_a_line(wavelet, mode):
    # Two levels from here on are never shorter than ten taps; other lengths are other kernels.
    for n in (33, 44):
        round_trip(random(3, n), "wavedec", wavelet, mode)
    if wavelet == "db10":
        round_trip(random(3, 5), "wavedec", wavelet, mode)
    down, up = ratios(signal(512, 44, key=wavelet + mode, dtype=np.float32), wavelet, mode)
    assert down <= 1.2, f"{down:.3f}"
    assert up <= 1.2, f"{up:.3f}"


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_over_two_and_three_axes(mode):
    round_trip(random(2, 17, 20), "wavedec2", "db2", mode)
    round_trip(random(9, 10, 12), "wavedecn", "db2", mode, 1)


@pytest.mark.parametrize("wavelet", PLANES)
def test_wavelets_over_two_axes(wavelet):
    mode = MODES[PLANES.index(wavelet) % len(MODES)]
    round_trip(random(2, 37, 44), "wavedec2", wavelet, mode, 1)


@pytest.mark.parametrize(
    ("wavelet", "mode"),
    [("haar", "zero"), ("db2", "reflect"), ("db4", "periodization"), ("db4", "smooth")],
)
def test_planes_are_as_exact_as_pywt_in_float32(wavelet, mode):
    x = signal(16, 37, 64, dtype=np.float32)
    assert max(ratios(x, wavelet, mode, "wavedec2")) <= 1.2


@pytest.mark.parametrize("wavelet", ["haar", "db2"])
@pytest.mark.parametrize("axes", [(0,), (1, 2), (0, 2), (3, 1), (2, 3, 1), (0, 1, 2, 3)])
def test_any_axes(axes, wavelet):
    round_trip(random(7, 6, 9, 8), "wavedecn", wavelet, "symmetric", 2, axes=axes)


def test_a_wavelet_and_a_mode_for_each_axis():
    each = ("db3", "bior2.2"), ("symmetric", "periodization")
    for axes in ((-2, -1), (1, 0)):
        round_trip(random(11, 12, 13), "wavedec2", *each, axes=axes)


def round_trip(x, name, wavelet, mode, level=2, **axes):
    """A decomposition, and the reconstruction of what it gives on the CPU."""
    inverse = getattr(ours, name.replace("dec", "rec"))
    check(lambda x: getattr(ours, name)(x, wavelet, mode, level, **axes), x)
    coeffs = getattr(ours, name)(x, wavelet, mode, level, **axes)
    structure = torch.utils._pytree.tree_structure(coeffs)
    unflatten = torch.utils._pytree.tree_unflatten
    check(lambda *bands: inverse(unflatten(bands, structure), wavelet, mode, **axes), *flat(coeffs))


def ratios(x, wavelet, mode, name="wavedec"):
    """RMS error in float32 over that of PyWavelets: of two levels down, and of two up."""
    inverse = name.replace("dec", "rec")
    exact = getattr(pywt, name)(x.astype(np.float64), wavelet, mode, 2)
    small = tree_map(lambda band: band.astype(np.float32), exact)
    back = getattr(pywt, inverse)(tree_map(lambda b: b.astype(np.float64), small), wavelet, mode)
    bands = getattr(ours, name)(torch.from_numpy(x).cuda(), wavelet, mode, 2)
    given = tree_map(lambda band: torch.from_numpy(band).cuda(), small)
    down = distance(leaves(bands), leaves(exact))
    up = distance([getattr(ours, inverse)(given, wavelet, mode)], [back])
    return (
        down / distance(leaves(getattr(pywt, name)(x, wavelet, mode, 2)), leaves(exact)),
        up / distance([getattr(pywt, inverse)(small, wavelet, mode)], [back]),
    )


def distance(actual, exact):
    arrays = (a.cpu().numpy() if isinstance(a, torch.Tensor) else a for a in actual)
    return norm(*(a.astype(np.float64) - e for a, e in zip(arrays, exact, strict=True)))


VIEWS = {
    "transposed": lambda x: x.transpose(1, 2),
    "strided": lambda x: x[:, ::2, 1::2],
    "expanded": lambda x: x[:1].expand(4, *x.shape[1:]),
    "narrow": lambda x: x[:, 1:, 3:-2],
    "flipped and permuted": lambda x: x.flip(-1).permute(2, 0, 1),
}


@pytest.mark.parametrize("view", VIEWS)
def test_tensors_with_gaps(view):
    make = VIEWS[view]
    for wavelet in ("haar", "db2"):
        check(lambda x: ours.wavedec2(make(x), wavelet, level=1), random(3, 17, 20))
        check(lambda x: ours.idwt(make(x), make(2 * x), wavelet), random(3, 17, 20))
        check(lambda x: ours.wavedec(make(x), wavelet, axis=0, level=1), random(5, 17, 20))


@pytest.mark.parametrize("wavelet", ["haar", "db3"])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_data(dtype, wavelet):
    x = torch.complex(random(3, 16, 18), random(3, 16, 18, key="i")).to(dtype)
    tolerance = 1e-12 if dtype == torch.complex128 else 1e-6
    check(lambda x: ours.wavedec2(x, wavelet, "reflect", 2), x, tolerance=tolerance)
    check(lambda x: ours.wavedec(x.conj(), wavelet, axis=1, level=1), x, tolerance=tolerance)
    check(lambda x: ours.idwt(x, 2 * x.conj(), wavelet), x, tolerance=tolerance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("wavelet", "mode"),
    [("haar", "zero"), ("db2", "symmetric"), ("db2", "smooth"), ("bior4.4", "periodization")],
)
def test_half_precision_is_rounded_once(wavelet, mode, dtype):
    """Sums are float32, through all levels."""
    x = random(2, 33, 48, dtype=dtype)
    coeffs = ours.wavedec2(x.double(), wavelet, mode, 2)
    rounded_once(ours.wavedec2(x.cuda(), wavelet, mode, 2), coeffs, dtype)
    bands = tree_map(lambda band: band.to(dtype), coeffs)
    wanted = ours.waverec2(tree_map(lambda band: band.double(), bands), wavelet, mode)
    rounded_once(ours.waverec2(tree_map(lambda b: b.cuda(), bands), wavelet, mode), wanted, dtype)


def rounded_once(found, wanted, dtype):
    assert ours.served() == "kernel"
    for f, w in zip(flat(found), flat(wanted), strict=True):
        assert f.dtype == dtype
        half_a_step = torch.finfo(dtype).eps / 2 * w.abs() + 1e-5 * w.abs().max()
        assert bool(((wide(f) - w).abs() <= half_a_step).all())


def test_integers_and_mixed_dtypes():
    x = (random(4, 21) * 100).int()
    low, high = ours.dwt(x.cuda(), "db2")
    assert low.dtype == torch.float64
    torch.testing.assert_close(low.cpu(), ours.dwt(x, "db2")[0], rtol=0, atol=1e-10)
    back = ours.idwt(low, high.float(), "db2")
    assert back.dtype == torch.float64


@pytest.mark.parametrize("wavelet", ["haar", "db2", "bior4.4"])
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_infinities_and_nan_stay_where_the_formula_puts_them(value, wavelet):
    x = random(24, 20)
    x[5, 7] = x[0, 19] = value
    for call in (
        lambda x: ours.wavedec(x, wavelet, "reflect", 1),
        lambda x: ours.wavedec2(x, wavelet, "symmetric", 1),
        lambda x: ours.idwt2((x, (x, None, x)), wavelet),
    ):
        with ours.backend("torch"):
            wanted = flat(call(x))
        for found, want in zip(flat(call(x.cuda())), wanted, strict=True):
            assert torch.equal(found.cpu().isfinite(), want.isfinite())


@pytest.mark.parametrize("mode", MODES)
def test_gradcheck_along_a_line(mode):
    def down(x):
        return tuple(ours.wavedec(x, "db2", mode, 2))

    x = random(2, 11).cuda().requires_grad_()
    coeffs = [band.detach().requires_grad_() for band in down(x)]
    assert gradcheck(down, x, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(down, x)
    assert gradcheck(lambda *bands: ours.waverec(list(bands), "db2", mode), coeffs)
    assert gradcheck(lambda x: tuple(ours.wavedec(x, "haar", mode, 1)), x)


@pytest.mark.parametrize("mode", MODES)
def test_gradcheck_of_planes(mode):
    x = random(7, 6).cuda().requires_grad_()
    assert gradcheck(lambda x: flat(ours.wavedec2(x, "db2", mode, 1)), x)
    # A power of a band, so that the second derivative is not zero.
    assert gradgradcheck(lambda x: ours.dwt2(x, "db2", mode)[0] ** 3, x)
    coeffs = [band.detach().requires_grad_() for band in flat(ours.dwt2(x, "db2", mode))]
    assert gradcheck(lambda low, *rest: ours.idwt2((low, rest), "db2", mode), coeffs)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", ["haar", "db2"])
def test_gradients_of_volumes(wavelet, mode):
    x = random(2, 10, 13, 12)
    call = lambda x: ours.wavedecn(x, wavelet, mode, 2, axes=(1, 2, 3))  # noqa: E731
    check(lambda x: gradients(call, x), x)
    bands = ours.dwtn(x[0], wavelet, mode)
    up = lambda *given: ours.idwtn(dict(zip(bands, given)), wavelet, mode)  # noqa: E731
    check(lambda *given: gradients(up, *given), *bands.values())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.complex128])
def test_gradients_in_other_dtypes(dtype):
    x = random(2, 16, 20, dtype=dtype)
    tolerance = 1e-12 if dtype.is_complex else torch.finfo(dtype).eps
    call = lambda x: ours.wavedec2(x, "db2", "symmetric", 1)  # noqa: E731
    check(lambda x: gradients(call, x), x, tolerance=tolerance)


@pytest.mark.parametrize("wavelet", ["haar", "db2"])
def test_transforms_inside_a_batched_backward_pass(wavelet):
    """As in a function of one's own, whose gradient is itself a transform."""

    class Wavelets(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            bands = ours.wavedec2(g, wavelet, level=2)
            line = ours.waverec(ours.wavedec(g, wavelet, level=1), wavelet)
            return ours.waverec2([2 * bands[0], *bands[1:]], wavelet) + line

    x, many = random(16, 12).cuda().requires_grad_(), random(3, 16, 12).cuda()
    for _ in range(2):  # the second time such calls have been seen, each alone
        (found,) = torch.autograd.grad(Wavelets.apply(x), x, many, is_grads_batched=True)
        each = [torch.autograd.grad(Wavelets.apply(x), x, g)[0] for g in many]
        torch.testing.assert_close(found, torch.stack(each), rtol=0, atol=1e-12)


def test_batches_of_gradients():
    x = random(16, 12).cuda().requires_grad_()
    low = ours.wavedec2(x, "db2", level=1)[0]
    many = random(3, *low.shape).cuda()
    (found,) = torch.autograd.grad(low, x, many, is_grads_batched=True, retain_graph=True)
    each = [torch.autograd.grad(low, x, g, retain_graph=True)[0] for g in many]
    torch.testing.assert_close(found, torch.stack(each), rtol=0, atol=1e-12)
