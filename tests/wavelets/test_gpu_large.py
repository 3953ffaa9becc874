"""Wavelets on a GPU of tensors that are large: offsets beyond 32 bits, and memory in between."""

import gc

import pytest
import torch

from rightfast import wavelets as ours
from rightfast.runtime import choices
from rightfast.wavelets.gpu_tuned import CUTS

from .gpu_cases import ON_A_GPU, flat

pytestmark = [*ON_A_GPU, pytest.mark.slow]

# Name, wavelet, shape in float16, the dimension that is cut for the comparison.
LARGE = {
    "many lines": ("wavedec", "db2", (2**15 + 1, 2**16), 0),
    "one line": ("wavedec", "db2", (2**31 + 64,), 0),
    "one line, twice its length": ("wavedec", "db2", (2**30 + 64,), 0),
    "few lines side by side": ("columns", "db2", (2, 2**30 + 64), 1),
    "many planes": ("wavedec2", "db2", (2**13 + 1, 2**9, 2**9), 0),
    "one plane": ("wavedec2", "db2", (2**16 + 64, 2**15 + 64), 0),
    "haar, many lines": ("wavedec", "haar", (2**15 + 1, 2**16), 0),
    "haar, one plane": ("wavedec2", "haar", (2**16 + 64, 2**15 + 64), 0),
}


@pytest.fixture(autouse=True)
def _memory():
    """Each test starts without what others left."""
    gc.collect()
    torch.cuda.empty_cache()
    yield
    gc.collect()
    torch.cuda.empty_cache()


@pytest.mark.parametrize("case", LARGE)
def test_more_than_32_bits_can_count(case):
    name, wavelet, shape, dim = LARGE[case]
    x = torch.empty(shape, dtype=torch.float16, device="cuda").normal_()
    bands = down(name, x, wavelet)
    assert ours.served() == "kernel"
    halved = flat(bands)[0].shape[dim] != shape[dim]
    for start in (0, shape[dim] // 3 // 32 * 32, shape[dim] - 64):
        # Up to 64 samples, an even number of them in front; inside, the ends are not the same.
        piece = x.narrow(dim, start, min(64, shape[dim] - start)).contiguous()
        inside = start and start + 64 < shape[dim]
        for band, wanted in zip(flat(bands), flat(down(name, piece, wavelet)), strict=True):
            first = start // 2 if halved else start
            if start + 64 >= shape[dim]:
                first = band.shape[dim] - wanted.shape[dim]
            found = band.narrow(dim, first, wanted.shape[dim])
            cut = (2 if start else 0), (2 if inside or not start else 0)
            kept = slice(cut[0], wanted.shape[dim] - cut[1]) if halved else slice(None)
            index = (slice(None),) * dim + (kept,)
            torch.testing.assert_close(found[index], wanted[index], rtol=2e-3, atol=2e-3)
    back = up(name, bands, wavelet)
    assert ours.served() == "kernel"
    assert float(back.sub_(x).abs_().max()) < 0.02


def test_gradients_of_a_plane_that_32_bits_cannot_count():
    """The ends, which are folded back, too."""
    x = torch.empty(2**16 + 64, 2**15 + 64, dtype=torch.float16, device="cuda").normal_()

    def gradient(x):
        x.requires_grad_()
        bands = flat(ours.wavedec2(x, "db2", "reflect", 1))
        return torch.autograd.grad(bands, x, [band.detach() for band in bands])[0]

    found = gradient(x)
    for piece, kept in ((slice(64), slice(56)), (slice(-64, None), slice(8, None))):
        wanted = gradient(x.detach()[piece].clone())[kept]
        torch.testing.assert_close(found[piece][kept], wanted, rtol=2e-3, atol=5e-3)


def down(name, x, wavelet):
    if name == "columns":
        return ours.wavedec(x, wavelet, level=1, axis=0)
    return getattr(ours, name)(x, wavelet, level=1)


def up(name, bands, wavelet):
    if name == "columns":
        return ours.waverec(bands, wavelet, axis=0)
    return getattr(ours, name.replace("dec", "rec"))(bands, wavelet)


PEAKS = {
    "planes": ("wavedec2", "db4", (16, 1024, 2048)),
    "odd planes": ("wavedec2", "db4", (16, 1023, 2047)),
    "planes of halves": ("wavedec2", "db4", (16, 1024, 4096)),
    "planes, haar": ("wavedec2", "haar", (16, 1024, 2048)),
    "lines": ("wavedec", "db4", (1024, 2**15)),
    "volumes": ("wavedecn", "db2", (4, 256, 256, 256)),
    "volumes of halves": ("wavedecn", "db2", (4, 256, 256, 256)),
    "volumes, haar": ("wavedecn", "haar", (4, 256, 256, 256)),
}
MOST = 1.35  # times data and results


@pytest.mark.parametrize("case", PEAKS)
def test_memory_beside_data_and_results(case):
    name, wavelet, shape = PEAKS[case]
    dtype = torch.float16 if "halves" in case else torch.float32
    x = torch.randn(shape, device="cuda", dtype=dtype)
    axes = {} if name != "wavedecn" else {"axes": (1, 2, 3)}
    function, inverse = getattr(ours, name), getattr(ours, name.replace("dec", "rec"))
    for _ in range(2):  # the second call goes by what the first one found
        bands, peak = at_peak(lambda: function(x, wavelet, "symmetric", 3, **axes))
        size = x.nbytes + sum(band.nbytes for band in flat(bands))
        assert x.nbytes + peak <= MOST * size, f"down: {(x.nbytes + peak) / size:.2f}"
        back, peak = at_peak(lambda bands=bands: inverse(bands, wavelet, **axes))
        given = sum(band.nbytes for band in flat(bands))
        size = given + back.nbytes
        assert given + peak <= MOST * size, f"up: {(given + peak) / size:.2f}"


def at_peak(call):
    """What a call returns, and the most memory in bytes that it had at a time."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    found = call()
    torch.cuda.synchronize()
    return found, torch.cuda.max_memory_allocated() - before


def test_cuts_are_tried_on_a_gpu():
    """Whatever is chosen agrees with the usual cut, which the tuner has seen to."""
    x = torch.randn(3, 1024, 1024, device="cuda")
    usual = ours.wavedec2(x, "bior2.2", level=3)
    with ours.tuned():
        found = ours.wavedec2(x, "bior2.2", level=3)
        back = ours.waverec2(found, "bior2.2")
    torch.testing.assert_close(flat(found), flat(usual), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(back, x, rtol=1e-4, atol=1e-4)
    down, up = choices()[-2:]
    assert set(down.names()) == set(up.names()) == set(CUTS)
    assert not down.refused
    assert not up.refused
