"""Clocks and throttling as NVML tells them; without `pynvml` nothing is known, and rows say so."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

# Bits for a clock held down by heat, power or the board; idle and application clocks are not.
_BAD = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
# A power cap is how a GPU under full load normally runs: it is logged, samples are kept.
_DISCARD = 0x8 | 0x20 | 0x40 | 0x80


class Throttle:
    """Watches one device: `look()` says whether samples around now must be dropped."""

    def __init__(self, device: Any) -> None:
        self.log: dict[str, Any] = {}
        self._nvml: Any = None
        self._handle: Any = None
        self._device = device

    def __enter__(self) -> Throttle:
        if self._device.type == "cuda":
            with suppress(Exception):  # no NVML, no permission: then there is nothing to watch
                import pynvml
                import torch

                pynvml.nvmlInit()
                uuid = f"GPU-{torch.cuda.get_device_properties(self._device).uuid}"
                self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
                self._nvml = pynvml
                self.log["sm_mhz_before"] = self._clock()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._nvml is not None:
            with suppress(Exception):
                self.log["sm_mhz_after"] = self._clock()
                self._nvml.nvmlShutdown()

    def _clock(self) -> int:
        return int(self._nvml.nvmlDeviceGetClockInfo(self._handle, self._nvml.NVML_CLOCK_SM))

    def look(self) -> bool:
        if self._nvml is None:
            return False
        try:
            reasons = int(self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle))
        except Exception:
            return False
        for bit, name in _BAD.items():
            if reasons & bit:
                self.log.setdefault("throttled", {}).setdefault(name, 0)
                self.log["throttled"][name] += 1
        return bool(reasons & _DISCARD)
