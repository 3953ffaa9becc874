"""Global torch state that changes numbers or time: recorded, and never changed unseen.

A perf file that switches deterministic mode on while it is imported makes every `torch.empty` of
the run fill itself; such a change is an error that names the
file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

State = dict[str, str | bool | float]

# What torch starts with, for the case that a file imports torch first and then changes it.
DEFAULTS: State = {
    "deterministic_algorithms": False,
    "fill_uninitialized_memory": True,
    "default_dtype": "torch.float32",
    "float32_matmul_precision": "highest",
    "cuda_matmul_tf32": False,
    "cudnn_tf32": True,
    "cudnn_benchmark": False,
    "autocast_cpu": False,
    "autocast_cuda": False,
    "grad_enabled": True,
    "inference_mode": False,
    "profiler": False,
    "anomaly_mode": False,
    "flush_denormal": False,
}
# NVIDIA's containers set this; it is what torch starts with there.
if os.environ.get("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE") == "1":
    DEFAULTS |= {"float32_matmul_precision": "high", "cuda_matmul_tf32": True}


def torch_state() -> State:
    """The state now; the defaults as long as nobody has imported torch."""
    if "torch" not in sys.modules:
        return dict(DEFAULTS)
    import torch

    return {
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "fill_uninitialized_memory": bool(_deterministic().fill_uninitialized_memory),
        "default_dtype": str(torch.get_default_dtype()),
        "float32_matmul_precision": _read(torch.get_float32_matmul_precision),
        "cuda_matmul_tf32": _read(lambda: bool(torch.backends.cuda.matmul.allow_tf32)),
        "cudnn_tf32": _read(lambda: bool(torch.backends.cudnn.allow_tf32)),
        "cudnn_benchmark": bool(torch.backends.cudnn.benchmark),
        "autocast_cpu": torch.is_autocast_enabled("cpu"),
        "autocast_cuda": torch.is_autocast_enabled("cuda"),
        "grad_enabled": torch.is_grad_enabled(),
        "inference_mode": torch.is_inference_mode_enabled(),
        "profiler": bool(torch._C._autograd._profiler_enabled()),
        "anomaly_mode": torch.is_anomaly_enabled(),
        "flush_denormal": _flushes_denormals(torch),
        "threads": torch.get_num_threads(),
    }


def _read(setting: Callable[[], str | bool]) -> str | bool:
    """torch refuses to name one precision after `torch.backends...fp32_precision` was set."""
    try:
        return setting()
    except RuntimeError:
        return "set by fp32_precision"


def restore(state: State) -> None:
    """Put back what can be set, so that one case's change does not reach the next."""
    import torch

    torch.use_deterministic_algorithms(bool(state["deterministic_algorithms"]))
    _deterministic().fill_uninitialized_memory = bool(state["fill_uninitialized_memory"])
    torch.set_default_dtype(getattr(torch, str(state["default_dtype"]).removeprefix("torch.")))
    precision = str(state["float32_matmul_precision"])
    torch.set_float32_matmul_precision(precision if " " not in precision else "highest")
    torch.backends.cudnn.allow_tf32 = bool(state["cudnn_tf32"])
    torch.backends.cudnn.benchmark = bool(state["cudnn_benchmark"])
    torch.set_autocast_enabled("cpu", bool(state["autocast_cpu"]))
    torch.set_autocast_enabled("cuda", bool(state["autocast_cuda"]))
    torch.set_grad_enabled(bool(state["grad_enabled"]))
    torch.set_flush_denormal(bool(state["flush_denormal"]))
    torch.autograd.set_detect_anomaly(bool(state["anomaly_mode"]))
    torch.set_num_threads(int(state["threads"]))


def _deterministic() -> Any:
    """torch.utils.deterministic, whose attributes torch does not declare."""
    import torch.utils.deterministic

    return torch.utils.deterministic


def _flushes_denormals(torch: Any) -> bool:
    """torch has a setter only; what it does to a product tells."""
    tiny = torch.full((1,), 2.0**-126, dtype=torch.float32, device="cpu")
    return not bool((tiny * 0.5).item())


def changes(before: State, after: State) -> dict[str, str]:
    """What differs, as `before -> after` by name."""
    return {
        name: f"{before[name]} -> {after[name]}"
        for name in before.keys() & after.keys()
        if before[name] != after[name]
    }


def import_changes(before: State, after: State) -> dict[str, str]:
    """The same without the threads, which each case sets for itself."""
    return {name: what for name, what in changes(before, after).items() if name in DEFAULTS}
