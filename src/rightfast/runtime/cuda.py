"""CUDA graphs: the backend for work on a GPU."""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor

from rightfast.runtime.backend import Recording
from rightfast.runtime.watch import Watch, watched

T = TypeVar("T")


class CudaGraphs:
    """The backend for CUDA: each recording is a `torch.cuda.CUDAGraph` with a pool of its own.

    A capture neither waits for the device nor empties the allocator's cache, both of which
    `torch.cuda.graph` does. Only this thread is held to what a capture allows.
    """

    device = "cuda"

    def __init__(self) -> None:
        self._sides: dict[int, torch.cuda.Stream] = {}
        self._last: torch.cuda.Stream | None = None
        self._here: tuple[int, int] | None = None  # the device and the handle of that stream

    def capturing(self) -> bool:
        if watched():
            return True
        return _started() and torch.cuda.is_current_stream_capturing()

    def settings(self) -> tuple[object, ...]:
        return (torch._C._cuda_getDevice(),) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]

    def refuses(self, tensors: Sequence[Tensor]) -> str | None:
        if not torch.cuda.is_available():
            return "there is no CUDA device; Tape() records on the CPU, for tests"
        here = torch.cuda.current_device()
        for tensor in tensors:
            if not tensor.is_cuda:
                return f"CUDA graphs record work on a GPU, not on {tensor.device}"
            if tensor.get_device() != here:
                return f"a tensor is on {tensor.device}, the current device is cuda:{here}"
        return None

    def order(self) -> None:
        """A call on another stream than the one before waits for it: they share memory."""
        # To make a Stream takes two microseconds, and most calls are where the last one was.
        device = torch._C._cuda_getDevice()
        here = device, torch._C._cuda_getCurrentRawStream(device)
        if self._here == here:
            return
        current = torch.cuda.current_stream()
        if self._last is not None:
            current.wait_stream(self._last)
        self._here, self._last = here, current

    def capture(
        self, body: Callable[[], T], known: Sequence[Tensor], fed: Sequence[Tensor]
    ) -> tuple[T, Recording]:
        graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
        current, side = torch.cuda.current_stream(), self._side()
        side.wait_stream(current)
        with _no_collection(), torch.cuda.stream(side):
            graph.capture_begin(pool, capture_error_mode="thread_local")
            try:
                with Watch(self.device, known, fed).watching():
                    result = body()
            except BaseException:
                _abandon(graph, pool)
                raise
            try:
                graph.capture_end()
            except RuntimeError:
                _leave_pool(pool)
                raise
        current.wait_stream(side)
        return result, graph

    def _side(self) -> torch.cuda.Stream:
        """A capture needs another stream than the default one."""
        return self._sides.setdefault(torch.cuda.current_device(), torch.cuda.Stream())  # type: ignore[no-untyped-call]


def _started() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


@contextmanager
def _no_collection() -> Iterator[None]:
    """A collection could free what the capturing thread must not free now."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _abandon(graph: torch.cuda.CUDAGraph, pool: Any) -> None:
    """End a capture whose work is not wanted; CUDA may have ended it as invalid already."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an empty graph
        try:
            graph.capture_end()
        except RuntimeError:
            _leave_pool(pool)


def _leave_pool(pool: Any) -> None:
    """Where CUDA calls a capture invalid, torch raises before it tells its allocator of the end:
    this stream would allocate from the pool for good, and no block would come back to it."""
    device = torch.cuda.current_device()
    for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):
        with contextlib.suppress(AttributeError, RuntimeError):  # done, or of another torch
            getattr(torch._C, name)(device, pool)
