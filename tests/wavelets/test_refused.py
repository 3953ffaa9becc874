"""Arguments of the wrong kind: the error names what was expected, what came, and what to do."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from rightfast_kernels.dwt import native

from rightfast import wavelets as ours

X = torch.ones(8, 8)
BANDS = (X, (X, X, X))
NESTED = torch.nested.nested_tensor


REFUSED = {
    "level 1.5": (lambda: ours.wavedec(X, "haar", level=1.5), "a level as an integer, got 1.5"),
    "level 2.0": (lambda: ours.wavedec2(X, "haar", level=2.0), "a level as an integer, got 2.0"),
    "level '2'": (lambda: ours.wavedecn(X, "haar", level="2"), "a level as an integer, got '2'"),
    "level of shapes": (lambda: ours.wavedecn_shapes((8,), "haar", level=1.5), "got 1.5"),
    "axis 1.5": (lambda: ours.dwt(X, "haar", axis=1.5), "an axis as an integer, got 1.5"),
    "axis of None": (lambda: ours.waverec([X, X], "haar", axis=None), "an axis .*got None"),
    "axes 1.5": (lambda: ours.dwtn(X, "haar", axes=1.5), "axes as an integer, got 1.5"),
    "axes (0, 1.5)": (lambda: ours.dwt2(X, "haar", axes=(0, 1.5)), "an axis .*got 1.5"),
    "axes '01'": (lambda: ours.dwtn(X, "haar", axes="01"), "axes as an integer, got '01'"),
    "axes of floats": (lambda: ours.dwtn(X, "haar", axes=torch.ones(1)), "an axis .*got 1.0"),
    "sparse": (lambda: ours.dwt(X.to_sparse(), "haar"), r"layout torch.sparse_coo.*to_dense\(\)"),
    "sparse again": (lambda: (ours.wavedec2(X, "haar"), ours.wavedec2(X.to_sparse(), "haar")),
                     "data as a dense tensor"),
    "sparse bands": (lambda: ours.idwt2((X, (None, X.to_sparse(), None)), "haar"), "band 'ad'"),
    "mkldnn": (lambda: ours.dwt(X.to_mkldnn(), "haar"), r"layout torch._mkldnn.*to_dense\(\)"),
    "nested": (lambda: ours.wavedec(NESTED([X[0]]), "haar"), "nested one.*to_padded_tensor"),
    "one number as filters": (lambda: ours.Wavelet("x", 5), "filters .*filter_bank, got int"),
    "text as filters": (lambda: ours.Wavelet("x", "abcd"), "filters .*filter_bank, got str"),
    "numbers as filters": (lambda: ours.Wavelet("x", [1, 2, 3, 4]), "sequence of real .*got 1 "),
    "text as a filter": (lambda: ours.Wavelet("x", ["ab"] * 4), "sequence of real .*got 'ab'"),
    "a number as name": (lambda: ours.Wavelet(5, [[1.0, 1.0]] * 4), "the name of a wavelet.*int"),
    "no wavelet": (lambda: ours.dwt(X, None), "got neither: see wavelist"),
    "length 8.5": (lambda: ours.dwt_max_level(8.5, 2), "a data length as an integer, got 8.5"),
    "length '8'": (lambda: ours.dwt_coeff_len("8", 2, "zero"), "a data length .*got '8'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.filterwarnings("ignore:.*nested")
def test_the_wrong_type_is_refused_with_a_remedy(case):
    call, message = REFUSED[case]
    with pytest.raises(TypeError, match=message):
        call()


def test_the_wrong_structure_is_refused():
    with pytest.raises(ValueError, match=r"\(cA, \(cH, cV, cD\)\), got tuple"):
        ours.idwt2((X, X), "haar")
    with pytest.raises(ValueError, match="Expected 2 axes, got 1"):
        ours.idwt2(BANDS, "haar", axes=1)


@pytest.mark.parametrize("axes", [torch.tensor([1, 0]), np.array([1, 0])])
def test_axes_may_be_a_tensor_or_an_array(axes):
    x = torch.arange(48.0).view(6, 8)
    wanted = ours.dwt2(x, "db2", axes=(1, 0))
    assert torch.equal(ours.dwt2(x, "db2", axes=axes)[1][0], wanted[1][0])
    assert torch.equal(ours.idwt2(wanted, "db2", axes=axes), ours.idwt2(wanted, "db2", axes=(1, 0)))
    assert torch.equal(ours.dwtn(x, "db2", axes=axes[0])["a"], ours.dwt(x, "db2", axis=1)[0])


@pytest.mark.parametrize("name", ["cuda", 5, None])
def test_an_unknown_backend_is_refused_at_the_call(name):
    with pytest.raises(ValueError, match=r"expected a backend of .* 'auto' serves all"):
        ours.backend(name)


@pytest.mark.skipif(not native.available, reason="the native kernels were not built")
def test_an_instruction_set_in_the_environment_must_exist():
    def load(name):
        code = "from rightfast_kernels.dwt import native"
        return subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "RIGHTFAST_CPU": name},
            capture_output=True,
            text=True,
            timeout=120,
        )

    found = load("avx")
    assert found.returncode == 1
    assert "ValueError: expected RIGHTFAST_CPU as one of" in found.stderr
    assert "got 'avx'; unset it" in found.stderr
    assert load("avx512").returncode == 0  # known, wherever it runs: passed over if lacking
