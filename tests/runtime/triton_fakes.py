"""Triton's own launch path without a GPU and without compiling: what reaches its C launcher is
written down.

`JITFunction.run`, its binder and its cache, `CompiledKernel` and `CudaLauncher.__call__` are
Triton's own. Only the compiler, the driver and the C function at the very end are stood in for.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import torch

TARGET = ("cuda", 90, 32)
Metadata = namedtuple(
    "Metadata", ["num_warps", "num_ctas", "shared", "warp_size", "target", "name"]
)


class Driver:
    """As much of a driver as a launch asks for; `launches` has what its C function was given."""

    def __init__(self) -> None:
        self.device = 0
        self.stream = 7
        self.loaded = 0
        self.launches: list[dict[str, Any]] = []
        self.sources: dict[int, Any] = {}  # of the kernels, by what a launch names as function
        self.utils = self
        self.get_current_device = lambda: self.device
        self.get_current_stream = lambda device: (self.stream, device)
        self.launcher_cls = lambda source, metadata: launcher_class()(self, source)

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget(*TARGET)

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {"max_shared_mem": 232448}

    def load_binary(self, *arguments: Any) -> tuple[Any, ...]:
        self.loaded += 1
        return object(), self.loaded, 32, 0, 1024

    def unload_module(self, module: Any) -> None:
        pass


def launcher_class() -> Any:
    """Triton's launcher, with the C function at its end replaced."""
    from triton.backends.nvidia.driver import CudaLauncher

    class Launcher(CudaLauncher):  # type: ignore[misc]
        def __init__(self, driver: Driver, source: Any) -> None:
            self.num_ctas = 1
            self.global_scratch_size = self.profile_scratch_size = 0
            self.global_scratch_align = self.profile_scratch_align = 1
            self.launch_cooperative_grid = self.launch_pdl = False
            self.gsan_enabled = False
            self.arg_annotations, self.kernel_signature = object(), object()
            self.launch = recorder(driver, self)

    return Launcher


def recorder(driver: Driver, launcher: Any) -> Any:
    """The C function of the installed version."""
    from rightfast.runtime.triton_forms import FORMS, version

    def flat(*given: Any) -> None:
        stream, function, *flags, meta, _, enter, leave = given[3:13]
        note(given[:3], stream, function, (*flags, meta), given[13:], enter, leave)

    def packed(*given: Any) -> None:
        stream, function, coop, pdl, meta, _, enter, leave, *scratch = given[3:13]
        annotations, signature, values = given[13:]
        assert annotations is launcher.arg_annotations
        assert signature is launcher.kernel_signature
        note(given[:3], stream, function, (coop, pdl, *scratch, meta), values, enter, leave)

    def note(
        grid: Any, stream: Any, function: Any, flags: Any, values: Any, enter: Any, leave: Any
    ) -> None:
        if enter is not None:
            enter({})
        launch = {"grid": grid, "stream": stream, "function": function, "flags": flags}
        values_read = tuple(map(plain, values))
        driver.launches.append({**launch, "values": values_read, "raw": values})
        if leave is not None:
            leave({})

    return flat if FORMS[version()].call == "flat" else packed


def plain(value: Any) -> Any:
    """What the C function reads of an argument, with its class."""
    if isinstance(value, torch.Tensor):
        return value.data_ptr()
    return value.__class__, value


def compiler(driver: Driver) -> Any:
    """In place of Triton's compiler: Triton's own compiled kernel, without machine code."""
    from triton.compiler.compiler import CompiledKernel

    class Kernel(CompiledKernel):  # type: ignore[misc]
        def __init__(self) -> None:
            pass

        def __del__(self) -> None:  # there is no module to unload
            pass

    def compile_nothing(source: Any, target: Any = None, options: Any = None, **_: Any) -> Any:
        kernel = Kernel()
        warps = options["num_warps"]
        kernel.metadata = Metadata(warps, 1, 0, 32, target, source.fn.__name__)
        kernel.packed_metadata = (warps, 1, 0)
        kernel.src, kernel.hash, kernel.name = source, "", source.fn.__name__
        kernel.asm, kernel.kernel, kernel.metadata_group = {}, b"", {}
        kernel.module = kernel._module_pid = kernel.function = kernel._run = None
        kernel.options = options
        return kernel

    return compile_nothing


def prepare(kernel: Any, driver: Driver, *devices: int) -> None:
    """Forget what a kernel has compiled, and compile nothing from here on."""
    kernel.device_caches.clear()
    kernel.used_global_vals = {}
    kernel.hash = None
    for device in devices or (0,):
        kernel.device_caches[device]
    kernel.compile = compiler(driver)
