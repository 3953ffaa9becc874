"""The kernels against one another: the oracle, the polyphase path, blocks, adjoints."""

import pytest
import torch
from rightfast_kernels.dwt import extension, phases, polyphase, reference

from rightfast import wavelets as ours

from .common import FEW, MODES, fits, signal

DOUBLE = torch.float64


def bank(name):
    return [tuple(f) for f in ours.Wavelet(name).filter_bank]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", [*FEW, "bior4.4", "db11"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_polyphase_equals_the_reference(wavelet, mode, dim):
    filters = bank(wavelet)
    for n in (1, 2, 5, 8, 23, 40):
        if not fits(n, mode):
            continue
        shape = [3, 2, 20]
        shape[dim] = n
        x = torch.from_numpy(signal(*shape))
        bands = reference.analysis(x, *filters[:2], mode, dim)
        scale = x.norm() + sum(band.norm() for band in bands)
        for a, e in zip(polyphase.analysis(x, *filters[:2], mode, dim), bands, strict=True):
            assert (a - e).abs().max() <= 1e-12 * scale
        back = reference.synthesis(*bands, *filters[2:], mode, dim)
        actual = polyphase.synthesis(*bands, *filters[2:], mode, dim)
        assert (actual - back).abs().max() <= 1e-12 * scale


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(6, 9, 1), (1, 9, 300), (4, 12, 20)])
def test_blocks_change_nothing(mode, shape, monkeypatch):
    x = torch.from_numpy(signal(*shape))
    filters = bank("bior2.2")
    n = shape[1]

    def everything():
        bands = polyphase.analysis(x, *filters[:2], mode, 1)
        y = polyphase.synthesis(*bands, *filters[2:], mode, 1)
        back = polyphase.analysis_adjoint(*bands, *filters[:2], mode, 1, n)
        return [*bands, y, back, *polyphase.synthesis_adjoint(y, *filters[2:], mode, 1)]

    expected = everything()
    monkeypatch.setattr(polyphase, "BLOCK", 64)
    for a, e in zip(everything(), expected, strict=True):
        torch.testing.assert_close(a, e, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("few", "run"), [(0, 1), (0, 1000), (1 << 40, 1)])
def test_every_way_to_split_gives_the_same(mode, few, run, monkeypatch):
    x = torch.from_numpy(signal(3, 22, 4))
    filters = bank("db3")
    expected = polyphase.analysis(x, *filters[:2], mode, 1)
    back = polyphase.synthesis(*expected, *filters[2:], mode, 1)
    monkeypatch.setattr(phases, "FEW_READS", few)
    monkeypatch.setattr(phases, "LONG_RUN", run)
    for a, e in zip(polyphase.analysis(x, *filters[:2], mode, 1), expected, strict=True):
        torch.testing.assert_close(a, e)
    torch.testing.assert_close(polyphase.synthesis(*expected, *filters[2:], mode, 1), back)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dim", [0, 1])
def test_fold_is_the_adjoint_of_extend(mode, dim):
    for n in range(1, 14):
        for before, after in ((0, 0), (1, 0), (0, 3), (2, 2), (5, 9), (30, 41)):
            if not fits(n, mode) or (mode == "periodization" and n % 2 and not after):
                continue
            x = torch.from_numpy(signal(*((n, 3) if dim == 0 else (3, n))))
            extended = extension.extend(x, before, after, mode, dim)
            g = torch.from_numpy(signal(*extended.shape, key="g"))
            left = (extended * g).sum()
            right = (x * extension.fold(g, before, n, mode, dim)).sum()
            assert abs(left - right) <= 1e-11 * (extended.norm() * g.norm() + 1)


def test_a_filter_of_zeros_gives_zeros():
    x, zero = torch.ones(2, 8), (0.0, 0.0)
    for kernel in (reference, polyphase):
        lo, hi = kernel.analysis(x, zero, (1.0, 0.0), "zero", 1)
        assert lo.shape == hi.shape == (2, 4)
        assert not lo.any()
        assert not kernel.synthesis(lo, hi, zero, zero, "zero", 1).any()


def test_a_mode_that_cannot_extend_says_so():
    with pytest.raises(ValueError, match="cannot extend a signal of 1 samples"):
        extension.extend(torch.ones(1), 2, 2, "reflect", 0)
