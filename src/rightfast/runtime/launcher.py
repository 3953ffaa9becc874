"""A thin, cached path to a compiled Triton kernel.

    launch = launchable(add_kernel, BLOCK=1024, num_warps=4)
    launch((cdiv(n, 1024),), x, y, out, n)

launches what `add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024, num_warps=4)` launches,
with less work on the host: arguments are bound in one pass, the driver is fetched once, and a plain
launch is handed to the driver in C (`launch.native`; where `_launch.c` was not built, and for what
it does not know, the compiled kernel's own C launcher is called). The first launch of each
specialisation goes through Triton, which compiles it; so does every launch that Triton would treat
in a way of its own:

- under the interpreter, or a version of Triton that is not known here (`launch.direct` is False,
  `launch.reason` says why);
- while a launch hook, a pre-run hook or a pipeline hook is set, so that hooks see every launch;
- with an argument that is no plain tensor, number, bool or None;
- where a global that the kernel read has changed, which Triton refuses;
- while `Graphs` records a pass, which has to see the launch;
- where the kernel needs scratch memory, or the device is no CUDA device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from rightfast.runtime import launch_native, watch
from rightfast.runtime.launch_native import Native
from rightfast.runtime.launch_source import PREFIX, Foreign, Source, parameters, refused, wide
from rightfast.runtime.triton_forms import FORMS, Form, Globals, entry, version

Grid = Sequence[int] | Callable[[dict[str, Any]], Sequence[int]]


class Launch(Protocol):
    """What `launchable` returns: a function with a few attributes."""

    kernel: Any  # the function under @triton.jit
    fixed: Mapping[str, Any]  # meta-parameters that were given beforehand
    direct: bool  # False: every launch goes through Triton
    native: Native | None  # what launches in C; None: Python does
    reason: str  # why the last launch that could not be kept went through Triton
    entries: dict[Any, Any]  # the specialisations that are known
    key_of: Callable[..., tuple[Any, ...]] | None  # the key of a launch, without launching

    def __call__(self, grid: Grid, /, *arguments: Any, **meta: Any) -> Any: ...


def cdiv(n: int, block: int) -> int:
    """How many blocks cover n elements; Triton's own is a compile-time function and costs more."""
    return -(-n // block)


def launchable(kernel: Any, **fixed: Any) -> Launch:
    """A function `launch(grid, *arguments, **meta)` for one kernel.

    Args:
        kernel: a function under `@triton.jit`. The result belongs to it: make it once, beside it.
        fixed: meta-parameters that all launches share: constexpr parameters of the kernel and
            compile options such as `num_warps` and `num_stages`. They leave the signature, and cost
            nothing at a launch.

    Returns:
        A function that launches on the current device and stream and returns the compiled kernel,
        as `kernel[grid](...)` does. `grid` holds one to three block counts, or is a function of the
        arguments by name.

    Raises:
        TypeError: no `@triton.jit` function was given; a launch names a fixed parameter again.
        ValueError: a fixed parameter is none of the meta-parameters.
    """
    if type(kernel).__name__ == "InterpretedFunction":
        return _through(kernel, fixed, "TRITON_INTERPRET is set: kernels are interpreted")
    from triton.runtime.jit import JITFunction

    if not isinstance(kernel, JITFunction):
        raise TypeError(
            f"launchable() expected a function under @triton.jit, got {type(kernel).__name__}; "
            "below autotune or heuristics it is the attribute fn"
        )
    runtime = [one.name for one in kernel.params if not one.is_constexpr and one.name in fixed]
    if runtime:
        raise ValueError(
            f"expected constexpr parameters of {kernel.__name__} and compile options, got "
            f"{', '.join(runtime)}; hand runtime arguments over at each launch"
        )
    form = FORMS.get(version())
    if form is None:
        known = ", ".join(f"{major}.{minor}" for major, minor in FORMS)
        return _through(kernel, fixed, f"Triton {'.'.join(map(str, version()))} is not {known}")
    if why := "a kind of kernel of its own" if type(kernel) is not JITFunction else refused(kernel):
        return _through(kernel, fixed, why)
    return _direct(kernel, fixed, form)


def _through(kernel: Any, fixed: Mapping[str, Any], reason: str) -> Launch:
    """Triton's own way, always."""

    def launch(grid: Grid, /, *arguments: Any, **meta: Any) -> Any:
        _refuse_twice(fixed, meta)
        return watch.through_triton(kernel, grid, arguments, {**fixed, **meta})

    return _finish(launch, kernel, fixed, reason, {}, None)


def _direct(kernel: Any, fixed: Mapping[str, Any], form: Form) -> Launch:
    entries: dict[Any, Any] = {}
    found = parameters(kernel)
    names = {one.name for one in found if one.name in fixed}
    native = launch_native.native([one for one in found if one.name not in names], len(form.knobs))
    constants = {name: fixed[name] for name in names}
    source = Source(found, constants, form.call, list(form.knobs), native is not None)
    namespace = _namespace(kernel, fixed, entries, native)

    def through_triton(
        key: Any,
        known: bytes | None,
        grid: Grid,
        positional: Any,
        named: dict[str, Any],
        options: dict[str, Any],
    ) -> Any:
        """Launch as Triton does, and keep what it launched for the next time."""
        _refuse_twice(fixed, options)
        meta = {**named, **fixed, **options}
        compiled = watch.through_triton(kernel, grid, positional, meta)
        if key is None:
            launch.reason = "an argument is of a kind that has no key here"
        elif key not in entries and compiled is not None:
            kept = entry(compiled, form)
            if isinstance(kept, str):
                launch.reason = kept
            else:
                entries[key] = kept
                if native is not None and known is not None:
                    native.learn(known, kept)
        return compiled

    namespace[f"{PREFIX}triton"] = through_triton
    exec(compile(source.text(), f"<launch of {kernel.__name__}>", "exec"), namespace)
    key_of = namespace["key_of"]
    launch = _finish(namespace["launch"], kernel, fixed, "", entries, key_of, native)
    return launch


def _namespace(
    kernel: Any, fixed: Mapping[str, Any], entries: dict[Any, Any], native: Native | None
) -> dict[str, Any]:
    """What the generated functions see, by its name without the prefix."""
    import torch
    from triton import knobs

    odd: dict[Any, Any] = {}
    # The chains that are there by default: a hook that was put in their place counts as one.
    enter, leave = (
        getattr(type(knobs.runtime), f"launch_{when}_hook") for when in ("enter", "exit")
    )

    def hooked() -> bool:
        """Whether a hook was put where there is none by default."""
        now = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
        replaced = now[0] is not enter or now[1] is not leave
        return replaced or knobs.runtime.add_stages_inspection_hook is not None

    known = {
        "Foreign": Foreign,
        "Tensor": torch.Tensor,
        "Weight": torch.nn.Parameter,
        "plain": frozenset({bool, float, type(None)}),
        "wide": wide,
        "odd": lambda dtype: odd.setdefault(dtype, (dtype, "not a multiple of 16")),
        "freeze": _freeze,
        "find": entries.get,
        "last": [(None, None)],  # key and entry of the latest launch
        "captures": watch.captures,
        "kernel": kernel,
        "runtime": knobs.runtime,
        "compilation": knobs.compilation,
        # What was set in this process; empty as a rule.
        "runtime_set": vars(knobs.runtime),
        "compilation_set": vars(knobs.compilation),
        "enter": enter,
        "exit": leave,
        "hooked": hooked,
        "changed": Globals().changed,
        "no_key": (Foreign, TypeError),
        "bytes": bytes,
        "int": int,
        "tuple": tuple,
        "callable": callable,
        "len": len,
        **{f"fixed_{name}": value for name, value in fixed.items()},
        **{
            f"default_{name}": signed.default
            for name, signed in kernel.signature.parameters.items()
        },
    }
    namespace = {f"{PREFIX}{name}": value for name, value in known.items()}

    def first() -> int:
        """Fetch the driver at the first launch: kernels are defined where there is no GPU, too."""
        from triton.runtime.driver import driver

        active = driver.active
        device = int(active.get_current_device())
        current = active.get_current_device
        if current is torch.cuda.current_device:
            # The same without asking whether CUDA is initialised: it is, from here on.
            current = getattr(torch._C, "_cuda_getDevice", current)
        namespace[f"{PREFIX}device"] = current
        namespace[f"{PREFIX}stream"] = active.get_current_stream
        if native is not None:
            namespace[f"{PREFIX}native"] = native.connect(current, active.get_current_stream)
        return device

    def first_in_c(*given: Any) -> Any:
        first()
        return namespace[f"{PREFIX}native"](*given)

    namespace[f"{PREFIX}device"] = first
    if native is not None:
        namespace[f"{PREFIX}native"], namespace[f"{PREFIX}learn"] = first_in_c, native.learn
    return namespace


def _freeze(options: dict[str, Any]) -> tuple[Any, ...]:
    """Compile options as part of a key: as exact as Triton's, which is their text."""
    for value in options.values():
        if value.__class__ not in (int, bool, str, type(None)):
            raise Foreign
    return tuple((name, value.__class__, value) for name, value in options.items())


def _refuse_twice(fixed: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    if twice := [name for name in given if name in fixed]:
        raise TypeError(
            f"expected each meta-parameter once, got {', '.join(twice)} at a launch and in "
            "launchable(); leave it out of either"
        )


def _finish(
    launch: Any,
    kernel: Any,
    fixed: Mapping[str, Any],
    reason: str,
    entries: dict[Any, Any],
    key_of: Callable[..., tuple[Any, ...]] | None,
    native: Native | None = None,
) -> Launch:
    launch.kernel, launch.fixed, launch.entries = kernel, dict(fixed), entries
    launch.direct, launch.reason, launch.key_of = key_of is not None, reason, key_of
    launch.native = native
    launch.__name__ = launch.__qualname__ = f"launch_{getattr(kernel, '__name__', 'kernel')}"
    launch.__doc__ = getattr(kernel, "__doc__", None)
    return cast(Launch, launch)
