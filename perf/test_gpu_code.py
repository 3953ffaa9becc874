"""What Triton kernels compile to, counted without a GPU: registers and spills.

The transform or circuit that is verified and timed is the one of this machine's device; the kernels
are those that a CUDA tensor would meet, compiled ahead (docs/kernels.md).
"""

import pytest
import pywt
import torch

from pytest_rightfast.triton_recorder import record
from rightfast import circuits, wavelets

CASES = {
    "haar": ((1, 24, 24), (-2, -1), "haar", "zero"),
    "bior4.4": ((1, 24, 24), (-2, -1), "bior4.4", "symmetric"),
    "line": ((1, 24), (-1,), "bior4.4", "symmetric"),
}


def run(shape, axes, wavelet, mode):
    """One level on a GPU, and its gradient."""
    from rightfast_kernels.dwt.native import analysis_axis, make_plan
    from rightfast_kernels.dwt.reference import coeff_len

    from rightfast.wavelets import gpu

    filters = pywt.Wavelet(wavelet)
    plan = make_plan(
        [analysis_axis(axis, mode, filters.dec_lo, filters.dec_hi) for axis in axes],
        [[(shape[axis], coeff_len(shape[axis], filters.dec_len, mode)) for axis in axes]],
        [(1 << (1 << len(axes))) - 1],
    )
    bands = gpu.down(torch.zeros(shape), plan)
    gpu.up(bands, plan)


# What a child process can import.
def haar():
    run(*CASES["haar"])


def plane():
    run(*CASES["bior4.4"])


def line():
    run(*CASES["line"])


@pytest.mark.parametrize(
    ("name", "function"), [("haar", haar), ("bior4.4", plane), ("line", line)], ids=list(CASES)
)
def test_gpu_code(perf, name, function):
    shape, axes, wavelet, mode = CASES[name]
    pytest.importorskip("triton")
    launches = record(function)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))

    def transform(x):
        return wavelets.wavedecn(x, wavelet, mode, 1, axes)

    perf(
        transform,
        x,
        reference=lambda x: pywt.wavedecn(x.numpy(), wavelet, mode, 1, axes),
        kernels=[launch.spec for launch in launches],
    )


def circuit(dtype):
    """One whose tiles are full."""
    dist = circuits.Categorical(64)
    return circuits.compile(
        circuits.hmm(3, 64, dist, homogeneous=False), dtype=dtype, precision="ieee"
    )


def passes():
    """What a child process runs: forward, backward, M-step and samples by interpreted kernels."""
    from rightfast.circuits import gpu

    gpu.takes = lambda device, dtype: dtype == torch.float32
    own = circuit(torch.float32)
    with torch.no_grad():
        own(torch.zeros(64, 3, dtype=torch.int64))
    own.backward()
    circuits.em_step(own)
    x = circuits.sample(own, 64, 0)
    circuits.conditional_sample(own, x, x > 32, 0)


def test_circuit_code(perf):
    pytest.importorskip("triton")
    launches = record(passes)
    x = torch.randint(64, (64, 3), generator=torch.Generator().manual_seed(0))
    own, exact = circuit(torch.float32), circuit(torch.float64)

    @torch.no_grad()
    def forward(x):
        return own(x).double()

    @torch.no_grad()
    def reference(x):
        return exact(x.long())

    perf(forward, x, reference=reference, rtol=1e-6, kernels=[launch.spec for launch in launches])
