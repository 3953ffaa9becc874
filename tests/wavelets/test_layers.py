"""The modules: channels, sizes, parameters."""

import copy

import pytest
import torch

from rightfast import wavelets as ours

from .common import MODES


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_bands_are_channels_in_the_order_of_dwtn(dims, mode):
    x = torch.randn(2, 3, *(7, 6, 8)[:dims])
    y = ours.DWT("db2", mode, dims)(x)
    bands = ours.dwtn(x, "db2", mode, axes=tuple(range(2, 2 + dims)))
    for part, band in zip(y.chunk(2**dims, dim=1), bands.values(), strict=True):
        assert torch.equal(part, band)
    back = ours.IDWT("db2", mode, dims)
    torch.testing.assert_close(back(y, x.shape[2:]), x)
    assert back(y).shape[2:] == torch.Size([8, 6, 8][:dims])


def test_built_in_filters_are_no_parameters():
    module = ours.DWT("db2")
    assert not list(module.parameters())
    assert module.state_dict() == {}
    assert repr(module) == "DWT('db2', mode='symmetric', dims=2)"


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (ours.DWT("db2", dims=1, learnable=True), ["dec_lo", "dec_hi"]),
        (ours.IDWT("db2", dims=1, learnable=True), ["rec_lo", "rec_hi"]),
    ],
)
def test_learnable_filters_are_the_parameters_that_are_used(module, names):
    x = torch.randn(2, 4, 16)
    assert [name for name, _ in module.named_parameters()] == names
    module(x).square().sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in module.parameters())
    fixed = type(module)("db2", dims=1)
    torch.testing.assert_close(module(x), fixed(x))
    twin = copy.deepcopy(module)
    twin.load_state_dict(module.state_dict())
    with torch.no_grad():
        next(twin.parameters()).mul_(2)
    assert not torch.equal(twin(x), module(x))
    assert module.double()(x.double()).dtype == torch.float64
    zeros = {name: torch.zeros_like(p) for name, p in module.named_parameters()}
    assert torch.func.functional_call(module, zeros, (x.double(),)).abs().sum() == 0


def test_one_bank_of_parameters_may_serve_both_directions():
    bank = [torch.nn.Parameter(torch.tensor(f)) for f in ours.Wavelet("db2").filter_bank]
    wavelet = ours.Wavelet("shared", bank)
    down, up = ours.DWT(wavelet, dims=1), ours.IDWT(wavelet, dims=1)
    assert down.dec_lo is bank[0]
    assert up.rec_lo is bank[2]
    x = torch.randn(1, 1, 12)
    torch.testing.assert_close(up(down(x)), x)
    up(down(x)).square().sum().backward()
    assert all(f.grad is not None for f in bank)


def test_refusals():
    with pytest.raises(ValueError, match="give dims=1, or reshape"):
        ours.DWT("haar")(torch.ones(2, 3, 8))
    with pytest.raises(ValueError, match="multiple of 4 channels, got 3"):
        ours.IDWT("haar")(torch.ones(2, 3, 8, 8))
    with pytest.raises(ValueError, match="cannot crop"):
        ours.IDWT("haar")(torch.ones(2, 4, 8, 8), (16, 13))
    with pytest.raises(ValueError, match="expected 2 numbers"):
        ours.IDWT("haar")(torch.ones(2, 4, 8, 8), (16,))
    with pytest.raises(ValueError, match="at least 1 spatial"):
        ours.DWT("haar", dims=0)
