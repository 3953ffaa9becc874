"""Fresh memory holds poison within the context, and is left alone outside."""

from __future__ import annotations

import platform
import random

import numpy as np
import pytest
import torch

from pytest_rightfast import poison
from pytest_rightfast.poison import poisoned

# From 2.38 on glibc serves small aligned blocks from its thread cache, which M_PERTURB leaves out.
NEW_GLIBC = tuple(map(int, (platform.libc_ver()[1] or "0.0").split(".")[:2])) >= (2, 38)
SMALL = 300
SIZES = [1, 2, 7, 64, 300, 5_000, 40_000, 300_000, 3_000_000]


def reused(make, size):
    """What a fresh block holds after a block of that size was full of sevens and given back."""
    make(size)[:] = 7
    return make(size)


def torch_empty(size):
    return torch.empty(size, dtype=torch.float32)


def numpy_empty(size):
    return np.empty(size, "f4")


@pytest.mark.parametrize("size", SIZES)
def test_torch_blocks(size):
    if NEW_GLIBC and size < SMALL:
        pytest.skip("this glibc serves small blocks from a cache that poison does not reach")
    with poisoned():
        for _ in range(3):
            block = reused(torch_empty, size)
            assert (block.isnan() | (block.abs() > 1e30)).all()


@pytest.mark.parametrize("size", [size for size in SIZES if size * 4 >= 32 * 1024])
def test_large_numpy_blocks(size):
    with poisoned():
        block = reused(numpy_empty, size)
        assert (np.isnan(block) | (np.abs(block) > 1e30)).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32])
def test_no_dtype_takes_it_for_a_usual_value(dtype):
    with poisoned():
        block = torch.empty(1000, dtype=dtype)
        assert not (block.abs() < 1e6).any()


@pytest.mark.skipif(NEW_GLIBC, reason="this glibc serves small blocks from an unpoisoned cache")
def test_small_blocks_of_a_worn_heap():
    """Blocks of many sizes, given back in another order before and within the context."""
    chosen = random.Random(1)
    for _ in range(2000):
        worn = [torch.ones(chosen.randint(1, 200)) for _ in range(chosen.randint(1, 60))]
        chosen.shuffle(worn)
        del worn[::2]
        size = chosen.choice([1, 2, 3, 7, 16, 60, 120, 250])
        with poisoned():
            blocks = [torch.empty(size), torch.empty(size)]
            del worn
            blocks.append(torch.empty(size))
        assert all((block.isnan() | (block.abs() > 1e30)).all() for block in blocks)


def test_memory_that_is_asked_for_as_zeros_is_zero():
    with poisoned():
        for size in SIZES:
            reused(torch_empty, size)
            assert not torch.zeros(size).any()
            assert not np.zeros(size).any()


def test_switched_off_afterwards():
    """Filling costs time: what is timed must not pay for it."""
    with pytest.raises(KeyError), poisoned():
        raise KeyError
    blocks = [reused(torch_empty, 40_000) for _ in range(3)]
    assert any(not (block.abs() > 1e30).all() for block in blocks)


def test_without_glibc(monkeypatch):
    """torch's own fill, and the mode that it needs put back."""
    monkeypatch.setattr(poison, "_perturb", lambda: None)
    with poisoned():
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.empty(1000).isnan().all()
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_deterministic_debug_mode() == 0


class Card:
    """torch on a GPU of 64 GiB, of which others leave `free`: what is asked of it, in bytes."""

    OutOfMemoryError = torch.OutOfMemoryError
    uint8 = torch.uint8

    def __init__(self, free=2**36):
        self.cuda, self.free, self.peak, self.filled = self, free, 0, []
        for name in ("is_available", "is_initialized", "synchronize", "empty_cache"):
            setattr(self, name, lambda: True)

    def mem_get_info(self):
        return 2**36, 2**36

    def max_memory_allocated(self):
        return self.peak

    def full(self, shape, value, dtype, device):
        if shape[0] > self.free:
            raise self.OutOfMemoryError
        self.filled.append(shape[0])
        self.peak = max(self.peak, sum(self.filled))
        return object()

    def fill(self, monkeypatch):
        """The largest block of one fill."""
        self.filled = []
        monkeypatch.setitem(poison.sys.modules, "torch", self)
        poison._fill_cuda()
        return max(self.filled)


@pytest.fixture
def unfilled(monkeypatch):
    monkeypatch.setattr(poison, "_peaks", (0, 0))


def test_on_a_gpu_our_own_fill_is_no_reason_for_a_larger_one(monkeypatch, unfilled):
    card = Card()
    card.peak = 2**20
    first = card.fill(monkeypatch)
    assert [card.fill(monkeypatch) for _ in range(5)] == [first] * 5
    card.peak = 2**30  # theirs
    assert card.fill(monkeypatch) == 2**26 + 2**31


def test_on_a_gpu_that_another_process_fills_less_is_taken(monkeypatch, unfilled):
    card = Card(free=2**23)
    card.peak = 2**32
    assert 2**21 < card.fill(monkeypatch) <= 2**23
    assert len(card.filled) == 65
