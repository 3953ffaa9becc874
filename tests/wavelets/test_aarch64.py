"""The native kernels compiled for aarch64 and run under an emulator, against PyWavelets."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import pywt
import torch
from rightfast_kernels.dwt import native

from rightfast import wavelets as ours

from .common import MODES, assert_close, fits, leaves, norm, signal

KERNELS = Path(native.__file__).parent
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
SHAPES = [(2, n) for n in (1, 2, 5, 16, 33, 70)] + [
    (2, 131),
    (2, 21, 34),
    (2, 12, 17, 19),
    (2, 9, 133),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    built = tmp_path_factory.mktemp("aarch64") / "kernels"
    torch_headers = Path(torch.__path__[0]) / "include"
    needs_torch = ("operators.cpp", "empty.cpp")
    sources = [str(p) for p in KERNELS.glob("*.cpp") if p.name not in needs_torch]
    subprocess.run(
        [
            COMPILER, "-O3", "-std=c++17", "-static", "-DTORCH_TARGET_VERSION=0x020a000000000000",
            f"-I{torch_headers}", f"-I{torch_headers}/torch/csrc/api/include", f"-I{KERNELS}",
            str(Path(__file__).with_name("cross_driver.cpp")), *sources, "-o", str(built),
        ],
        check=True,
        timeout=900,
    )  # fmt: skip
    return built


def plan_of(shape, wavelet, mode, depth, down):
    """The plan for the kernels over all axes but the first."""
    filters = ours.Wavelet(wavelet).filter_bank
    lengths, sizes = [], shape[1:]
    for _ in range(depth):
        below = [ours.dwt_coeff_len(n, len(filters[0]), mode) for n in sizes]
        above = [2 * n - (0 if mode == "periodization" else len(filters[0]) - 2) for n in below]
        lengths.append(list(zip(sizes if down else above, below, strict=True)))
        sizes = below
    make, pair = (
        (native.analysis_axis, filters[:2]) if down else (native.synthesis_axis, filters[2:])
    )
    axes = [make(dim, mode, *pair) for dim in range(1 - len(shape), 0)]
    every = (1 << (1 << len(axes))) - 1  # bit k: band k
    return native.make_plan(axes, lengths, [every - 1] * (depth - 1) + [every])


def row(values):
    return f"{len(values)} " + " ".join(map(repr, map(float, values)))


def whole(values):
    return f"{len(values)} " + " ".join(map(str, values))


def text(down, wide, shape, plan, data):
    parts = [f"{int(down)} {int(wide)}", whole(shape), whole(plan.text.split())]
    return " ".join([*parts, str(len(data)), *(row(np.ravel(d)) for d in data)])


@pytest.mark.slow
@pytest.mark.skipif(
    not (shutil.which(COMPILER) and shutil.which(EMULATOR)),
    reason=f"needs {COMPILER} and {EMULATOR}: apt-get install g++-aarch64-linux-gnu qemu-user",
)
@pytest.mark.filterwarnings("ignore:Level value")
@pytest.mark.parametrize(
    "wavelet", ["haar", "db2", "bior1.3", "bior2.2", "rbio2.4", "bior4.4", "sym5"]
)
@pytest.mark.parametrize("wide", [True, False], ids=["float64", "float32"])
def test_the_kernels_on_aarch64(program, wide, wavelet):
    cases, expected = [], []
    for mode in MODES:
        for shape in SHAPES:
            depth = 2 if shape == (2, 21, 34) else 1
            if not fits(min(shape[1:]), mode):
                continue
            x = signal(*shape, key=wavelet + mode)
            axes = tuple(range(1, len(shape)))
            bands = pywt.wavedecn(x, wavelet, mode, depth, axes)
            cases.append(text(True, wide, shape, plan_of(shape, wavelet, mode, depth, True), [x]))
            expected.append(leaves(bands))
            if depth > 1:  # the kernel wants lows as long as the details, as only one level has
                continue
            plan, flat = plan_of(shape, wavelet, mode, depth, False), leaves(bands)
            cases.append(text(False, wide, flat[0].shape, plan, flat))
            expected.append([pywt.waverecn(bands, wavelet, mode, axes)])
    found = subprocess.run(
        [EMULATOR, str(program)],
        input="\n".join(cases),
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    got = iter(map(float, found.stdout.split()))
    for wanted in expected:
        scale = norm(*wanted)
        for w in wanted:
            mine = torch.tensor([next(got) for _ in range(w.size)], dtype=torch.float64)
            assert_close(mine.reshape(w.shape), w, scale, 1e-12 if wide else 1e-5)
    assert next(got, None) is None
