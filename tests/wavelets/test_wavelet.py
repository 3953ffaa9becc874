"""`Wavelet`, `wavelist`: the built-in wavelets and custom banks."""

import copy
import pickle

import numpy as np
import pytest
import pywt
import torch

from rightfast import wavelets as ours

from .common import ALL

FACTS = (
    "name", "family_name", "short_family_name", "family_number", "number", "orthogonal",
    "biorthogonal", "symmetry", "vanishing_moments_psi", "vanishing_moments_phi", "dec_len",
    "rec_len", "dec_lo", "dec_hi", "rec_lo", "rec_hi", "filter_bank", "inverse_filter_bank",
)  # fmt: skip


def test_the_names_are_those_of_pywt():
    assert len(ours.wavelist(kind="discrete")) == 106
    for arguments in ({}, {"kind": "discrete"}, {"kind": "continuous"}, {"family": "db"}):
        assert ours.wavelist(**arguments) == pywt.wavelist(**arguments)
    assert ours.families() == pywt.families()
    assert ours.families(False) == pywt.families(False)
    for bad in ({"family": "x"}, {"kind": "x"}):
        with pytest.raises(ValueError):
            ours.wavelist(**bad)


@pytest.mark.parametrize("name", ALL)
def test_a_built_in_wavelet_has_the_facts_and_filters_of_pywt(name):
    mine, theirs = ours.Wavelet(name), pywt.Wavelet(name)
    for fact in FACTS:
        assert getattr(mine, fact) == getattr(theirs, fact), fact
    lo, hi = np.array(mine.rec_lo), np.array(mine.dec_hi)
    assert np.array_equal(hi, lo * np.where(np.arange(len(lo)) % 2, 1, -1))


@pytest.mark.parametrize("length", [1, 2, 5, 6])
@pytest.mark.parametrize("kind", ["lists", "arrays", "tensors", "pywt", "object"])
def test_a_custom_bank_is_padded_to_even_length_as_in_pywt(length, kind):
    bank = [[float(i + 10 * k + 1) for i in range(length)] for k in range(4)]
    theirs = pywt.Wavelet("mine", bank)
    given = {
        "lists": bank,
        "arrays": [np.array(f) for f in bank],
        "tensors": [torch.tensor(f) for f in bank],
        "pywt": theirs,
        "object": type("Bank", (), {"filter_bank": bank})(),
    }[kind]
    mine = ours.Wavelet("mine", given)
    assert mine.name == "mine"
    assert (mine.dec_len, mine.orthogonal) == (theirs.dec_len, theirs.orthogonal)
    for attribute in ("filter_bank", "inverse_filter_bank"):
        found = [list(map(float, f)) for f in getattr(mine, attribute)]
        assert found == list(getattr(theirs, attribute))
    assert mine.learnable == (kind == "tensors")
    assert "mine" in repr(mine)


def test_a_custom_bank_under_a_built_in_name_is_the_bank():
    bank = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]
    x = torch.arange(4.0)
    for wavelet in (ours.Wavelet("haar", bank), pywt.Wavelet("haar", bank)):
        assert torch.equal(ours.dwt(x, wavelet)[0], ours.dwt(x, ours.Wavelet("", bank))[0])


def test_objects_of_pywt_and_names_in_capitals():
    x = torch.arange(9.0)
    for wavelet in (pywt.Wavelet("db3"), "DB3", ours.Wavelet("Db3"), [pywt.Wavelet("db3")]):
        assert torch.equal(ours.dwtn(x, wavelet)["d"], ours.dwtn(x, "db3")["d"])


def test_refusals_say_what_to_do():
    cases = [
        ((), TypeError, "name or filter bank must be specified"),
        ((3,), TypeError, "expected a wavelet name or Wavelet, got int"),
        (("nope",), ValueError, "check wavelist"),
        (("morl",), ValueError, "discrete"),
        (("x", [[1.0, 2.0]] * 3), ValueError, "expected 4 filters"),
        (("x", [[1.0, 2.0]] * 3 + [[1.0]]), ValueError, "one length"),
        (("x", [[]] * 4), ValueError, "one length"),
        (("x", [torch.ones(2)] * 3 + [[1.0, 2.0]]), TypeError, "mixture"),
        (("x", [torch.ones(2, 2)] * 4), TypeError, "1-D tensors of real floats"),
        (("x", [torch.ones(2).long()] * 4), TypeError, "1-D tensors of real floats"),
    ]
    for args, error, message in cases:
        with pytest.raises(error, match=message):
            ours.Wavelet(*args)
    with pytest.raises(ValueError, match="ContinuousWavelet"):
        ours.dwt(torch.ones(4), pywt.ContinuousWavelet("morl"))


def test_copies_and_pickles():
    bank = [torch.randn(4) for _ in range(4)]
    for wavelet in (ours.Wavelet("db3"), ours.Wavelet("mine", bank)):
        for twin in (copy.deepcopy(wavelet), pickle.loads(pickle.dumps(wavelet))):
            assert twin.name == wavelet.name
            for a, b in zip(twin.filter_bank, wavelet.filter_bank, strict=True):
                assert list(a) == list(b)


def test_wavefun_is_that_of_pywt():
    for name in ("db2", "bior2.2"):
        for a, b in zip(ours.Wavelet(name).wavefun(4), pywt.Wavelet(name).wavefun(4), strict=True):
            assert np.array_equal(a, b)
