"""Multilevel wavelet transforms: the sizes of LiteVAE and of JPEG 2000, odd sizes, real signals,
and, with RIGHTFAST_LARGE=1, a large batch of images, which takes minutes and 10 GB.

Every backend is judged by PyWavelets in float64. Peers get their inputs in their own layout and
their results are converted for judging, both outside the timed call.
"""

import functools
import os
from dataclasses import dataclass

import numpy as np
import pytest
import pywt
import torch

from pytest_rightfast import PerfCase, Unsupported, peer
from rightfast import wavelets


@dataclass(frozen=True)
class Spec:
    """One transform: over the last `len(shape)` axes of a batch."""

    suite: str
    wavelet: str
    mode: str
    shape: tuple[int, ...]
    level: int = 3
    signal: str | None = None
    batch: tuple[int, int] = (2, 1)

    def __str__(self) -> str:
        size = self.signal or "x".join(map(str, self.shape))
        return f"{self.suite}-{self.wavelet}-{size}"

    @property
    def axes(self) -> tuple[int, ...]:
        return tuple(range(-len(self.shape), 0))


SPECS = [
    *(Spec("litevae", "haar", "zero", shape) for shape in [(4096,), (256, 256), (64, 64, 64)]),
    *(
        Spec("jpeg2000", wavelet, "symmetric", shape)
        for wavelet in ("bior2.2", "bior4.4")
        for shape in [(16384,), (512, 512), (96, 96, 96)]
    ),
]
REAL = [
    Spec("real", "bior4.4", "symmetric", (512, 512), signal="camera"),
    Spec("real", "haar", "zero", (512, 512), signal="aero"),
    Spec("real", "db4", "periodization", (1024,), signal="ecg"),
    Spec("real", "sym5", "reflect", (264,), signal="nino"),
]
ODD = [Spec("odd", "haar", "zero", shape) for shape in [(4097,), (255, 257), (63, 65, 67)]]
LARGE = [
    Spec("large", wavelet, mode, (1024, 1024), batch=(8, 3))
    for wavelet, mode in (("haar", "zero"), ("bior4.4", "symmetric"))
]
EVERY = [*SPECS, *ODD, *REAL, *(LARGE if os.environ.get("RIGHTFAST_LARGE") else [])]


def draw(spec: Spec, generator: torch.Generator) -> torch.Tensor:
    """Normal noise, or a real signal shifted at random, which keeps it real."""
    if spec.signal is None:
        return torch.randn(*spec.batch, *spec.shape, generator=generator)
    found = getattr(pywt.data, spec.signal)()
    values = found[1] if isinstance(found, tuple) else found
    signal = torch.as_tensor(np.asarray(values, dtype=np.float32))
    shifts = [int(torch.randint(n, (), generator=generator)) for n in signal.shape]
    return torch.stack([signal, signal.roll(shifts, spec.axes)]).unsqueeze(1)


# The implementations: forward(x, spec) and inverse(coefficients, spec). `kernel` is what a user
# gets where the extension is built; `torch` is the other path.


def kernel(x, spec):
    return by_kernel(ours, x, spec)


def kernel_inverse(coefficients, spec):
    return by_kernel(ours_inverse, coefficients, spec)


def by_kernel(function, data, spec):
    result = function(data, spec)
    if wavelets.served() != "kernel":
        raise Unsupported("the native kernels are not built, or do not serve this")
    return result


def by_torch(x, spec):
    with wavelets.backend("torch"):
        return ours(x, spec)


def by_torch_inverse(coefficients, spec):
    with wavelets.backend("torch"):
        return ours_inverse(coefficients, spec)


# Recorded in a CUDA graph by the first call, which is not timed, and replayed.


def recorded(x, spec):
    return by_kernel(_recorded(spec, "wavedec", x.is_cuda), x, spec)


def recorded_inverse(coefficients, spec):
    return by_kernel(_recorded(spec, "waverec", coefficients[0].is_cuda), coefficients, spec)


@functools.cache
def _recorded(spec, name, on_gpu):
    if not on_gpu:
        raise Unsupported("CUDA graphs are recorded on a GPU")
    function = getattr(wavelets, name + {1: "", 2: "2", 3: "n"}[len(spec.shape)])
    level, axes = (spec.level if name == "wavedec" else None), spec.axes
    made = wavelets.recorded(
        function, spec.wavelet, spec.mode, level, axes if len(axes) > 1 else -1
    )
    return lambda data, spec: made(data)


def ours(x, spec):
    if len(spec.shape) == 1:
        return wavelets.wavedec(x, spec.wavelet, spec.mode, spec.level)
    if len(spec.shape) == 2:
        return wavelets.wavedec2(x, spec.wavelet, spec.mode, spec.level)
    return wavelets.wavedecn(x, spec.wavelet, spec.mode, spec.level, axes=spec.axes)


def ours_inverse(coefficients, spec):
    if len(spec.shape) == 1:
        return wavelets.waverec(coefficients, spec.wavelet, spec.mode)
    if len(spec.shape) == 2:
        return wavelets.waverec2(coefficients, spec.wavelet, spec.mode)
    return wavelets.waverecn(coefficients, spec.wavelet, spec.mode, axes=spec.axes)


def by_pywt(x, spec):
    x = x.cpu().numpy() if torch.is_tensor(x) else x
    if len(spec.shape) == 1:
        return pywt.wavedec(x, spec.wavelet, spec.mode, spec.level)
    if len(spec.shape) == 2:
        return pywt.wavedec2(x, spec.wavelet, spec.mode, spec.level)
    return pywt.wavedecn(x, spec.wavelet, spec.mode, spec.level, axes=spec.axes)


def by_pywt_inverse(coefficients, spec):
    if len(spec.shape) == 1:
        return pywt.waverec(coefficients, spec.wavelet, spec.mode)
    if len(spec.shape) == 2:
        return pywt.waverec2(coefficients, spec.wavelet, spec.mode)
    return pywt.waverecn(coefficients, spec.wavelet, spec.mode, axes=spec.axes)


def by_ptwt(x, spec):
    import ptwt

    forward = {1: ptwt.wavedec, 2: ptwt.wavedec2, 3: ptwt.wavedec3}[len(spec.shape)]
    if spec.mode == "periodization":
        raise Unsupported("ptwt has no periodization")
    return forward(x, spec.wavelet, mode=spec.mode, level=spec.level)


def by_ptwt_inverse(coefficients, spec):
    import ptwt

    inverse = {1: ptwt.waverec, 2: ptwt.waverec2, 3: ptwt.waverec3}[len(spec.shape)]
    return inverse(coefficients, spec.wavelet)


@functools.cache
def _module(name, device, **options):
    pytorch_wavelets = pytest.importorskip("pytorch_wavelets", exc_type=ImportError)
    return getattr(pytorch_wavelets, name)(**options).to(device)


def by_pytorch_wavelets(x, spec):
    if len(spec.shape) == 3:
        raise Unsupported("pytorch_wavelets has no 3-D transform")
    name = "DWT1DForward" if len(spec.shape) == 1 else "DWTForward"
    return _module(name, x.device, J=spec.level, wave=spec.wavelet, mode=spec.mode)(x)


def by_pytorch_wavelets_inverse(coefficients, spec):
    if len(spec.shape) == 3:
        raise Unsupported("pytorch_wavelets has no 3-D transform")
    name = "DWT1DInverse" if len(spec.shape) == 1 else "DWTInverse"
    device = coefficients[0].device
    return _module(name, device, wave=spec.wavelet, mode=spec.mode)(coefficients)


def by_chuchichaestli(x, spec):
    dwt = pytest.importorskip("chuchichaestli.dwt", reason=CHUCHICHAESTLI)
    return dwt.wavedecn(x, spec.wavelet, spec.mode, spec.level, axes=spec.axes)


def by_chuchichaestli_inverse(coefficients, spec):
    dwt = pytest.importorskip("chuchichaestli.dwt", reason=CHUCHICHAESTLI)
    return dwt.waverecn(coefficients, spec.wavelet, spec.mode, axes=spec.axes)


CHUCHICHAESTLI = (
    "chuchichaestli is not installed: an optional peer, GPL; pip install --no-deps chuchichaestli, "
    "and g++ and ninja, by which it compiles itself at its first call"
)


# Their layouts.


def to_numpy(tree, spec):
    """Coefficients or a signal as numpy arrays, of the CPU over the same memory."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda x: x.cpu().numpy(), tree), spec


def on_cpu(tree, spec):
    """`to_numpy` for PyWavelets as a peer, which has no business in a run on a GPU."""
    if any(x.is_cuda for x in torch.utils._pytree.tree_leaves(tree)):
        raise Unsupported("PyWavelets computes on the CPU")
    return to_numpy(tree, spec)


def to_ptwt(coefficients, spec):
    """Tuples of tuples in place of lists."""
    return tuple(coefficients), spec


def to_bands(coefficients, spec):
    """Low band, then the stacked details, finest first."""
    low, *details = coefficients
    if len(spec.shape) == 2:
        details = [torch.stack(detail, dim=2) for detail in details]
    return (low, details[::-1]), spec


def to_keyed(coefficients, spec):
    """Each level's details by key, in one dimension and two as well."""
    names = {1: ("d",), 2: ("da", "ad", "dd")}.get(len(spec.shape))
    if names is None:
        return coefficients, spec
    low, *details = coefficients
    levels = ([d] if torch.is_tensor(d) else d for d in details)
    return [low, *(dict(zip(names, level, strict=True)) for level in levels)], spec


def from_keyed(result):
    low, *details = result
    if len(details[0]) == 1:
        return [low, *(level["d"] for level in details)]
    if len(details[0]) == 3:
        return [low, *((level["da"], level["ad"], level["dd"]) for level in details)]
    return result


def from_bands(result):
    low, details = result
    return [low, *(d.unbind(2) if d.dim() == 5 else d for d in details[::-1])]


def coefficients_of(spec, generator, device):
    """What the inverse starts from: float32 coefficients of a fresh draw."""
    return torch.utils._pytree.tree_map_only(
        np.ndarray,
        lambda array: torch.from_numpy(array).to(device),
        by_pywt(draw(spec, generator), spec),
    )


def rounding(spec):
    """Details of a photograph are small differences of large numbers: what float32 rounds off is
    judged against those (16 ulp of the largest value), not against the details."""
    if spec.signal is None:
        return 0.0
    largest = float(draw(spec, torch.Generator()).abs().max())
    return 16 * largest * torch.finfo(torch.float32).eps


@pytest.fixture(params=EVERY, ids=str)
def signal(request, perf_device):
    spec = request.param
    return PerfCase(
        inputs=lambda generator: (draw(spec, generator).to(perf_device), spec),
        reference=by_pywt,
        atol=rounding(spec),
        moved_bytes=lambda x, spec: 2 * x.nbytes,
    )


@pytest.fixture(params=EVERY, ids=str)
def pyramid(request, perf_device):
    spec = request.param
    return PerfCase(
        inputs=lambda generator: (coefficients_of(spec, generator, perf_device), spec),
        reference=lambda coefficients, spec: by_pywt_inverse(*to_numpy(coefficients, spec)),
        atol=rounding(spec),
        moved_bytes=lambda coefficients, spec: 2 * 4 * int(np.prod((*spec.batch, *spec.shape))),
    )


@pytest.mark.perf_backends(
    kernel=kernel,
    recorded=recorded,
    torch=by_torch,
    pywt=peer(by_pywt, prepare=on_cpu),
    ptwt=peer(by_ptwt),
    pytorch_wavelets=peer(by_pytorch_wavelets, output=from_bands),
    chuchichaestli=peer(by_chuchichaestli, output=from_keyed),
)
def test_forward(perf, signal, backend):
    perf(backend, case=signal)


@pytest.mark.perf_backends(
    kernel=kernel_inverse,
    recorded=recorded_inverse,
    torch=by_torch_inverse,
    pywt=peer(by_pywt_inverse, prepare=on_cpu),
    ptwt=peer(by_ptwt_inverse, prepare=to_ptwt),
    pytorch_wavelets=peer(by_pytorch_wavelets_inverse, prepare=to_bands),
    chuchichaestli=peer(by_chuchichaestli_inverse, prepare=to_keyed),
)
def test_inverse(perf, pyramid, backend):
    perf(backend, case=pyramid)


@pytest.mark.perf_backends(
    kernel=kernel,
    recorded=recorded,
    torch=by_torch,
    ptwt=peer(by_ptwt),
    pytorch_wavelets=peer(by_pytorch_wavelets, output=from_bands),
    chuchichaestli=peer(by_chuchichaestli, output=from_keyed),
)
def test_gradient(perf, signal, backend):
    perf(backend, case=signal, backward="with_forward")


# Mallat's layout: the whole decomposition in one tensor.


def packed(transform, pack=wavelets.coeffs_to_array):
    def run(x, spec):
        low, *details = transform(x, spec)
        if len(spec.shape) == 1:  # as wavedecn has them, which may have a batch
            details = [{"d": d} for d in details]
        return pack([low, *details], axes=spec.axes)[0]

    return run


@pytest.fixture(params=SPECS, ids=str)
def picture(request, perf_device):
    spec = request.param
    return PerfCase(
        inputs=lambda generator: (draw(spec, generator).to(perf_device), spec),
        reference=packed(by_pywt, pywt.coeffs_to_array),
        moved_bytes=lambda x, spec: 2 * x.nbytes,
    )


@pytest.mark.perf_backends(
    kernel=packed(kernel),
    torch=packed(by_torch),
    pywt=peer(packed(by_pywt, pywt.coeffs_to_array), prepare=on_cpu),
)
def test_packed(perf, picture, backend):
    perf(backend, case=picture)
