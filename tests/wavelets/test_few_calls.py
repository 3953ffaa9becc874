"""The steps of small signals: the same numbers as on the polyphase path, with few calls."""

import numpy as np
import pytest
import pywt
import torch
from rightfast_kernels.dwt import few_calls, polyphase
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from rightfast import wavelets as ours
from rightfast.wavelets import decompose

from .common import EVERY, MODES, assert_close, fits, norm, signal

pytestmark = pytest.mark.filterwarnings("ignore:Level value")


def bank(wavelet):
    return [tuple(f) for f in ours.Wavelet(wavelet).filter_bank]


def everything(x, filters, mode, dim):
    """Both steps and both adjoints."""
    bands = polyphase.analysis(x, *filters[:2], mode, dim)
    y = polyphase.synthesis(*bands, *filters[2:], mode, dim)
    back = polyphase.analysis_adjoint(*bands, *filters[:2], mode, dim, x.shape[dim])
    return [*bands, y, back, *polyphase.synthesis_adjoint(y, *filters[2:], mode, dim)]


@pytest.mark.parametrize("wavelet", EVERY)
def test_both_paths_agree(wavelet, monkeypatch):
    for mode in MODES:
        for n, dim in ((1, 2), (4, 1), (7, 0), (31, 2), (40, 1)):
            if not fits(n, mode):
                continue
            shape = [2, 3, 2]
            shape[dim] = n
            x = torch.from_numpy(signal(*shape, key=wavelet))
            found = everything(x, bank(wavelet), mode, dim)
            with monkeypatch.context() as patch:
                patch.setattr(few_calls, "SAMPLES_A_TAP", 0)
                expected = everything(x, bank(wavelet), mode, dim)
            scale = max(float(e.norm()) for e in [x, *expected])
            for a, e in zip(found, expected, strict=True):
                assert a.shape == e.shape
                assert a.is_contiguous()
                assert (a - e).abs().max() <= 1e-12 * scale, mode


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", ["haar", "db3", "bior2.2", ("haar", "db2", "rbio1.3")])
@pytest.mark.parametrize("shape", [(2, 6, 5, 8), (1, 9, 4, 3)])
def test_stacked_bands_are_the_same(wavelet, mode, shape, monkeypatch):
    axes = (1, 3, 2)
    x = torch.from_numpy(signal(*shape)).requires_grad_()

    def run():
        bands = ours.dwtn(x, wavelet, mode, axes)
        return bands, torch.autograd.grad(list(bands.values()), x, list(bands.values()))[0]

    (found, gradient) = run()
    monkeypatch.setattr(decompose, "STACKED", 0)
    (expected, other) = run()
    assert list(found) == list(expected)
    for key, band in expected.items():
        torch.testing.assert_close(found[key], band, rtol=1e-13, atol=1e-13)
        assert found[key].untyped_storage().nbytes() == band.numel() * 8
    torch.testing.assert_close(gradient, other, rtol=1e-12, atol=1e-12)


def test_a_bank_of_two_unequal_taps():
    custom = ours.Wavelet("custom", [[0.5, 0.5], [-2.0, 2.0], [1.0, 1.0], [0.25, -0.25]])
    x = torch.from_numpy(signal(6, 8))
    theirs = pywt.dwtn(x.numpy(), pywt.Wavelet("custom", custom.filter_bank), "zero")
    for key, band in ours.dwtn(x, custom, "zero").items():
        assert_close(band, theirs[key], norm(x))


class Calls(TorchDispatchMode):
    """The operators that ran."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def takes_it(x, wavelet="db4"):
    with Calls() as calls:
        ours.idwt(*ours.dwt(x, wavelet), wavelet)
    return "convolution" in calls.names


def test_which_signals_take_it():
    most = few_calls.SAMPLES_A_TAP * 8
    assert takes_it(torch.randn(most - 100))
    assert takes_it(torch.randn(2, 200))
    assert takes_it(torch.randn(2, 200, dtype=torch.float64))
    assert not takes_it(torch.randn(most + 1000))
    assert not takes_it(torch.randn(200), "haar")  # two taps: nothing to save
    assert not takes_it(torch.randn(200), "bior2.2")  # taps of 0
    assert not takes_it(torch.randn(200, dtype=torch.complex64))
    assert not takes_it(torch.randn(0, 200))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", ["db3", "bior2.2"])
def test_what_is_not_finite_stays_where_the_filter_reaches(wavelet, mode, value, monkeypatch):
    x = torch.from_numpy(signal(3, 41, dtype=np.float32))
    x[1, 20] = value
    found = everything(x, bank(wavelet), mode, 1)
    monkeypatch.setattr(few_calls, "SAMPLES_A_TAP", 0)
    for a, e in zip(found, everything(x, bank(wavelet), mode, 1), strict=True):
        assert torch.equal(a.isfinite(), e.isfinite())


def test_constants_are_plain_whatever_the_mode_of_the_first_call():
    def fresh():
        few_calls._weights.cache_clear()
        few_calls._places.cache_clear()

    def train():
        x = torch.randn(2, 30, requires_grad=True)
        y = ours.waverec(ours.wavedec(x, "db3", "reflect", 2), "db3", "reflect")
        (g,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        g.square().sum().backward()
        assert x.grad.isfinite().all()

    x = torch.randn(2, 30)
    calls = {
        "inference": lambda: ours.wavedec(x, "db3", "reflect", 2),
        "vmap": lambda: torch.func.vmap(lambda x: ours.dwt(x, "db3", "reflect")[0])(x),
        "grad": lambda: torch.func.grad(lambda x: ours.dwt(x, "db3", "reflect")[0].sum())(x),
    }
    for call in calls.values():
        fresh()
        with torch.inference_mode():
            call()
        train()
    fresh()
    with FakeTensorMode():
        assert ours.dwt(torch.empty(2, 30), "db3", "reflect")[0].shape == (2, 17)
    train()
    fresh()
    with FakeTensorMode(allow_non_fake_inputs=True):
        ours.dwt(x, "db3", "reflect")
    train()


def test_global_settings_of_precision_change_nothing():
    x = torch.randn(3, 100)
    expected = ours.wavedec(x, "db4", level=2)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = ours.wavedec(x, "db4", level=2)
    finally:
        torch.set_float32_matmul_precision(before)
    assert all(torch.equal(a, e) for a, e in zip(found, expected, strict=True))
    with torch.device("meta"):  # a default device is no business of the constants
        few_calls._weights.cache_clear()
        assert ours.dwt(x, "db4")[0].isfinite().all()


def test_what_is_kept_is_bounded():
    for n in range(8, 300):
        ours.dwt(torch.zeros(n), "db2")
    assert few_calls._places.cache_info().currsize <= 64
    assert few_calls._weights.cache_info().currsize <= 64
