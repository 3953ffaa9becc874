"""Fill memory that nobody wrote, so that an unwritten element shows as a huge number or NaN.

On glibc, `mallopt(M_PERTURB)` fills every block that malloc hands out (seen to reach all CPU
blocks of torch, from glibc 2.38 on those from about 1 KB up; numpy's from 32 KB up). Elsewhere
torch's own fill of uninitialised memory is used, which needs its deterministic mode. Both are
switched off again before anything is timed. On CUDA the free blocks of the caching allocator are
filled.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_M_PERTURB = -6
# glibc fills new blocks with the complement: 0xFE bytes are -1.7e38 in float32 and bfloat16,
# NaN in float16, -5e303 in float64.
_PERTURB_BYTE = 0x01


@functools.cache
def _perturb() -> Callable[[int], None] | None:
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018  only glibc has it
        malloc, free, mallopt = libc.malloc, libc.free, libc.mallopt
    except (OSError, AttributeError, TypeError):
        return None
    malloc.restype, malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    free.restype, free.argtypes = None, (ctypes.c_void_p,)

    def perturb(byte: int) -> None:
        mallopt(_M_PERTURB, byte)
        # Small blocks that were given back before and are not sorted yet would be handed out as
        # they are; a large request sorts them first (seen: 4 of 9000 small blocks, then none).
        free(malloc(2**20))

    return perturb


# The most CUDA memory in use before our last fill, and with it.
_peaks = (0, 0)


@contextmanager
def poisoned() -> Iterator[None]:
    """Within this context fresh memory holds poison."""
    _fill_cuda()
    perturb = _perturb()
    if perturb is None:
        with _torch_fill():
            yield
        return
    perturb(_PERTURB_BYTE)
    try:
        yield
    finally:
        perturb(0)


def _fill_cuda() -> None:
    """Poison what the caching allocator will hand out next: blocks are taken, filled, given back.

    Large requests are cut from a large free block, small ones (up to 1 MiB) from segments of 2 MiB.
    What is filled is measured by the most that was ever in use, our own fill apart, and is less
    where another process has taken the memory meanwhile.
    """
    global _peaks
    torch = sys.modules.get("torch")
    if torch is None or not (torch.cuda.is_available() and torch.cuda.is_initialized()):
        return
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    peak = torch.cuda.max_memory_allocated()
    theirs, ours = _peaks
    peak = theirs if peak == ours else peak
    large = min(free // 4, 64 * 2**20 + 2 * peak)
    blocks = [_filled(size) for size in [large] + [2**20] * 64]
    torch.cuda.synchronize()
    _peaks = peak, torch.cuda.max_memory_allocated()
    del blocks


def _filled(size: int) -> Any:
    torch = sys.modules["torch"]
    try:
        return torch.full((size,), 0xFE, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        return _filled(size // 2) if size > 2**21 else None


@contextmanager
def _torch_fill() -> Iterator[None]:
    import torch
    import torch.utils.deterministic

    deterministic: Any = torch.utils.deterministic

    mode = torch.get_deterministic_debug_mode()
    fill = deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        deterministic.fill_uninitialized_memory = fill
        torch.set_deterministic_debug_mode(mode)
