"""What is known of Triton's own launch path, by version.

Read from the sources of Triton 3.6 and 3.9 (`runtime/jit.py: JITFunction.run`, and
`backends/nvidia/driver.py: CudaLauncher.__call__`). A version that is not here is not guessed at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Form(NamedTuple):
    """How one version is launched."""

    call: str  # "flat": the kernel's arguments follow the launcher's; "packed": in one tuple
    knobs: tuple[str, ...]  # what `JITFunction.run` reads at every launch into its key


# Settings are looked up only where any was set: one that was not is its class's, and slow to find.
_ALWAYS = (
    "_rf_kernel.debug",
    "_rf_runtime.debug if _rf_runtime_set else None",
    "_rf_compilation.instrumentation_mode if _rf_compilation_set else None",
)
FORMS = {
    (3, 6): Form("flat", _ALWAYS),
    (3, 9): Form("packed", (*_ALWAYS, "_rf_compilation.fpsan_homomorphic_casts")),
}


class Entry(NamedTuple):
    """What a launch needs of one compiled kernel, in the order in which the source unpacks it."""

    run: Any  # the C function
    function: int
    cooperative: bool
    pdl: bool
    metadata: Any
    more: tuple[Any, ...]  # "packed": annotations and signature of the arguments
    compiled: Any  # keeps the module loaded


def version() -> tuple[int, int]:
    """Major and minor version of the installed Triton."""
    import triton

    major, minor = triton.__version__.split(".")[:2]
    return int(major), int(minor)


def entry(compiled: Any, form: Form) -> Entry | str:
    """What to keep of a kernel that Triton has just launched, or why nothing can be."""
    from triton.backends.nvidia.driver import CudaLauncher

    run = getattr(compiled, "_run", None)
    if not isinstance(run, CudaLauncher):
        return f"its launcher is a {type(run).__name__}, not Triton's for CUDA"
    if run.global_scratch_size or run.profile_scratch_size:
        return "it needs scratch memory at every launch"
    if getattr(run, "gsan_enabled", False):
        return "it is instrumented"
    packed = form.call == "packed"
    more = (run.arg_annotations, run.kernel_signature) if packed else ()
    return Entry(
        run.launch,
        compiled.function,
        run.launch_cooperative_grid,
        run.launch_pdl,
        compiled.packed_metadata,
        more,
        compiled,
    )


def plain(entry: Entry) -> bool:
    """Whether a launch is the driver's plain one: a grid, threads, shared memory, arguments.

    Clusters, cooperative grids and dependent launches are not, nor is more shared memory than one
    block could have before the driver had a mode for it.
    """
    _, clusters, shared = entry.metadata[:3]
    return not (entry.cooperative or entry.pdl) and clusters == 1 and shared <= 228 * 1024


_MISSING = object()
_Used = Mapping[tuple[str, int], tuple[Any, dict[str, Any]]]  # as Triton notes globals


class Globals:
    """The globals that a kernel was compiled with, of which Triton keeps copies."""

    def __init__(self) -> None:
        self._equal: tuple[_Used, list[tuple[dict[str, Any], str, Any, Any]]] = {}, []

    def changed(self, used: _Used) -> bool:
        """Whether one has another value now.

        To compare a `constexpr` takes a microsecond. What was equal before and is the very same
        constant, with the same value, is equal; what may change in place is compared every time.
        """
        was, equal = self._equal
        if was is used and len(equal) == len(used):
            for known, name, value, inner in equal:
                now = known.get(name, _MISSING)
                if now is not value or getattr(now, "value", None) is not inner:
                    break
            else:
                return False
        found = [(known, name, known.get(name, _MISSING)) for (name, _), (_, known) in used.items()]
        if any(one[2] != value for one, (value, _) in zip(found, used.values(), strict=True)):
            return True
        if all(_is_constant(value) for _, _, value in found):
            self._equal = used, [(*one, getattr(one[2], "value", None)) for one in found]
        return False


def _is_constant(value: Any) -> bool:
    """Whether only another value in its place can change it, or in that of a `constexpr`."""
    from triton.language import constexpr, dtype

    inner = value.value if type(value) is constexpr else value
    return type(inner) in (bool, int, float, str, type(None), dtype)
