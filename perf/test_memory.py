"""Cold and warm results of the wavelet transforms: 38 MB, which the C library maps anew for each
result and unmaps after it, so that every page of it is written for the first time (cold), against
the same tensors filled again through ``out=`` (warm).

The bands of a decomposition are under its 32 MB each and come from memory that was used before; a
reconstruction is one tensor above it. Run with RIGHTFAST_LARGE=1: verifying so much takes a second
a case. With ``--perf-threads 1,2`` each runs on one and on two
threads. `perf/check_copy.py` has `copy_` and `clone` of the same bytes beside them.
"""

import os

import numpy as np
import pytest
import pywt
import torch

from pytest_rightfast import PerfCase, Unsupported
from rightfast import wavelets

if "RIGHTFAST_LARGE" not in os.environ:
    pytest.skip("38 MB a case: RIGHTFAST_LARGE=1 asks for them", allow_module_level=True)

SHAPE, LEVEL = (9, 1, 1024, 1024), 3
FILTERS = [("bior4.4", "symmetric")]
BYTES = 2 * 4 * int(np.prod(SHAPE))


def forward(x, wavelet, mode, out=None):
    return wavelets.wavedec2(x, wavelet, mode, LEVEL, out=out)


def inverse(bands, wavelet, mode, out=None):
    return wavelets.waverec2(bands, wavelet, mode, out=out)


def by_kernel(transform):
    def run(*arguments):
        result = transform(*arguments)
        if wavelets.served() != "kernel":
            raise Unsupported("the native kernels are not built")
        return result

    return run


def by_torch(transform):
    def run(*arguments):
        with wavelets.backend("torch"):
            return transform(*arguments)

    return run


def signal(generator):
    return torch.randn(SHAPE, generator=generator)


def bands_of(x, wavelet, mode):
    return pywt.wavedec2(x, wavelet, mode, LEVEL)


def tensors(arrays):
    return torch.utils._pytree.tree_map_only(np.ndarray, torch.from_numpy, arrays)


def arrays(tree):
    return torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.numpy, tree)


def by_pywt(x, wavelet, mode, out=None):
    return fill(out, bands_of(np.asarray(x), wavelet, mode))


def by_pywt_inverse(bands, wavelet, mode, out=None):
    return fill(out, pywt.waverec2(arrays(bands), wavelet, mode))


def fill(out, result):
    """As a transform does: the result, or what it was written to."""
    if out is None:
        return result
    leaves = torch.utils._pytree.tree_leaves
    for tensor, array in zip(leaves(out), leaves(result), strict=True):
        tensor.copy_(torch.from_numpy(array))
    return None


@pytest.fixture(params=FILTERS, ids=lambda pair: pair[0])
def decomposition(request):
    """Cold: arguments without ``out``; warm: the same with it."""

    def inputs(generator, warm=False):
        x = signal(generator)
        out = tensors(bands_of(np.zeros_like(x), *request.param)) if warm else None
        return (x, *request.param, out)

    return inputs


@pytest.fixture(params=FILTERS, ids=lambda pair: pair[0])
def reconstruction(request):
    def inputs(generator, warm=False):
        x = signal(generator)
        bands = tensors(bands_of(x.numpy(), *request.param))
        return (bands, *request.param, torch.zeros_like(x) if warm else None)

    return inputs


def case(inputs, reference, warm):
    """A warm call is judged by what it changed alone."""
    return PerfCase(
        inputs=lambda generator: inputs(generator, warm),
        reference=reference,
        mutates=(3,) if warm else (),
        moved_bytes=BYTES,
        output=(lambda result: None) if warm else None,
    )


@pytest.mark.perf_backends(kernel=by_kernel(forward), torch=by_torch(forward))
def test_cold_forward(perf, decomposition, backend):
    perf(backend, case=case(decomposition, by_pywt, warm=False))


@pytest.mark.perf_backends(kernel=by_kernel(forward), torch=by_torch(forward))
def test_warm_forward(perf, decomposition, backend):
    perf(backend, case=case(decomposition, by_pywt, warm=True))


@pytest.mark.perf_backends(kernel=by_kernel(inverse), torch=by_torch(inverse))
def test_cold_inverse(perf, reconstruction, backend):
    perf(backend, case=case(reconstruction, by_pywt_inverse, warm=False))


@pytest.mark.perf_backends(kernel=by_kernel(inverse), torch=by_torch(inverse))
def test_warm_inverse(perf, reconstruction, backend):
    perf(backend, case=case(reconstruction, by_pywt_inverse, warm=True))
