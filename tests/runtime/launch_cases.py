"""Kernels of every structure that Triton knows, and arguments of every kind; never compiled."""

from __future__ import annotations

import inspect
import sys

import pytest
import torch

from rightfast.runtime.triton_forms import FORMS, version

triton = pytest.importorskip("triton", minversion="3.6", exc_type=ImportError)
tl = pytest.importorskip("triton.language")

SCALE = 2.0  # a global that one kernel reads


@triton.jit
def scale_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) * 2.0, at < n)


@triton.jit
def pair_kernel(a, b):
    pass


@triton.jit(do_not_specialize=["b"])
def value_kernel(a, b):
    pass


@triton.jit(do_not_specialize_on_alignment=["a", "b"])
def alignment_kernel(a, b):
    pass


@triton.jit
def annotated_kernel(a: tl.const, b: tl.int64, c: tl.float32 = 1.0):
    pass


@triton.jit
def meta_kernel(a, FIRST: tl.constexpr, b=16, SECOND: tl.constexpr = None):
    pass


@triton.jit
def global_kernel(a):
    tl.store(a, SCALE)


@triton.jit
def one_kernel(a, BLOCK: tl.constexpr):
    pass


@triton.jit
def four_kernel(a, b, c, d, BLOCK: tl.constexpr):
    pass


@triton.jit
def eight_kernel(a, b, c, d, e, f, g, h, BLOCK: tl.constexpr):
    pass


@triton.jit
def named_kernel(len, int, callable, tuple):
    pass


WIDE = {1: one_kernel, 4: four_kernel, 8: eight_kernel}
STRUCTURES = [pair_kernel, value_kernel, alignment_kernel, annotated_kernel, meta_kernel]
PLAIN = [pair_kernel, value_kernel, alignment_kernel]  # no annotation: keys are as coarse, too
MEMORY = torch.zeros(4096, dtype=torch.uint8)
DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.float8_e5m2,
    torch.float8_e4m3fn,
]
EDGES = [0, 1, 15, 16, 17, -1, -16, 2**31 - 16, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1]
EDGES += [2**63 - 1, 2**63 - 16, -(2**63), 2**63, 2**63 + 1, 2**64 - 16, 2**64 - 1]


def at(offset, dtype=torch.float32):
    """A tensor that begins `offset` elements after an address that 64 divides."""
    start = -MEMORY.data_ptr() % 64
    whole = MEMORY[start : start + 2048].view(dtype)
    return whole[offset : offset + 8]


TENSORS = [at(0, dtype) for dtype in DTYPES] + [at(1), at(4), at(1, torch.bfloat16), at(0)[:0]]
TENSORS += [torch.nn.Parameter(at(0)), torch.nn.Parameter(at(1))]
VALUES = [*TENSORS, *EDGES, True, False, None, 0.0, 1.0, float("nan")]


def key_maker(launch, *arguments):
    """The function that makes a launch's key: `key_of`, or its counterpart in C."""
    launch.key_of((1,), *arguments)  # as a first launch, fetches the driver
    if launch.native is None:
        return launch.key_of
    signature = inspect.signature(launch.kernel.fn)
    settings = [None] * len(FORMS[version()].knobs)

    def key_of(grid, *arguments):
        bound = signature.bind(*arguments)
        bound.apply_defaults()
        return launch.native.launcher.launch(grid, *settings, *bound.args)  # nothing is learnt yet

    return key_of


def own_key(kernel, arguments, named):
    """Triton's own key of a launch."""
    from triton.runtime.jit import compute_cache_key

    _, _, _, _, binder = kernel.device_caches[0]
    _, specialisation, options = binder(*arguments, **named)
    return compute_cache_key({}, specialisation, options)


def both(driver, launch, grid, *arguments, **meta):
    """Launch here, then by Triton; return the two launches as they reached the C function."""
    before = len(driver.launches)
    launch(grid, *arguments, **meta)
    launch.kernel[grid](*arguments, **launch.fixed, **meta)
    ours, theirs = driver.launches[before:]
    # Constants and classes reach Triton's launcher alone; "given" is what reaches the kernel.
    apart = {"raw": None, **({"values": None} if ours["values"] is None else {})}
    return {**ours, **apart}, {**theirs, **apart}


def calls_of(function, opaque=""):
    """The names of all functions that a call runs, Python's and C's, but for those within one."""
    calls, inside = [], False

    def profile(frame, event, argument):
        nonlocal inside
        if frame.f_code.co_name == opaque and event in ("call", "return"):
            inside = event == "call"
        elif inside:
            return
        elif event == "call":
            calls.append(frame.f_code.co_name)
        elif event == "c_call":
            calls.append(argument.__name__)

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return [name for name in calls if name != "setprofile"]
