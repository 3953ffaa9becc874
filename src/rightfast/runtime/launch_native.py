"""Launches in C: `_launch.c` for one kernel, where it was built and torch lets it read tensors.

It knows the plain launches: tensors of the device, numbers, bools and None, constants that are
integers, bools or None, a grid that is a tuple or a list. For any other it returns None, and the
generated function goes on in Python, so that nothing is launched here that is not launched there.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rightfast.runtime.launch_source import Parameter
from rightfast.runtime.triton_forms import Entry, plain

try:
    built: Any = importlib.import_module("rightfast.runtime._launch")
except ImportError:  # a pure install
    built = None

enabled = True  # False: `launchable` makes launchers in Python, for tests and for measurements
MOST = 64  # arguments of a launch, as in _launch.h
CUDA = 2  # DLPack's number

# The kinds of argument that a kernel takes as a word, by the type that Triton gave it; a key has a
# letter for each. Other pairs come from annotations, and Triton's launcher checks or rounds them.
WORDS = {"i32": b"i1", "i64": b"i1l", "u64": b"u", "i1": b"b", "u1": b"b", "fp64": b"f"}


class Library(NamedTuple):
    """The addresses of the driver's functions, and the kind of device whose memory they take."""

    launch: int  # cuLaunchKernel
    error: int  # cuGetErrorString
    memory: int = CUDA


@functools.cache
def library() -> Library | None:
    """The functions of libcuda; looking for them starts nothing on a device."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        found = (cuda.cuLaunchKernel, cuda.cuGetErrorString)
    except (OSError, AttributeError):
        return None
    launch, error = (ctypes.cast(function, ctypes.c_void_p).value or 0 for function in found)
    return Library(launch, error)


class Native:
    """The launches of one kernel in C.

    Args:
        given: the parameters that come with a launch, in order.
        settings: how many settings of Triton come before them.
    """

    def __init__(self, given: Sequence[Parameter], settings: int, driver: Library) -> None:
        self._names = [one.name for one in given]
        self._settings, self._driver = settings, driver
        self._kinds = bytes(
            one.constexpr | one.specialize << 1 | (one.specialize and one.align) << 2
            for one in given
        )
        self.launcher: Any = None  # of _launch.c, from the first launch on
        self._made: list[Any] = []

    def connect(self, device: Callable[[], int], stream: Callable[[int], int]) -> Any:
        """The function in C: `launch(grid, *settings, *arguments)`.

        It returns the compiled kernel that it launched, or the key of the launch, for `learn`,
        where that is another one than before, or None where Python has to launch.
        """
        made = _launcher(self._kinds, self._settings, device, stream, self._driver)
        self._made.append(made)  # two threads may make their first launch at once
        self.launcher = self._made[0]
        return self.launcher.launch

    def learn(self, key: bytes, entry: Entry) -> None:
        """Launch this entry for this key from here on, or leave the key to Python."""
        passed = self._passed(key, entry)
        warps, _, shared = entry.metadata[:3]
        self.launcher.learn(key, passed, entry.compiled, entry.function, 32 * warps, shared)

    def _passed(self, key: bytes, entry: Entry) -> bytes | None:
        """How the kernel takes each argument; None: in a way that is Triton's own."""
        if not plain(entry):
            return None
        types = entry.compiled.src.signature
        passed = b""
        for place, name in enumerate(self._names, 1):
            kind, taken = key[8 * place], types.get(name)
            if taken == "constexpr":
                passed += b"-"
            elif taken == "fp32" and kind == ord("f"):
                passed += b"s"
            elif kind in WORDS.get(taken, b"p" if str(taken).startswith("*") else b""):
                passed += b"w"
            else:
                return None
        return passed


def native(given: Sequence[Parameter], settings: int) -> Native | None:
    """The launches of one kernel in C, or None where Python makes them."""
    driver = library()
    if not enabled or built is None or driver is None or len(given) > MOST:
        return None
    try:
        _launcher(b"", 0, None, None, driver)
    except (AttributeError, ValueError, TypeError):  # no table, a later one; built of other sources
        return None
    return Native(given, settings, driver)


def _launcher(kinds: bytes, settings: int, device: Any, stream: Any, driver: Library) -> Any:
    import torch

    table = torch.Tensor.__dlpack_c_exchange_api__
    classes = torch.Tensor, torch.nn.Parameter, torch.int8, torch.uint8
    return built.Launcher(kinds, settings, table, *classes, device, stream, *driver)
