"""What the tests of recorded transforms share."""

import pytest
import torch
from rightfast_kernels.dwt import native

from rightfast import wavelets as ours
from rightfast.runtime import CudaGraphs, Tape

from .gpu_cases import flat, random

RECORDED = [
    pytest.mark.filterwarnings("ignore:Level value"),
    pytest.mark.filterwarnings("error::rightfast.runtime.NotRecorded"),
]
ON_A_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
ON_A_TAPE = pytest.mark.skipif(not native.available, reason="the native kernels are not built")
DEVICES = [
    pytest.param("cpu", marks=ON_A_TAPE),
    pytest.param("cuda", marks=[ON_A_GPU, pytest.mark.gpu]),
]
PAIRS = {
    "lines": (ours.wavedec, ours.waverec, "db3", "symmetric", 2, -1),
    "lines of another axis": (ours.wavedec, ours.waverec, "db2", "smooth", 1, 1),
    "planes": (ours.wavedec2, ours.waverec2, "bior4.4", "symmetric", 2, (-2, -1)),
    "planes, Haar": (ours.wavedec2, ours.waverec2, "haar", "zero", 2, (-2, -1)),
    "planes, turned": (ours.wavedec2, ours.waverec2, ["db2", "haar"], "reflect", 1, [2, 1]),
    "volumes": (ours.wavedecn, ours.waverecn, "bior2.2", "periodization", 1, None),
    "two of three axes": (ours.wavedecn, ours.waverecn, "db2", "antireflect", 2, (0, 2)),
}
SHAPE = (6, 19, 22)
bound = pytest.mark.parametrize("bound", [False, True], ids=["copied", "bound"])
packed = pytest.mark.parametrize("packed", [False, True], ids=["tree", "packed"])


class Holding(Tape):
    """A tape looks for the very memory that it was recorded on; a GPU, for its address."""

    def __init__(self):
        self.held = []

    def capture(self, body, known, fed):
        self.held.append(known)
        return super().capture(body, known, fed)


def tools(device, name="planes", packed=False, bound=False, most=16):
    """(analysis, synthesis), recorded, and the same by the functions."""
    down, up, wavelet, mode, level, axes = PAIRS[name]
    kind = {"bound": bound, "most": most, "backend": Holding() if device == "cpu" else CudaGraphs()}
    return (
        ours.recorded(down, wavelet, mode, level, axes, packed=packed, **kind),
        ours.recorded(up, wavelet, mode, axes=axes, **kind),
        lambda x: down(x, wavelet, mode, level, axes),
        lambda c: up(c, wavelet, mode, axes),
    )


def tree(coeffs):
    return coeffs.unpack() if isinstance(coeffs, ours.Packed) else coeffs


def same(found, wanted):
    found, wanted = tree(found), tree(wanted)
    assert torch.utils._pytree.tree_structure(found) == torch.utils._pytree.tree_structure(wanted)
    for f, w in zip(flat(found), flat(wanted), strict=True):
        assert (f.dtype, f.device, f.shape) == (w.dtype, w.device, w.shape)
        assert torch.equal(f, w)


def on(device, key="", shape=SHAPE, dtype=torch.float64):
    return random(*shape, key=key, dtype=dtype).to(device)


def ordered(coeffs):
    """The bands of planes in the order of their keys."""
    return [coeffs[0], *((v, h, d) for h, v, d in coeffs[1:])]
