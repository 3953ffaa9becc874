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
    size = max(float(x.abs().max()) for x in (*wanted, *map(wide, data)) if x.numel())
    for f, w in zip(found, wanted, strict=True):
        assert (f.device, f.dtype, f.shape) == (placed[0].device, data[0].dtype, w.shape)
        assert not w.numel() or float((wide(f) - w).abs().max()) <= tolerance * size
    if not INTERPRETED:
        for f, again in zip(found, flat(call(*placed)), strict=True):
            assert torch.equal(f, again)


def gradients(call, *data):
    """The gradients of the sum of the results, each times random numbers."""
    leaves = [x.detach().requires_grad_() for x in data]
    found = flat(call(*leaves))
    # Numbers that every dtype holds.
    weights = [random(*y.shape, key=i, dtype=torch.bfloat16).to(y) for i, y in enumerate(found)]
    return torch.autograd.grad(found, leaves, weights)
