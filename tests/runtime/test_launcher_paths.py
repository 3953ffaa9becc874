"""The launcher's ways: direct, through Triton, interpreted; and what each costs the host."""

from __future__ import annotations

import ast
import dis
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rightfast.runtime import cdiv, launchable, launcher, triton_forms

from . import triton_fakes
from .launch_cases import (
    EDGES,
    WIDE,
    at,
    both,
    calls_of,
    meta_kernel,
    named_kernel,
    pair_kernel,
    scale_kernel,
    tl,
    triton,
)


class TestBinding:
    """Class 20: every structure of a call through every path."""

    def test_grids(self, recording):
        triton_fakes.prepare(scale_kernel, recording)
        launch = launchable(scale_kernel, BLOCK=64)
        for grid in [
            (5,),
            (5, 4),
            (5, 4, 3),
            [5, 4],
            lambda known: (known["n"], known["BLOCK"], known["x"].numel()),
            lambda known: [cdiv(known["n"], known["BLOCK"])],
        ]:
            for _ in range(2):
                ours, theirs = both(recording, launch, grid, at(0), at(8), 8)
                assert ours == theirs

    def test_a_grid_without_blocks_launches_nothing(self, recording):
        triton_fakes.prepare(pair_kernel, recording)
        launch = launchable(pair_kernel)
        compiled = launch((1,), at(0), 3)
        before = len(recording.launches)
        for grid in [(0,), (2, 0), [1, 1, 0], (0, 2**31 - 1)]:
            assert launch(grid, at(0), 3) is compiled
        assert len(recording.launches) == before

    def test_keywords_and_defaults(self, recording):
        triton_fakes.prepare(meta_kernel, recording)
        launch = launchable(meta_kernel)
        for _ in range(2):
            for arguments, named in [
                ((at(0), 64), {}),
                ((at(0), 64, 17), {}),
                ((at(0), 64, 17, "s"), {}),
                ((at(0),), {"FIRST": 64}),
                ((), {"SECOND": 2, "b": 17, "FIRST": 64, "a": at(1)}),
                ((at(0),), {"FIRST": 64, "b": None, "num_warps": 2}),
            ]:
                ours, theirs = both(recording, launch, (1,), *arguments, **named)
                assert ours == theirs

    @pytest.mark.parametrize("grid", [(2,), [2, 3], lambda known: (known["len"],)])
    def test_parameters_with_the_names_of_functions(self, recording, grid):
        triton_fakes.prepare(named_kernel, recording)
        launch = launchable(named_kernel)
        for _ in range(3):
            ours, theirs = both(recording, launch, grid, 3, 0.5, at(0), None)
            assert ours == theirs

    def test_no_parameter_hides_a_name(self, recording):
        launch = launchable(meta_kernel)
        for function in (launch, launch.key_of):
            read = [one for one in dis.get_instructions(function) if one.opname == "LOAD_GLOBAL"]
            assert read
            assert [one.argval for one in read if not one.argval.startswith("_rf_")] == []

    @pytest.mark.parametrize("recording", ["python"], indirect=True)
    def test_a_tensor_of_the_gpu_is_passed_as_its_address(self, recording, monkeypatch):
        triton_fakes.prepare(pair_kernel, recording)
        launch = launchable(pair_kernel)
        x, y = at(0), at(1)
        launch((1,), x, y)
        launch((1,), x, y)
        # Triton refuses memory that the device cannot read; it has to see the tensor for that.
        assert recording.launches[-1]["raw"][0] is x
        monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda self: True))
        launch((1,), x, y)
        assert recording.launches[-1]["raw"] == (x.data_ptr(), y.data_ptr())

    def test_kinds_without_a_key_go_through_triton(self, recording):
        triton_fakes.prepare(pair_kernel, recording)
        launch = launchable(pair_kernel)

        class Wrapped(torch.Tensor):
            pass

        class Number(int):
            pass

        for value in [at(0).as_subclass(Wrapped), Number(1), (at(0), 1), tl.constexpr(3)]:
            ours, theirs = both(recording, launch, (1,), at(0), value)
            assert ours == theirs
        assert launch.entries == {}
        assert "no key" in launch.reason

    @pytest.mark.parametrize("value", [2**64, -(2**63) - 1, [1], "text", at(0, torch.complex64)])
    def test_errors_are_tritons(self, recording, value):
        triton_fakes.prepare(pair_kernel, recording)
        launch = launchable(pair_kernel)
        caught = []
        for call in (launch, lambda grid, *given: pair_kernel[grid](*given)):
            with pytest.raises((TypeError, OverflowError, KeyError)) as error:
                call((1,), at(0), value)
            caught.append((error.type, str(error.value)))
        assert caught[0] == caught[1]
        assert launch.entries == {}

    def test_what_comes_back_is_the_compiled_kernel(self, recording):
        triton_fakes.prepare(pair_kernel, recording)
        launch = launchable(pair_kernel)
        assert launch((1,), at(0), 2) is launch((1,), at(0), 3) is pair_kernel[(1,)](at(0), 5)


class TestHooks:
    def test_launch_hooks_see_every_launch(self, recording):
        from triton import knobs

        triton_fakes.prepare(pair_kernel, recording)
        launch = launchable(pair_kernel)
        seen = []

        def hook(metadata):
            seen.append(metadata)

        for chain in (knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook):
            launch((1,), at(0), 2)
            chain.add(hook)
            try:
                before = len(recording.launches)
                launch((1,), at(0), 2)
                launch((1,), at(0), 2)
            finally:
                chain.remove(hook)
            assert len(recording.launches) == before + 2
        assert len(seen) == 4

    def test_a_hook_in_place_of_the_chain(self, recording, monkeypatch):
        from triton import knobs

        triton_fakes.prepare(pair_kernel, recording)
        launch = launchable(pair_kernel)
        launch((1,), at(0), 2)
        seen = []
        monkeypatch.setattr(knobs.runtime, "launch_enter_hook", seen.append)
        for number in range(3):
            launch((1,), at(0), 2)
            assert len(seen) == number + 1

    def test_hooks_before_a_run(self, recording, monkeypatch):
        triton_fakes.prepare(pair_kernel, recording)
        launch = launchable(pair_kernel)
        launch((1,), at(0), 2)
        seen = []
        monkeypatch.setattr(pair_kernel, "pre_run_hooks", [])
        pair_kernel.add_pre_run_hook(lambda *given, **named: seen.append((given, named)))
        launch((1,), at(0), 2)
        assert len(seen) == 1
        assert seen[0][0][1] == 2


class TestFallback:
    def test_the_interpreter(self, monkeypatch):
        from triton import knobs

        monkeypatch.setattr(knobs.runtime, "interpret", True)
        interpreted = triton.jit(scale_kernel.fn)
        launch = launchable(interpreted, BLOCK=16)
        assert not launch.direct
        assert "TRITON_INTERPRET" in launch.reason
        x = torch.arange(40.0)
        y = torch.zeros(40)
        launch((cdiv(40, 16),), x, y, 40, num_warps=2)
        assert torch.equal(y, 2 * x)

    def test_an_unknown_version(self, recording, monkeypatch):
        triton_fakes.prepare(scale_kernel, recording)
        monkeypatch.setattr(launcher, "version", lambda: (99, 1))
        launch = launchable(scale_kernel, BLOCK=64)
        assert not launch.direct
        assert "99.1" in launch.reason
        ours, theirs = both(recording, launch, (2,), at(0), at(8), 8, num_warps=8)
        assert ours == theirs

    @pytest.mark.parametrize("name", ["global_scratch_size", "profile_scratch_size"])
    def test_scratch_memory(self, recording, monkeypatch, name):
        triton_fakes.prepare(pair_kernel, recording)
        launch = launchable(pair_kernel)
        compiled = launch((1,), at(0), 2)
        launch.entries.clear()
        setattr(compiled._run, name, 16)
        assert "scratch" in triton_forms.entry(compiled, triton_forms.FORMS[launcher.version()])

    def test_another_backend(self, recording):
        triton_fakes.prepare(pair_kernel, recording)
        calls = []
        recording.launcher_cls = lambda source, metadata: lambda *given: calls.append(given)
        launch = launchable(pair_kernel)
        launch((1,), at(0), 2)
        launch((1,), at(0), 2)
        assert len(calls) == 2
        assert launch.entries == {}
        assert "not Triton's for CUDA" in launch.reason


class TestErrors:
    def test_no_kernel(self):
        with pytest.raises(TypeError, match=r"expected a function under @triton.jit, got function"):
            launchable(scale_kernel.fn)
        tuned = triton.autotune([triton.Config({"BLOCK": 16})], key=["n"])(scale_kernel)
        with pytest.raises(TypeError, match="the attribute fn"):
            launchable(tuned)

    def test_a_runtime_argument_is_no_meta_parameter(self):
        with pytest.raises(ValueError, match="got n; hand runtime arguments over"):
            launchable(scale_kernel, n=8)

    def test_a_meta_parameter_twice(self, recording):
        triton_fakes.prepare(scale_kernel, recording)
        launch = launchable(scale_kernel, BLOCK=64, num_warps=4)
        launch((1,), at(0), at(8), 8)
        for again in ({"BLOCK": 32}, {"num_warps": 8}):
            with pytest.raises(TypeError, match="each meta-parameter once"):
                launch((1,), at(0), at(8), 8, **again)

    def test_an_unknown_option(self, recording):
        triton_fakes.prepare(scale_kernel, recording)
        with pytest.raises(KeyError, match="BLOK"):
            launchable(scale_kernel, BLOCK=64)((1,), at(0), at(8), 8, BLOK=3)

    def test_too_few_arguments(self, recording):
        triton_fakes.prepare(scale_kernel, recording)
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'n'"):
            launchable(scale_kernel, BLOCK=64)((1,), at(0), at(8))


class TestHostCalls:
    """Class 24: what a launch costs the host, as an exact count of calls."""

    @pytest.fixture
    def nothing_is_set(self, monkeypatch):
        """Earlier tests leave settings there that have the default's value, set by hand."""
        from triton import knobs

        for settings in (vars(knobs.runtime), vars(knobs.compilation)):
            for name in list(settings):
                monkeypatch.delitem(settings, name)

    @pytest.mark.parametrize("recording", ["c"], indirect=True)
    @pytest.mark.parametrize("count", [1, 4, 8])
    def test_one_launch_in_c(self, recording, nothing_is_set, count):
        """One call of Python's own, one in C, and the driver's two, whatever is passed."""
        triton_fakes.prepare(WIDE[count], recording)
        launch = launchable(WIDE[count], BLOCK=64, num_warps=4)
        arguments = [at(8 * number) for number in range(count)]
        launch((1,), *arguments)
        expected = ["launch", "launch", "<lambda>", "<lambda>"]
        if launcher.version() >= (3, 9):
            expected += ["__get__", "get", "get", "getenv_bool"]  # a knob that is read every time
        found = calls_of(lambda: launch((1,), *arguments), opaque="_launch")
        assert sorted(found) == sorted(["<lambda>", *expected])  # and the one that is counted
        assert recording.in_c == 1

    @pytest.mark.parametrize("recording", ["python"], indirect=True)
    @pytest.mark.parametrize("count", [1, 4, 8])
    def test_one_launch(self, recording, nothing_is_set, count):
        """One call of Python's own, beside the driver's two, and one look at each tensor."""
        triton_fakes.prepare(WIDE[count], recording)
        launch = launchable(WIDE[count], BLOCK=64, num_warps=4)
        arguments = [at(8 * number) for number in range(count)]
        launch((1,), *arguments)
        (key,) = launch.entries
        launch.entries[key] = launch.entries[key]._replace(run=lambda *given: None)
        # Functions without a name: the one that is counted, device, stream, and the launcher in C.
        expected = ["launch", *["data_ptr"] * count, *["<lambda>"] * 4, "get", "len"]
        if launcher.version() >= (3, 9):
            expected += ["__get__", "get", "get", "getenv_bool"]  # a knob that is read every time
        assert sorted(calls_of(lambda: launch((1,), *arguments))) == sorted(expected)

    def test_the_driver_is_fetched_once(self, recording, monkeypatch):
        triton_fakes.prepare(pair_kernel, recording)
        launch = launchable(pair_kernel)
        launch((1,), at(0), 2)
        monkeypatch.setattr(recording, "get_current_device", None)
        monkeypatch.setattr(recording, "get_current_stream", None)
        before = len(recording.launches)
        launch((1,), at(0), 2)
        assert len(recording.launches) == before + 1

    def test_no_compile_time_function_runs_on_the_host(self):
        found = []
        for path in Path(launcher.__file__).parent.glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and node.attr in ("cdiv", "next_power_of_2"):
                    found.append((path.name, node.lineno))
        assert found == []

    @given(st.integers(0, 10**9), st.integers(1, 10**5))
    def test_cdiv(self, n, block):
        assert (cdiv(n, block) - 1) * block < n <= cdiv(n, block) * block or n == 0 == cdiv(
            n, block
        )


def test_any_state_of_the_generators(recording):
    """Class 25: nothing depends on a generator's state, and none is changed."""
    triton_fakes.prepare(pair_kernel, recording)
    launch = launchable(pair_kernel)
    for seed in range(150):
        torch.manual_seed(seed)
        random.seed(seed)
        states = torch.get_rng_state(), random.getstate()
        ours, theirs = both(recording, launch, (1,), at(seed % 4), EDGES[seed % len(EDGES)])
        assert ours == theirs
        assert torch.equal(torch.get_rng_state(), states[0])
        assert random.getstate() == states[1]


def test_importing_the_runtime_imports_no_triton():
    code = "import sys, rightfast.runtime; print('triton' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
