"""Kernels compiled ahead for GPUs that are not here. The kernels are at the top: they must have a
source file, and a child process must find them."""

from __future__ import annotations

import builtins
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pytest_rightfast import CaseError, PerfError, Unsupported, sass, triton_aot
from pytest_rightfast.fixture import Perf, PerfSession
from pytest_rightfast.options import Options
from pytest_rightfast.triton_aot import KernelSpec, counters, inspect
from pytest_rightfast.triton_recorder import describe, record

triton = pytest.importorskip("triton", minversion="3.5", exc_type=ImportError)
tl = pytest.importorskip("triton.language")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Triton's disassemblers are there")


@triton.jit
def double_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) * 2.0, at < n)


@triton.jit
def rows_kernel(x, y, width, BLOCK: tl.constexpr):
    """Holds a whole row in registers: a longer row than they hold is spilled."""
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * width + at)
    row = tl.exp(row - tl.max(row))
    tl.store(y + tl.program_id(0) * width + at, row / tl.sum(row))


@triton.jit
def dot_kernel(a, b, c, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))


TYPES = {"x": "*fp32", "y": "*fp32", "n": "i32"}
ALIGNED = ("x", "y", "n")


def double(divisible=ALIGNED, **more):
    return KernelSpec(double_kernel, TYPES, {"BLOCK": 1024}, divisible=divisible, **more)


def rows(block, **options):
    types = {"x": "*fp32", "y": "*fp32", "width": "i32"}
    aligned = ("x", "y", "width")
    return KernelSpec(rows_kernel, types, {"BLOCK": block}, 1, divisible=aligned, options=options)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return tmp_path_factory.mktemp("triton")


@pytest.fixture(autouse=True)
def _own_caches(tmp_path, compiled, monkeypatch):
    """Kernels are compiled once for this file, and read by every test anew."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(compiled))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))


@pytest.mark.parametrize("target", [80, 90])
def test_lost_vector_loads_show(target):
    good, bad = inspect(double(), target), inspect(double(divisible=("y",)), target)
    assert good["global_loads_128"] == 2
    assert good["global_loads_32"] == 0
    assert bad["global_loads_128"] == 0
    assert bad["global_loads_32"] == 8
    assert bad["instructions"] > good["instructions"]
    assert bad["code_bytes"] > good["code_bytes"]


def spills(counts):
    return sum(n for name, n in counts.items() if name.startswith(("local_loads", "local_stores")))


@pytest.mark.parametrize(
    ("target", "worse"),
    [(80, rows(8192)), (80, rows(2048, maxnreg=32)), (90, rows(2048, maxnreg=32))],
)
def test_growing_spills_show(target, worse):
    """Too long a row, or too few registers. The registers themselves may fall meanwhile."""
    good, bad = inspect(rows(2048), target), inspect(worse, target)
    assert good["stack_bytes"] == spills(good) == 0
    assert bad["stack_bytes"] > 256
    assert spills(bad) > 100


def test_targets_differ_in_their_matrix_instructions_and_shared_memory_counts():
    types = dict.fromkeys("abc", "*fp16") | {"c": "*fp32"}
    found = counters([KernelSpec(dot_kernel, types, {"SIZE": 64})])
    assert found["dot_kernel/sm80/matrix_HMMA"] > 0
    assert found["dot_kernel/sm90/matrix_HGMMA"] > 0
    assert "dot_kernel/sm90/matrix_HMMA" not in found
    assert found["dot_kernel/sm80/shared_bytes"] >= 2 * 64 * 64 * 2


def test_options_reach_the_compiler():
    assert inspect(rows(2048, maxnreg=32), 80)["registers"] == 32
    assert inspect(double(num_warps=8), 80)["global_loads_128"] == 1


def test_pointers_are_aligned_by_default_and_numbers_are_not():
    unmasked = KernelSpec(rows_kernel, {"x": "*fp32", "y": "*fp32"}, {"BLOCK": 512, "width": 512})
    assert inspect(unmasked, 80)["global_loads_128"] > 0
    assert inspect(double(divisible=None), 80)["global_loads_128"] == 0


def test_counts_repeat_and_are_kept(monkeypatch):
    first = inspect(double(), 80)
    monkeypatch.setattr(sass, "count", None)  # a second reading would fail
    assert inspect(double(), 80) == first
    monkeypatch.setattr(triton_aot, "FORMAT", 0)
    with pytest.raises(TypeError):
        inspect(double(), 80)


def test_a_broken_or_unwritable_cache_is_no_error(tmp_path, monkeypatch):
    first = inspect(double(), 80)
    files = list((tmp_path / "own" / "rightfast" / "sass").iterdir())
    assert len(files) == 1
    files[0].write_text("{")
    assert inspect(double(), 80) == first
    monkeypatch.setenv("XDG_CACHE_HOME", str(files[0]))  # no folder can be made there
    assert inspect(double(), 80) == first


@pytest.mark.parametrize(
    "spec",
    [
        KernelSpec(double_kernel, {"x": "*fp32", "y": "*fp32"}, {"BLOCK": 64}),
        KernelSpec(double_kernel, TYPES | {"z": "i32"}, {"BLOCK": 64}),
        KernelSpec(double_kernel, TYPES, {"BLOCK": 64}, divisible=("m",)),
    ],
)
def test_a_specification_that_does_not_fit_is_an_error(spec):
    with pytest.raises(CaseError, match="does not fit the kernel"):
        inspect(spec, 80)


def test_names_must_tell_kernels_apart():
    with pytest.raises(CaseError, match="one name"):
        counters([double(), double(("x",))])
    found = counters([double(label="a"), double(("x",), label="b")], targets=[80])
    assert {name.split("/")[0] for name in found} == {"double_kernel[a]", "double_kernel[b]"}


def test_a_kernel_that_does_not_compile_says_why():
    with pytest.raises(PerfError, match="double_kernel does not compile for sm_80"):
        inspect(KernelSpec(double_kernel, TYPES | {"x": "i32"}, {"BLOCK": 64}), 80)
    with pytest.raises(CaseError, match="no Triton kernel"):
        inspect(KernelSpec(print, {}), 80)


def test_without_triton_the_reason_is_clear(monkeypatch):
    original = builtins.__import__

    def absent(name, *args, **kwargs):
        if name.startswith("triton"):
            raise ImportError(f"no module {name}")
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(Unsupported, match="Triton cannot be imported: no module triton"):
        inspect(double(), 80)


def test_an_old_triton_is_refused(monkeypatch):
    monkeypatch.setattr(triton, "__version__", "3.4.0")
    with pytest.raises(Unsupported, match=r"3\.4\.0 is too old"):
        inspect(double(), 80)


def test_without_a_disassembler_the_reason_is_clear(monkeypatch):
    monkeypatch.setattr(triton_aot.os, "access", lambda *_: False)
    monkeypatch.setattr(triton_aot.shutil, "which", lambda name: None)
    with pytest.raises(Unsupported, match="cuobjdump is neither in Triton's package nor on PATH"):
        inspect(double(), 80)
    monkeypatch.setattr(triton_aot.shutil, "which", lambda name: f"/elsewhere/{name}")
    assert triton_aot.tool("nvdisasm") == "/elsewhere/nvdisasm"


def test_a_disassembler_that_fails_is_no_count(monkeypatch):
    monkeypatch.setattr(triton_aot, "tool", lambda name: sys.executable)
    with pytest.raises(Unsupported, match="failed"):
        inspect(double(), 80)
    monkeypatch.setattr(triton_aot, "_run", lambda *command: "nothing\n")
    with pytest.raises(Unsupported, match="no instructions"):
        inspect(double(), 80)


def perf(tmp_path):
    session = PerfSession(Options(timing=False), tmp_path)
    return Perf(session, "t.py::t", "t.py::t", None, 1)


def test_a_case_names_its_kernels(tmp_path):
    x = torch.randn(64)
    row = perf(tmp_path)(torch.neg, x, reference=torch.neg, kernels=[double()])
    assert row.counters["double_kernel/sm90/global_loads_128"] == 2
    assert row.counters["operators"] == 1


def test_a_case_whose_kernels_cannot_be_compiled_warns(tmp_path, monkeypatch):
    monkeypatch.setattr(triton, "__version__", "3.0.0")
    x = torch.randn(64)
    with pytest.warns(UserWarning, match="not compiled ahead: Triton"):
        row = perf(tmp_path)(torch.neg, x, reference=torch.neg, kernels=[double()])
    assert row.status == "ok"
    assert not any("/sm" in name for name in row.counters)


def run_double():
    for n in (4096, 4096, 8192, 1000):
        x = torch.randn(n)
        y = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)  # noqa: E731
        double_kernel[grid](x, y, n, BLOCK=512, num_warps=2)
        assert torch.equal(y, x * 2)


def run_broken():
    raise RuntimeError("on purpose")


def test_launches_are_recorded_under_the_interpreter():
    aligned, odd = record(run_double)
    assert aligned.grids == ((8,), (8,), (16,))
    assert odd.grids == ((2,),)
    assert aligned.spec.fn is double_kernel
    assert aligned.spec.signature == TYPES
    assert aligned.spec.constexprs == {"BLOCK": 512}
    assert (aligned.spec.num_warps, aligned.spec.divisible) == (2, ("x", "y", "n"))
    assert odd.spec.divisible == ("x", "y")
    assert [aligned.spec.name, odd.spec.name] == ["double_kernel[0]", "double_kernel[1]"]
    found = counters([aligned.spec, odd.spec], targets=[90])
    assert found["double_kernel[0]/sm90/global_loads_128"] == 2
    assert found["double_kernel[1]/sm90/global_loads_128"] == 0


def test_a_recording_that_fails_says_why():
    with pytest.raises(CaseError, match="on purpose"):
        record(run_broken)
    with pytest.raises(CaseError, match="top of a module"):
        record(lambda: None)


@pytest.mark.parametrize(
    ("sent", "error", "says"),
    [([], CaseError, "launched no Triton kernel"), ("a tuple", Unsupported, "a tuple")],
)
def test_what_cannot_be_recorded_says_why(monkeypatch, sent, error, says):
    def child(command, **options):
        Path(command[-1]).write_bytes(pickle.dumps(sent))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", child)
    with pytest.raises(error, match=says):
        record(run_broken)
    with pytest.raises(Unsupported, match="'pair' is a tuple"):
        describe(lambda pair: None, ((1, 2),), {}, set())


def test_arguments_are_specialised_as_triton_does():
    def kernel(x, one, none, even, odd, big, wide, scale, flag, given, mode: tl.constexpr):
        pass

    x = torch.empty(3, dtype=torch.bfloat16)
    args = (x, 1, None, 32, 33, 2**40, 2**63, 1.5, True, 1, "sum")
    seen = describe(kernel, args, {"num_warps": 8, "grid": None}, {"given"})
    assert seen.signature == {
        "x": "*bf16",
        "even": "i32",
        "odd": "i32",
        "big": "i64",
        "wide": "u64",
        "scale": "fp32",
        "flag": "i1",
        "given": "i32",
    }
    assert seen.constexprs == {"one": 1, "none": None, "mode": "sum"}
    assert seen.divisible == ["x", "even", "big", "wide"]
    assert seen.options == {"num_warps": 8}


def test_under_the_interpreter_nothing_is_compiled():
    code = (
        "from pytest_rightfast.triton_aot import KernelSpec, inspect\n"
        "import triton\n"
        "from triton.runtime.interpreter import InterpretedFunction\n"
        "def kernel(x): pass\n"
        "inspect(KernelSpec(InterpretedFunction(kernel), {'x': '*fp32'}), 80)\n"
    )
    path = ":".join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": path}
    )
    assert "Unsupported: kernel: TRITON_INTERPRET is set" in done.stderr
