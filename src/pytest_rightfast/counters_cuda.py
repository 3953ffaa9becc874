"""What one call asks of CUDA, read from the profiler's trace of the runtime's own calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Counter -> beginnings of the names of runtime and driver calls.
_CALLS = {
    "launches": ("cudaLaunchKernel", "cuLaunchKernel", "cudaLaunchCooperativeKernel"),
    "graph_launches": ("cudaGraphLaunch", "cuGraphLaunch"),
    "recordings": ("cudaStreamBeginCapture", "cuStreamBeginCapture"),
    "copies": ("cudaMemcpy", "cuMemcpy"),
    "memsets": ("cudaMemset", "cuMemset"),
    "synchronizations": (
        "cudaDeviceSynchronize",
        "cudaStreamSynchronize",
        "cudaEventSynchronize",
        "cuStreamSynchronize",
        "cuCtxSynchronize",
    ),
    "device_mallocs": ("cudaMalloc", "cuMemCreate"),
}


def counts(call: Callable[[], Any], device: Any) -> dict[str, int]:
    """Launches, copies, synchronizations, recordings and allocations of one call."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize(device)
    before = torch.cuda.memory_stats(device)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        with torch.profiler.record_function("rightfast_call"):
            call()
        after = torch.cuda.memory_stats(device)
        torch.cuda.synchronize(device)
    events = recorded.profiler.kineto_results.events()
    names = _within(events, "rightfast_call")
    found = {
        counter: sum(name.startswith(prefixes) for name in names)
        for counter, prefixes in _CALLS.items()
    }
    for counter, key in (
        ("allocations", "allocation.all.allocated"),
        ("allocated_bytes", "allocated_bytes.all.allocated"),
    ):
        found[counter] = after.get(key, 0) - before.get(key, 0)
    return found


def _within(events: list[Any], label: str) -> list[str]:
    """Names of the host's events between the start and the end of the labelled range."""
    marks = [e for e in events if e.name() == label and str(e.device_type()).endswith("CPU")]
    if not marks:
        return []
    start, end = marks[0].start_ns(), marks[0].end_ns()
    return [e.name() for e in events if start <= e.start_ns() <= end]
