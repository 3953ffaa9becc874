"""The packed layouts equal PyWavelets', unpack to views, and are differentiable."""

import numpy as np
import pytest
import pywt
import torch

from rightfast import wavelets as ours

from .common import leaves, signal

pytestmark = pytest.mark.filterwarnings("ignore:Level value")
CASES = [("db2", "symmetric", None, 2), ("haar", "periodization", (0, 1), 2),
         ("db3", "zero", (2, 0), 1), ("bior4.4", "reflect", (1,), 2)]  # fmt: skip


def both(wavelet, mode, axes, level):
    x = signal(13, 10, 9)
    return (
        pywt.wavedecn(x, wavelet, mode, level, axes),
        ours.wavedecn(torch.from_numpy(x), wavelet, mode, level, axes),
    )


@pytest.mark.parametrize("case", CASES)
def test_mallat_layout(case):
    theirs, mine = both(*case)
    expected, slices_ = pywt.coeffs_to_array(theirs, axes=case[2])
    packed, slices = ours.coeffs_to_array(mine, axes=case[2])
    np.testing.assert_allclose(packed.numpy(), expected, atol=1e-12)
    # The same places, whether a whole axis is slice(None) or spelled out.
    for a, b in zip(leaves([*slices]), leaves([*slices_]), strict=True):
        assert torch.equal(packed[a], packed[b])
    unpacked = ours.array_to_coeffs(packed, slices)
    for a, b in zip(leaves(unpacked), leaves(mine), strict=True):
        assert torch.equal(a, b)
        assert a.untyped_storage().data_ptr() == packed.untyped_storage().data_ptr()
    assert ours.coeffs_to_array(unpacked, axes=case[2])[0] is packed


@pytest.mark.parametrize("case", CASES)
def test_raveled_layout(case):
    theirs, mine = both(*case)
    expected, slices_, shapes_ = pywt.ravel_coeffs(theirs, axes=case[2])
    flat, slices, shapes = ours.ravel_coeffs(mine, axes=case[2])
    np.testing.assert_allclose(flat.numpy(), expected, atol=1e-12)
    assert slices == slices_
    assert shapes == shapes_
    unpacked = ours.unravel_coeffs(flat, slices, shapes)
    for a, b in zip(leaves(unpacked), leaves(mine), strict=True):
        assert torch.equal(a, b)
        assert a.untyped_storage().data_ptr() == flat.untyped_storage().data_ptr()


@pytest.mark.parametrize("output_format", ["wavedec", "wavedec2", "wavedecn"])
def test_formats_go_round(output_format):
    x = torch.from_numpy(signal(21) if output_format == "wavedec" else signal(12, 21))
    coeffs = getattr(ours, output_format)(x, "db2", level=2)
    inverse = getattr(ours, output_format.replace("dec", "rec"))
    expected = inverse(coeffs, "db2")
    packed = ours.array_to_coeffs(*ours.coeffs_to_array(coeffs), output_format)
    raveled = ours.unravel_coeffs(*ours.ravel_coeffs(coeffs), output_format)
    for again in (packed, raveled):
        assert [type(entry) for entry in again] == [type(entry) for entry in coeffs]
        assert torch.equal(inverse(again, "db2"), expected)


def test_packing_leading_dimensions_and_one_axis():
    x = torch.from_numpy(signal(3, 16))
    coeffs = ours.wavedec(x, "haar", level=2)
    packed, slices = ours.coeffs_to_array(coeffs, axes=(-1,))
    assert torch.equal(packed, torch.cat(coeffs, dim=-1))
    assert torch.equal(ours.array_to_coeffs(packed, slices, "wavedec")[1], coeffs[1])
    with pytest.raises(ValueError, match="axes must be specified"):
        ours.coeffs_to_array(coeffs)


def test_padding():
    coeffs = ours.wavedec2(torch.ones(9, 12), "db2", level=2)
    packed, _ = ours.coeffs_to_array(coeffs, padding=7)
    assert (packed == 7).any()
    with pytest.raises(ValueError, match="tightly packed"):
        ours.coeffs_to_array(coeffs, padding=None)
    tight = ours.wavedec2(torch.ones(8, 8), "haar", level=2)
    assert ours.coeffs_to_array(tight, padding=None)[0].shape == (8, 8)


def test_level_zero_and_dtypes():
    x = torch.ones(3, 4)
    packed, slices = ours.coeffs_to_array([x])
    assert packed is x
    assert torch.equal(ours.array_to_coeffs(packed, slices)[0], x)
    a, d = torch.ones(4), torch.ones(4, dtype=torch.float64)
    assert ours.coeffs_to_array([a, d])[0].dtype == torch.float64
    assert ours.ravel_coeffs([a, d])[0].dtype == torch.float64


def test_writing_to_a_band_writes_to_the_tensor():
    packed, slices = ours.coeffs_to_array(ours.wavedec2(torch.rand(8, 8), "haar", level=1))
    ours.array_to_coeffs(packed, slices, "wavedec2")[1][0].zero_()
    assert (packed[4:, :4] == 0).all()


def test_derivatives_and_vmap():
    x = torch.from_numpy(signal(3, 20)).requires_grad_()

    def pack(x):
        return ours.coeffs_to_array(ours.wavedec(x, "db2", level=2))[0]

    def ravel(x):
        return ours.ravel_coeffs(ours.wavedec(x, "db2", level=2))[0]

    def unpack(x):
        packed, slices = ours.coeffs_to_array(ours.wavedec(x, "db2", level=2))
        return ours.waverec(ours.array_to_coeffs(packed * 1, slices, "wavedec"), "db2")

    for function in (pack, ravel, unpack):
        assert torch.autograd.gradcheck(function, x[0].detach().requires_grad_())
        mapped = torch.func.vmap(function)(x)
        assert torch.allclose(mapped, torch.stack([function(row) for row in x]))


@pytest.mark.parametrize(
    "coeffs",
    [
        [torch.ones(2), None],
        [torch.ones(2), {}],
        [torch.ones(2), {"d": None}],
        [torch.ones(2, 2), {"ad": torch.ones(2, 2)}],
        [torch.ones(2, 2), (torch.ones(2, 2), torch.ones(2, 2))],
        [torch.ones(2, 2), {"d": torch.ones(2, 2)}, {"dd": torch.ones(2, 2)}],
        {"aa": torch.ones(2)},
    ],
)
def test_malformed_lists_are_refused(coeffs):
    with pytest.raises(ValueError):
        ours.coeffs_to_array(coeffs, axes=None)
