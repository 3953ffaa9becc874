"""What the tests of wavelets on a GPU share."""

import os

import pytest
import torch

from rightfast import wavelets as ours

from .common import signal

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
flat = torch.utils._pytree.tree_leaves
tree_map = torch.utils._pytree.tree_map
ON_A_GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(INTERPRETED or not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:Level value"),
]
WIDE = {torch.complex64: torch.complex128, torch.complex128: torch.complex128}


def random(*shape, key="", dtype=torch.float64):
    """The same random tensor of the CPU for the same arguments."""
    return torch.from_numpy(signal(*shape, key=key)).to(dtype)


def wide(x):
    """``x`` on the CPU, in double precision."""
    return x.detach().cpu().to(WIDE.get(x.dtype, torch.float64))


def by_torch(call, *data):
    """What torch operations on the CPU make of the data in double precision."""
    with ours.backend("torch"):
        return flat(call(*map(wide, data)))


def check(call, *data, tolerance=1e-12):
    """``call`` of the data on the GPU, or interpreted, is served by kernels and gives what it gives
    on the CPU, to ``tolerance`` times the largest number; on a GPU the second time, too."""
    placed = [x.to(DEVICE) for x in data]
    found = flat(call(*placed))
    assert ours.served() == "kernel"
    wanted = by_torch(call, *data)
    everything = [x for x in (*wanted, *map(wide, data)) if x.numel()]
    size = max((float(x.abs().max()) for x in everything), default=0)
    for f, w in zip(found, wanted, strict=True):
        assert (f.device, f.dtype, f.shape) == (placed[0].device, data[0].dtype, w.shape)
        assert not w.numel() or float((wide(f) - w).abs().max()) <= tolerance * size
    if not INTERPRETED:
        for f, again in zip(found, flat(call(*placed)), strict=True):
            assert torch.equal(f, again)


def check_marks(wavelet):
    """A negation that torch has only noted belongs to the values; so do zeros without memory."""
    x = random(2, 8)
    right = by_torch(lambda x: ours.wavedec(x, wavelet, level=1), x)
    zeros = torch._efficientzerotensor(right[0].shape, dtype=x.dtype, device=DEVICE)
    for _ in range(2):  # a call that was seen before takes a shorter way
        found = ours.wavedec(torch._neg_view(-x.to(DEVICE)), wavelet, level=1)
        assert ours.served() == "kernel"
        torch.testing.assert_close([band.cpu() for band in found], right)
        for bands in (
            [torch._neg_view(-band) for band in found],
            [found[0], torch._neg_view(-found[1])],
        ):
            torch.testing.assert_close(ours.waverec(bands, wavelet).cpu(), x)
        assert not any(band.any() for band in ours.wavedec(zeros, wavelet, level=1))
        back = ours.waverec([found[0], zeros], wavelet)
        torch.testing.assert_close(back, ours.waverec([found[0], None], wavelet))


def gradients(call, *data):
    """The gradients of the sum of the results, each times random numbers."""
    return recorded(call, *data)[-len(data) :]


def recorded(call, *data):
    """The results, then their `gradients`."""
    leaves = [x.detach().requires_grad_() for x in data]
    found = flat(call(*leaves))
    # Numbers that every dtype holds.
    weights = [random(*y.shape, key=i, dtype=torch.bfloat16).to(y) for i, y in enumerate(found)]
    return [*(y.detach() for y in found), *torch.autograd.grad(found, leaves, weights)]
