"""Which kernels does a function launch, on what? Seen by running it once under the interpreter.

The run is a child process with `TRITON_INTERPRET=1`: there kernels run on CPU tensors, and every
launch is written down as Triton would specialise it. The parent, where kernels can be compiled,
turns the launches into `KernelSpec`s.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

from .errors import CaseError, Unsupported
from .triton_aot import KernelSpec

TYPES = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "bool": "i1",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
}
# Keywords of a launch that are no parameters of the kernel.
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion")


@dataclass(frozen=True)
class Launch:
    """One specialisation that was launched, and the grids it was launched with, in order."""

    spec: KernelSpec
    grids: tuple[tuple[int, ...], ...]


@dataclass
class _Seen:
    """A launch on its way from the child: the kernel by name."""

    module: str
    kernel: str
    signature: dict[str, str] = field(default_factory=dict)
    constexprs: dict[str, Any] = field(default_factory=dict)
    divisible: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    grid: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        return repr(replace(self, grid=()))


def record(function: Callable[[], Any], timeout: float = 600) -> list[Launch]:
    """Run a function of a module once under the interpreter and return what it launched.

    Args:
        function: without arguments, importable: at the top of a module, and so are the kernels.
        timeout: seconds for the child process.

    Raises:
        CaseError: the function cannot be found by name, failed, or launched nothing.
        Unsupported: an argument has a type that cannot be described (a tensor descriptor).
    """
    name = getattr(function, "__qualname__", "<lambda>")
    if "<" in name:
        raise CaseError(
            "record() needs a function that a child process can import",
            expected="a function at the top of a module",
            got=name,
            remedy="define it at the top of a module",
        )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "launches"
        source = inspect.getsourcefile(function) or ""
        command = [sys.executable, "-m", __name__, function.__module__, source, name, str(out)]
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
        if done.returncode:
            raise CaseError(
                f"{name} failed under the interpreter",
                expected="a run on CPU tensors",
                got=done.stderr.strip()[-2000:],
                remedy="make it run with TRITON_INTERPRET=1 on small CPU tensors",
            )
        seen = pickle.loads(out.read_bytes())
    if isinstance(seen, str):
        raise Unsupported(seen)
    if not seen:
        raise CaseError(
            f"{name} launched no Triton kernel",
            expected="a launch: kernel[grid](...)",
            remedy="launch the kernel inside of it, on every path",
        )
    return _launches(seen)


def _launches(seen: list[_Seen]) -> list[Launch]:
    by_key: dict[str, list[_Seen]] = {}
    for one in seen:
        by_key.setdefault(one.key, []).append(one)
    firsts = [group[0] for group in by_key.values()]
    launches = []
    for number, (first, group) in enumerate(zip(firsts, by_key.values())):
        several = sum(other.kernel == first.kernel for other in firsts) > 1
        options = dict(first.options)
        spec = KernelSpec(
            _kernel(first),
            first.signature,
            first.constexprs,
            options.pop("num_warps", 4),
            options.pop("num_stages", None),
            tuple(first.divisible),
            options,
            str(number) if several else "",
        )
        launches.append(Launch(spec, tuple(one.grid for one in group)))
    return launches


def _kernel(seen: _Seen) -> Any:
    """The compilable kernel in this process, below autotune and heuristics."""
    module = sys.modules.get(seen.module) or importlib.import_module(seen.module)
    kernel: Any = reduce(getattr, seen.kernel.split("."), module)
    while not hasattr(kernel, "arg_names") or type(kernel).__name__ in ("Autotuner", "Heuristics"):
        kernel = kernel.fn
    return kernel


def describe(fn: Callable[..., Any], args: Any, kwargs: Any, unspecialised: set[str]) -> _Seen:
    """What Triton would compile for these arguments.

    Raises:
        Unsupported: an argument is neither tensor, number nor None.
    """
    seen = _Seen(fn.__module__, fn.__qualname__)
    seen.options = {key: kwargs[key] for key in _OPTIONS if kwargs.get(key) is not None}
    parameters = inspect.signature(fn).parameters
    own = {key: value for key, value in kwargs.items() if key in parameters}
    bound = inspect.signature(fn).bind(*args, **own)
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        constant = "constexpr" in str(parameters[name].annotation)
        special = name not in unspecialised
        if constant or value is None or (special and type(value) is int and value == 1):
            seen.constexprs[name] = getattr(value, "value", value) if constant else value
            continue
        seen.signature[name] = _type(name, value)
        number = value.data_ptr() if hasattr(value, "data_ptr") else value
        if special and type(number) is int and number % 16 == 0:
            seen.divisible.append(name)
    return seen


def _type(name: str, value: Any) -> str:
    if hasattr(value, "data_ptr"):
        dtype = str(value.dtype).removeprefix("torch.")
        if dtype in TYPES:
            return f"*{TYPES[dtype]}"
    elif isinstance(value, bool):
        return "i1"
    elif isinstance(value, int):
        small = -(2**31) <= value < 2**31
        return "i32" if small else "i64" if value < 2**63 else "u64"
    elif isinstance(value, float):
        return "fp32"
    raise Unsupported(
        f"argument {name!r} is a {type(value).__name__}: write its KernelSpec by hand"
    )


def _child(module: str, source: str, name: str, out: str) -> None:
    seen: list[_Seen] = []
    _listen(seen)
    result: Any = seen
    try:
        reduce(getattr, name.split("."), _load(module, source))()
    except Unsupported as error:
        result = str(error)
    Path(out).write_bytes(pickle.dumps(result))


def _listen(seen: list[_Seen]) -> None:
    """Write down every launch from here on, where all ways of launching meet."""
    from triton.runtime.interpreter import GridExecutor, InterpretedFunction

    kernels: list[Any] = []
    prepare, execute = InterpretedFunction.__init__, GridExecutor.__call__

    def prepared(self: Any, *args: Any, **kwargs: Any) -> None:
        kernels.append(self)
        prepare(self, *args, **kwargs)

    def executed(self: Any, *args: Any, **kwargs: Any) -> Any:
        # An executor knows only the rewritten function; `rewrite` remembers it.
        kernel = next(kernel for kernel in kernels if kernel.rewrite() is self.fn)
        seen.append(_launch(kernel, self.grid, args, kwargs))
        return execute(self, *args, **kwargs)

    InterpretedFunction.__init__, GridExecutor.__call__ = prepared, executed


def _launch(kernel: Any, grid: Any, args: Any, kwargs: Any) -> _Seen:
    # Parameters are given by name or by place, as in Triton's own decorator.
    given = getattr(kernel, "kwargs", {}).get("do_not_specialize") or ()
    skipped = {kernel.arg_names[key] if isinstance(key, int) else key for key in given}
    one = describe(kernel.fn, args, kwargs, skipped)
    named = {key: value for key, value in kwargs.items() if key in kernel.arg_names}
    bound = inspect.signature(kernel.fn).bind(*args, **named)
    bound.apply_defaults()
    one.grid = tuple(grid(bound.arguments) if callable(grid) else grid)
    return one


def _load(module: str, source: str) -> Any:
    """By file, under its name: test modules are often not importable by name."""
    spec = importlib.util.spec_from_file_location(module, source)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    spec.loader.exec_module(loaded)
    return loaded


if __name__ == "__main__":
    # `-m` makes this file `__main__`; pickled classes must come from the module's own name.
    from pytest_rightfast import triton_recorder

    triton_recorder._child(*sys.argv[1:])
