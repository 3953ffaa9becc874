"""Triton kernels compiled ahead for GPUs that are not there, and what their machine code costs.

Registers, spills, shared memory, code size and instruction counts of a kernel for sm_80 and sm_90
depend on the source, the specialisation and the versions of Triton and ptxas alone: a machine
without a GPU counts them exactly.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import sass
from .errors import CaseError, PerfError, ResultsError, Unsupported
from .results import write_atomically

TARGETS = (80, 90)
OLDEST = (3, 5)
FORMAT = 1  # of the cached counts; raise it when `sass` counts something else


@dataclass(frozen=True)
class KernelSpec:
    """One specialisation of a Triton kernel.

    Args:
        fn: the `@triton.jit` function.
        signature: Triton types of the parameters: `"*fp32"` (a pointer), `"i32"`, `"fp32"`.
        constexprs: values of constexpr parameters, and of what is specialised to a constant.
        num_warps, num_stages: as at a launch; None leaves Triton's default.
        divisible: parameters whose address or value is a multiple of 16, as Triton finds out at a
            launch; by default all pointers, since torch's own allocations are. Name the sizes and
            strides, too, that are: a mask or an address made of another number costs the vector
            loads.
        options: further compile options, such as `enable_fp_fusion` or `maxnreg`.
        label: tells several specialisations of one kernel apart.
    """

    fn: Any
    signature: Mapping[str, str]
    constexprs: Mapping[str, Any] = field(default_factory=dict)
    num_warps: int = 4
    num_stages: int | None = None
    divisible: Sequence[str] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""

    @property
    def name(self) -> str:
        kernel: str = getattr(self.fn, "__name__", repr(self.fn))
        return f"{kernel}[{self.label}]" if self.label else kernel

    def checked(self) -> dict[str, str]:
        """The whole signature in the kernel's order.

        Raises:
            Unsupported: the kernel is interpreted, not compiled.
            CaseError: the specification does not fit the kernel.
        """
        if type(self.fn).__name__ == "InterpretedFunction":
            raise Unsupported(f"{self.name}: TRITON_INTERPRET is set; nothing can be compiled")
        names = getattr(self.fn, "arg_names", None)
        if names is None:
            raise CaseError(
                "fn is no Triton kernel",
                expected="a function under @triton.jit",
                got=self.name,
                remedy="hand over the function under @triton.jit",
            )
        given = {**self.signature, **dict.fromkeys(self.constexprs, "constexpr")}
        if set(given) != set(names) or not set(self.divisible or ()) <= set(self.signature):
            raise CaseError(
                f"the specification of {self.name} does not fit the kernel",
                expected=f"types or values for {list(names)}",
                got=f"{sorted(given)}, divisible={self.divisible}",
                remedy="a type in signature= or a value in constexprs= for every parameter",
            )
        return {name: given[name] for name in names}


def counters(specs: Sequence[KernelSpec], targets: Sequence[int] = TARGETS) -> dict[str, int]:
    """Exact counts as `kernel/sm90/registers`; sizes in bytes.

    Raises:
        Unsupported: Triton or a disassembler is absent, or Triton has no such target.
        CaseError: a specification does not fit its kernel, or two have one name.
    """
    names = [spec.name for spec in specs]
    if len(set(names)) < len(names):
        raise CaseError(
            "two kernels have one name",
            expected="label= on each",
            got=names,
            remedy="give each kernel a name= of its own",
        )
    return {
        f"{spec.name}/sm{target}/{name}": value
        for spec in specs
        for target in targets
        for name, value in inspect(spec, target).items()
    }


def counters_or_warning(specs: Sequence[KernelSpec]) -> dict[str, int]:
    """The counters of a case; none, with a warning that says why, where they cannot be had."""
    try:
        return counters(specs)
    except Unsupported as error:
        warnings.warn(f"kernels were not compiled ahead: {error}", stacklevel=2)
        return {}


def inspect(spec: KernelSpec, target: int) -> dict[str, int]:
    """Counts of one kernel for one compute capability (80, 90)."""
    compiled = compile_ahead(spec, target)
    cubin = compiled.asm.get("cubin")
    if not cubin:
        raise Unsupported(f"{spec.name}: Triton made no cubin for sm_{target}")
    counts = _counts_of_cubin(cubin, compiled.metadata.name)
    return {**counts, "shared_bytes": int(compiled.metadata.shared)}


def compile_ahead(spec: KernelSpec, target: int) -> Any:
    """Triton's compiled kernel, from Triton's own cache if it is there."""
    signature = spec.checked()
    try:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
    except ImportError as error:
        raise Unsupported(f"Triton cannot be imported: {error}") from error
    if tuple(int(part) for part in triton.__version__.split(".")[:2]) < OLDEST:
        raise Unsupported(f"Triton {triton.__version__} is too old: 3.5 or newer compiles ahead")
    divisible = spec.divisible
    if divisible is None:
        divisible = [name for name, kind in signature.items() if kind.startswith("*")]
    places = [list(signature).index(name) for name in divisible]
    attributes = {(place,): [["tt.divisibility", 16]] for place in places}
    options = {"num_warps": spec.num_warps, **spec.options}
    if spec.num_stages is not None:
        options["num_stages"] = spec.num_stages
    source = ASTSource(spec.fn, signature, dict(spec.constexprs), attributes)
    try:
        return triton.compile(source, target=GPUTarget("cuda", target, 32), options=options)
    except Exception as error:
        raise PerfError(
            f"{spec.name} does not compile for sm_{target}",
            expected=f"a kernel for signature {signature} and constants {dict(spec.constexprs)}",
            got=f"{type(error).__name__}: {error}",
            remedy="check the types and constants against a launch",
        ) from error


def tool(name: str) -> str:
    """The path of `cuobjdump` or `nvdisasm`: Triton's own, else the one on PATH.

    Raises:
        Unsupported: it is in neither place.
    """
    import triton

    candidates = [Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name]
    # Triton's settings honour TRITON_NVDISASM_PATH; they raise if there is no such file.
    with contextlib.suppress(Exception):
        candidates.insert(0, Path(getattr(triton.knobs.nvidia, name).path))
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return str(candidate)
    if found := shutil.which(name):
        return found
    raise Unsupported(f"{name} is neither in Triton's package nor on PATH")


def _counts_of_cubin(cubin: bytes, kernel: str) -> dict[str, int]:
    """Read a cubin once; the answer is kept for later processes."""
    versions = "/".join(_version(tool(name)) for name in ("cuobjdump", "nvdisasm"))
    key = hashlib.sha256(f"{FORMAT}/{versions}/{kernel}/".encode() + cubin).hexdigest()
    path = _cache() / f"{key}.json"
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        counts = _read(cubin, kernel)
    # A cache that cannot be written costs time, nothing else.
    with contextlib.suppress(ResultsError):
        write_atomically(path, json.dumps(counts))
    return counts


def _read(cubin: bytes, kernel: str) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        usage = _run(tool("cuobjdump"), "-res-usage", str(file))
        text = _run(tool("nvdisasm"), "-c", str(file))
    counts = sass.count(text)
    if not counts["instructions"]:
        raise Unsupported(f"nvdisasm printed no instructions of {kernel}")
    # Every instruction since sm_70 has 16 bytes; a tail of NOPs up to the alignment is left out.
    size = {"code_bytes": 16 * counts["instructions"]}
    return {**sass.resources(usage, kernel), **size, **counts}


def _cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("rightfast") / "sass"


@functools.cache
def _version(path: str) -> str:
    return _run(path, "--version").strip().splitlines()[-1]


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", "") or ""
        raise Unsupported(f"{Path(command[0]).name} failed: {error} {said}".strip()) from error
    return done.stdout
