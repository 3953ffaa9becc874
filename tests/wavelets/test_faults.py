"""Faults seen in other libraries, each a test by name: they must not exist here."""

import subprocess
import sys

import numpy as np
import pytest
import pywt
import torch

from rightfast import wavelets as ours

from .common import MODES, assert_close, leaves, norm, signal


def test_an_empty_batch_does_not_kill_the_process():
    for axes in ((0, 1), (1, 2)):
        shape = [4, 4, 4]
        shape[3 - sum(axes)] = 0
        low, details = ours.dwt2(torch.zeros(shape), "db2", axes=axes)
        assert low.numel() == 0
        assert ours.idwt2((low, details), "db2", axes=axes).shape == torch.Size(shape)


def test_an_empty_transformed_axis_is_an_error():
    with pytest.raises(ValueError, match="greater than zero"):
        ours.dwt(torch.zeros(3, 0), "haar")
    with pytest.raises(ValueError, match="greater than zero"):
        ours.dwtn(torch.zeros(0, 4), "haar")
    with pytest.raises(ValueError, match="Invalid coefficient arrays length 0"):
        ours.idwt(torch.zeros(0), torch.zeros(0), "haar")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore:Level value")
def test_a_call_in_inference_mode_does_not_break_training(mode):
    wavelet = "bior2.4"  # used in no other test: nothing of it is cached yet
    x = torch.randn(2, 30)
    with torch.inference_mode():
        coeffs = ours.wavedec(x, wavelet, mode, 2)
        ours.waverec(coeffs, wavelet, mode)
        module = ours.DWT(wavelet, mode, dims=1)
        module(x[None])
    z = torch.randn(2, 30, requires_grad=True)
    ours.waverec(ours.wavedec(z, wavelet, mode, 2), wavelet, mode).square().sum().backward()
    module(z[None]).sum().backward()
    assert z.grad.isfinite().all()


@pytest.mark.parametrize("mode", ["symmetric", "reflect", "antisymmetric", "antireflect"])
@pytest.mark.filterwarnings("ignore:Level value")
def test_gradients_are_right_at_mirrored_borders(mode):
    # The gradient at each sample against a difference quotient of a sum of squares.
    x = torch.from_numpy(signal(9)).requires_grad_()

    def loss(x):
        return sum((c**2).sum() for c in ours.wavedec(x, "db3", mode, 2))

    (gradient,) = torch.autograd.grad(loss(x), x)
    for i in range(9):
        step = torch.zeros(9, dtype=torch.float64)
        step[i] = 1e-4
        quotient = (loss(x + step) - loss(x - step)) / 2e-4
        assert gradient[i].item() == pytest.approx(quotient.item(), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("wavelet", ["db4", "bior4.4", "db20", "dmey"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7])
def test_periodization_of_a_signal_shorter_than_the_filter(wavelet, n):
    x = signal(n)
    expected = pywt.dwt(x, wavelet, "periodization")
    for a, e in zip(ours.dwt(x, wavelet, "periodization"), expected, strict=True):
        assert_close(a, e, norm(x))
    back = ours.idwt(*map(torch.from_numpy, expected), wavelet, "periodization")
    assert_close(back, pywt.idwt(*expected, wavelet, "periodization"), norm(x))


def test_no_container_and_no_input_is_changed():
    x = torch.from_numpy(signal(9, 11))
    before = x.clone()
    coeffs = ours.wavedecn(x, "db2", level=1)
    coeffs2 = ours.wavedec2(x, "db2", level=1)
    bands = ours.dwtn(x, "db2")
    bands["ad"] = None
    keep = [dict(coeffs[1]), list(coeffs2), dict(bands), [c.clone() for c in leaves(coeffs)]]
    ours.waverecn(coeffs, "db2")
    ours.waverec2(coeffs2, "db2")
    ours.idwtn(bands, "db2")
    ours.coeffs_to_array(coeffs)
    ours.ravel_coeffs(coeffs2)
    assert list(coeffs[1]) == list(keep[0])
    assert all(coeffs[1][k] is v for k, v in keep[0].items())
    assert all(a is b for a, b in zip(coeffs2, keep[1], strict=True))
    assert list(bands) == list(keep[2])
    assert bands["ad"] is None
    assert all(torch.equal(a, b) for a, b in zip(leaves(coeffs), keep[3], strict=True))
    assert torch.equal(x, before)


@pytest.mark.parametrize("axes", [(0,), (0, 1), (0, 1, 2)])
@pytest.mark.parametrize("shape", [(8, 8, 8), (64, 128, 96)])
@pytest.mark.parametrize("grad", [False, True])
def test_no_band_pins_the_memory_of_another(axes, shape, grad):
    bands = ours.dwtn(torch.zeros(shape, requires_grad=grad), "haar", axes=axes)
    storages = {band.untyped_storage().data_ptr() for band in bands.values()}
    assert len(storages) == len(bands)
    for band in bands.values():
        assert band.untyped_storage().nbytes() == band.numel() * band.element_size()


def test_the_maximum_level_is_exact_next_to_a_power_of_two():
    # log2 in float32 says 24 for 2^24 - 1.
    for exponent in range(1, 60):
        assert ours.dwt_max_level(2**exponent - 1, 2) == exponent - 1
        assert ours.dwt_max_level(2**exponent, 2) == exponent
        assert ours.dwt_max_level(7 * 2**exponent - 1, 8) == exponent - 1


def test_shapes_that_do_not_fit_are_errors_not_cropped():
    a, d = torch.zeros(4), torch.zeros(5)
    with pytest.raises(ValueError, match="same size: got cA"):
        ours.idwt(d, a, "haar")  # one longer is right in waverec only
    with pytest.raises(ValueError, match="mismatch"):
        ours.waverec([a, d], "haar")  # one shorter
    with pytest.raises(ValueError, match="mismatch"):
        ours.waverec([torch.zeros(7), d], "haar")  # two longer
    with pytest.raises(ValueError, match="mismatch"):
        ours.waverec([torch.zeros(3, 4), torch.zeros(2, 4)], "haar")  # along another axis
    square = torch.zeros(4, 4)
    with pytest.raises(ValueError, match="equal size"):
        ours.idwtn({"aa": square, "ad": torch.zeros(4, 5)}, "haar")
    with pytest.raises(ValueError, match="mismatch"):
        ours.waverecn([torch.zeros(5, 4), {"dd": square}], "haar")  # as PyWavelets at the top
    with pytest.raises(ValueError, match="must be the same"):
        ours.waverec2([square, (square, square, torch.zeros(4, 5))], "haar")


def test_a_broadcastable_band_is_an_error():
    with pytest.raises(ValueError, match="same size"):
        ours.idwt(torch.zeros(3, 4), torch.zeros(1, 4), "haar")


@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (-1, -2)])
def test_rows_and_columns_are_not_swapped_for_per_axis_wavelets(axes):
    x = signal(16, 24)
    expected = pywt.dwt2(x, ("haar", "db4"), ("zero", "symmetric"), axes)
    actual = ours.dwt2(x, ("haar", "db4"), ("zero", "symmetric"), axes)
    for a, e in zip((actual[0], *actual[1]), (expected[0], *expected[1]), strict=True):
        assert_close(a, e, norm(x))


def test_repeated_axes_are_refused():
    x = torch.zeros(4, 4)
    for call in (ours.dwtn, ours.dwt2, ours.wavedec2, ours.wavedecn):
        with pytest.raises(ValueError, match="unique"):
            call(x, "haar", axes=(0, 0))
        with pytest.raises(ValueError, match="unique"):
            call(x, "haar", axes=(0, -2))


def test_the_tangent_is_not_lost_silently():
    x = torch.randn(8)
    _, tangent = torch.func.jvp(lambda x: ours.dwt(x, "haar")[0], (x,), (torch.ones(8),))
    assert tangent.abs().sum() > 1


def test_import_needs_no_setuptools():
    code = (
        "import sys; sys.modules['pkg_resources'] = sys.modules['setuptools'] = None\n"
        "import rightfast.wavelets as w; w.wavelist()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_import_changes_no_global_state_of_torch():
    code = (
        "import torch\n"
        "def state(): return (torch.get_default_dtype(), torch.get_num_threads(),\n"
        "    torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled(),\n"
        "    torch.initial_seed(), torch.backends.cudnn.benchmark)\n"
        "before = state()\n"
        "import rightfast.wavelets as w\n"
        "w.waverec2(w.wavedec2(torch.ones(8, 8), 'db2', level=1), 'db2')\n"
        "assert state() == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_results_do_not_alias_the_input_nor_one_another():
    x = torch.from_numpy(signal(8, 8))
    found = leaves(ours.wavedec2(x, "haar", level=2)) + [ours.waverec2([x, (x, x, x)], "haar")]
    pointers = [t.untyped_storage().data_ptr() for t in [x, *found]]
    assert len(set(pointers)) == len(pointers)
    array = np.ones(8)
    low, _ = ours.dwt(array, "haar")
    low.zero_()
    assert (array == 1).all()
