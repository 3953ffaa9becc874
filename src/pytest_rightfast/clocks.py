"""The clock that fits a device, and the ceilings measured with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .clock_cpu import Budget, Sampler, Target
from .clock_cuda import DeviceSampler
from .errors import CaseError
from .leaves import tensors_of


def sampler(target: Target, budget: Budget, device: str, seed: int = 0) -> Sampler | DeviceSampler:
    """A warmed-up sampler of `target` on `device` (`cpu`, `cuda`, `cuda:1`, `xpu`, ...)."""
    import torch

    if device == "cpu":
        return Sampler(target, budget, seed)
    return DeviceSampler(target, budget, torch.device(device), seed)


def check_device(device: str, data: Any) -> None:
    """Raises CaseError if `device` would time a call that has nothing to do with it: all tensors
    among what the call was given and what it returned, `data`, are the CPU's.

    Such a call is over before the device's clock has begun, and would look very fast.
    """
    import torch
    from torch.utils._pytree import tree_leaves

    if torch.device(device).type == "cpu":
        return
    found = [tensor for leaf in tree_leaves(data) for _, tensor in tensors_of(leaf)]
    if found and all(tensor.device.type == "cpu" for tensor in found):
        raise CaseError(
            f"the run is on {device}, and this case is not",
            expected=f"tensors on {device} among its inputs, or in its result",
            got=f"{len(found)} on the CPU alone",
            remedy="draw the inputs on the device of the fixture perf_device; or run the case with "
            "--perf-device cpu",
        )


def quick(call: Callable[[], Any], device: str, seconds: float = 0.02) -> float:
    """Seconds of one call, as a ceiling: a machine's best should not be slowed by noise."""
    target = Target([call], _forget)
    samples = sorted(sampler(target, Budget(seconds, 12), device).block().samples)
    return samples[len(samples) // 4]


def _forget(which: int, returned: Any) -> None:
    """Nothing is kept of a call that only measures the machine."""
