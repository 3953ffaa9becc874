"""Triton's own launch path without a GPU and without compiling: what reaches its C launcher is
written down.

`JITFunction.run`, its binder and its cache, `CompiledKernel` and `CudaLauncher.__call__` are
Triton's own. Only the compiler, the driver and the C function at the very end are stood in for:
Triton's launcher, or the driver's `cuLaunchKernel` where a launch is made by `_launch.c`.
"""

from __future__ import annotations

import ctypes
from collections import namedtuple
from typing import Any

import torch

from rightfast.runtime.launch_native import Library

CPU = 1  # DLPack's number: memory of the host is this driver's
LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    *[ctypes.c_uint] * 7,  # blocks, threads, shared memory
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)
ERROR = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p))
# What a kernel reads of an argument, by its type in Triton's signature.
READS = {
    "i1": ctypes.c_uint8,
    "u1": ctypes.c_uint8,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "u64": ctypes.c_uint64,
    "fp32": ctypes.c_float,
    "fp64": ctypes.c_double,
}

TARGET = ("cuda", 90, 32)
Metadata = namedtuple(
    "Metadata", ["num_warps", "num_ctas", "shared", "warp_size", "target", "name"]
)


class Driver:
    """As much of a driver as a launch asks for; `launches` has what its C function was given.

    Attributes:
        status: what `cuLaunchKernel` returns; only 0 launches.
        sources: the kernels' sources, by what a launch names as function.
        clusters, shared: of the kernels that are compiled next.
        in_c: how many launches were made by `_launch.c`.
    """

    def __init__(self) -> None:
        self.device = 0
        self.stream = 7
        self.loaded = 0
        self.launches: list[dict[str, Any]] = []
        self.sources: dict[int, Any] = {}
        self.status = self.in_c = self.shared = 0
        self.clusters = 1
        self.utils = self
        self.get_current_device = lambda: self.device
        self.get_current_stream = lambda device: 100 * device + self.stream
        self.launcher_cls = self._launcher
        self._texts: dict[int, bytes] = {}
        self._functions = LAUNCH(self._launch), ERROR(self._error)

    @property
    def library(self) -> Library:
        """In place of libcuda's."""
        launch, error = (ctypes.cast(one, ctypes.c_void_p).value for one in self._functions)
        assert launch is not None
        assert error is not None
        return Library(launch, error, CPU)

    def _launcher(self, source: Any, metadata: Any) -> Any:
        self.sources[self.loaded + 1] = source  # its binary is loaded next
        return launcher_class()(self, source)

    def _launch(self, function: int, *given: Any) -> int:
        """`cuLaunchKernel`."""
        *grid, threads, threads_y, threads_z, shared, stream, parameters, extra = given
        if self.status or (threads_y, threads_z, extra) != (1, 1, None) or threads % 32:
            return self.status or 1
        kinds = passed(self.sources[function])
        types = [reads(kind) for _, kind in kinds] + [ctypes.c_void_p] * 2
        found = [kind.from_address(parameters[n]) for n, kind in enumerate(types)]
        scratch = [one.value for one in found[len(kinds) :]]
        self.in_c += 1
        self.launches.append(
            {
                "grid": tuple(grid),
                "stream": stream or 0,
                "function": function,
                "flags": (False, False, *scratch, (threads // 32, 1, shared)),
                "given": tuple((kind, bytes(one)) for (_, kind), one in zip(kinds, found)),
                "values": None,
                "raw": None,
            }
        )
        return 0

    def _error(self, status: int, text: Any) -> int:
        """`cuGetErrorString`, whose texts are there for good."""
        text[0] = self._texts.setdefault(status, f"error {status}".encode())
        return 0

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget(*TARGET)

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {"max_shared_mem": 2**20}

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
        if 0 in grid:  # Triton's launcher does nothing, either
            return
        launch = {"grid": grid, "stream": stream, "function": function, "flags": flags}
        kinds = passed(driver.sources[function])
        given = tuple((kind, encoded(kind, values[place])) for place, kind in kinds)
        values_read = tuple(map(plain, values))
        driver.launches.append({**launch, "given": given, "values": values_read, "raw": values})
        if leave is not None:
            leave({})

    return flat if FORMS[version()].call == "flat" else packed


def plain(value: Any) -> Any:
    """What the C function reads of an argument, with its class."""
    if isinstance(value, torch.Tensor):
        return value.data_ptr()
    return value.__class__, value


def passed(source: Any) -> list[tuple[int, str]]:
    """Place and type of the arguments that the kernel is given: constants are compiled in."""
    kinds = enumerate(source.signature.values())
    return [(place, kind) for place, kind in kinds if kind != "constexpr"]


def reads(kind: Any) -> Any:
    """What a kernel reads of an argument of this type."""
    return ctypes.c_uint64 if kind.startswith("*") else READS[kind]


def encoded(kind: Any, value: Any) -> Any:
    """The bytes that the kernel reads; what Triton alone packs, or refuses, as it is."""
    if isinstance(value, torch.Tensor):
        value = value.data_ptr()
    try:
        return bytes(reads(kind)(0 if value is None else value))
    except (AttributeError, TypeError):  # a tuple; not of the type that an annotation says
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
        packed = (warps, driver.clusters, driver.shared)
        kernel.metadata = Metadata(*packed, 32, target, source.fn.__name__)
        kernel.packed_metadata = packed
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
