"""The clock that fits a device, and the ceilings measured with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .clock_cpu import Budget, Sampler, Target
from .clock_cuda import DeviceSampler


def sampler(target: Target, budget: Budget, device: str, seed: int = 0) -> Sampler | DeviceSampler:
    """A warmed-up sampler of `target` on `device` (`cpu`, `cuda`, `cuda:1`, `xpu`, ...)."""
    import torch

    if device == "cpu":
        return Sampler(target, budget, seed)
    return DeviceSampler(target, budget, torch.device(device), seed)


def quick(call: Callable[[], Any], device: str, seconds: float = 0.02) -> float:
    """Seconds of one call, as a ceiling: a machine's best should not be slowed by noise."""
    target = Target([call], _forget)
    samples = sorted(sampler(target, Budget(seconds, 12), device).block().samples)
    return samples[len(samples) // 4]


def _forget(which: int, returned: Any) -> None:
    """Nothing is kept of a call that only measures the machine."""
