"""Launches in C: what reaches the driver, what is left to Python, and whose memory it is."""

from __future__ import annotations

import ctypes
import gc
import struct
import sys
import threading
import types
import weakref

import pytest
import torch

from rightfast.runtime import launch_native, launchable, triton_forms

from . import triton_fakes
from .launch_cases import (
    DTYPES,
    annotated_kernel,
    at,
    both,
    meta_kernel,
    pair_kernel,
    tl,
    triton,
    value_kernel,
)

pytestmark = pytest.mark.parametrize("recording", ["c"], indirect=True)


@triton.jit
def many_kernel(
    a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9,
    c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, BLOCK: tl.constexpr,
):  # fmt: skip
    pass


@pytest.fixture
def launch(recording):
    triton_fakes.prepare(pair_kernel, recording)
    return launchable(pair_kernel)


def in_c(recording, launch, *given, **named):
    """How many of two more launches, each as Triton's own, were made in C."""
    before = recording.in_c
    for _ in range(2):
        ours, theirs = both(recording, launch, *given, **named)
        assert ours == theirs
    return recording.in_c - before


class TestWhatReachesTheDriver:
    @pytest.mark.parametrize(
        ("value", "read"),
        [
            (0, struct.pack("<i", 0)),
            (-(2**31), struct.pack("<i", -(2**31))),
            (2**31, struct.pack("<q", 2**31)),
            (-(2**63), struct.pack("<q", -(2**63))),
            (2**64 - 1, struct.pack("<Q", 2**64 - 1)),
            (True, b"\1"),
            (False, b"\0"),
            (0.1, struct.pack("<f", 0.1)),
            (-0.0, struct.pack("<f", -0.0)),
            (1e300, struct.pack("<f", float("inf"))),
        ],
        ids=str,
    )
    def test_a_number(self, recording, launch, value, read):
        assert in_c(recording, launch, (1,), value, at(0)) == 1
        ((_, found), (_, address)) = recording.launches[-2]["given"]
        assert found == read
        assert int.from_bytes(address, "little") == at(0).data_ptr()

    def test_what_is_compiled_in_is_not_passed(self, recording, launch):
        for first, second, count in [(1, None, 0), (1, 2, 1), (None, 1.0, 1), (at(0), None, 1)]:
            assert in_c(recording, launch, (1,), first, second) == 1
            assert len(recording.launches[-2]["given"]) == count

    def test_every_dtype_has_a_key_of_its_own(self, recording, launch):
        launch((1,), at(0), 0)
        every = {one for one in vars(torch).values() if isinstance(one, torch.dtype)}
        tensors = [torch.empty(2, dtype=one) for one in every if "torch.q" not in str(one)]
        found = [launch.native.launcher.launch((1,), *settings(), one, 0.5) for one in tensors]
        keys = [one for one in found if one is not None]
        assert len(set(keys)) == len(keys) >= len(DTYPES)

    @pytest.mark.parametrize(("whole", "part"), [("uint8", "uint4"), ("int8", "int2")])
    def test_integers_of_fewer_bits_are_refused_by_triton(self, recording, launch, whole, part):
        """torch gives them out through DLPack as integers of 8 bits."""
        x = at(0, getattr(torch, whole))
        assert in_c(recording, launch, (1,), x, 3) == 1
        for function in (launch, lambda grid, *given: pair_kernel[grid](*given)):
            with pytest.raises((KeyError, TypeError), match=part):
                function((1,), x.view(getattr(torch, part)), 3)

    def test_many_arguments(self, recording):
        triton_fakes.prepare(many_kernel, recording)
        launch = launchable(many_kernel, BLOCK=64)
        arguments = [at(8 * n) if n % 3 else 17 * n for n in range(30)]
        assert in_c(recording, launch, (1,), *arguments) == 1
        arguments[29] = at(1)
        assert in_c(recording, launch, (1,), *arguments) == 1

    def test_threads_and_shared_memory(self, recording):
        recording.shared = 228 * 1024
        triton_fakes.prepare(pair_kernel, recording)
        launch = launchable(pair_kernel, num_warps=8)
        assert in_c(recording, launch, (2, 3), at(0), 16) == 1
        found = recording.launches[-2]
        assert (found["grid"], found["flags"][-1]) == ((2, 3, 1), (8, 1, 228 * 1024))

    def test_constants_that_come_with_the_launch(self, recording):
        triton_fakes.prepare(meta_kernel, recording)
        launch = launchable(meta_kernel)
        for first in (64, True, False, None, -1, 2**54 - 1, -(2**54)):
            assert in_c(recording, launch, (1,), at(0), first) == 1
        for first in ("a", 0.5, tl.float32, 2**54, -(2**54) - 1):
            assert in_c(recording, launch, (1,), at(0), first) == 0


class TestLeftToPython:
    def test_memory_of_the_host(self, recording, monkeypatch):
        """Triton refuses memory that the device cannot read; it has to see the tensor for that."""
        library = recording.library._replace(memory=launch_native.CUDA)
        monkeypatch.setattr(launch_native, "library", lambda: library)
        triton_fakes.prepare(pair_kernel, recording)
        launch, x = launchable(pair_kernel), at(0)
        assert in_c(recording, launch, (1,), x, 3) == 0
        launch((1,), x, 3)
        assert recording.launches[-1]["raw"][0] is x

    def test_a_number_that_triton_converts(self, recording):
        """An annotation gives a parameter a type that its argument does not have."""
        triton_fakes.prepare(annotated_kernel, recording)
        launch = launchable(annotated_kernel)
        assert in_c(recording, launch, (1,), at(0), 3, 0.5) == 1
        assert in_c(recording, launch, (1,), at(0), 1, 0.5) == 1
        assert in_c(recording, launch, (1,), at(0), -1, 2) == 0
        assert in_c(recording, launch, (1,), at(0), 3, True) == 0

    @pytest.mark.parametrize("name", ["launch_cooperative_grid", "launch_pdl"])
    def test_a_launch_with_attributes(self, recording, name):
        make = recording.launcher_cls

        def special(source, metadata):
            made = make(source, metadata)
            setattr(made, name, True)
            return made

        recording.launcher_cls = special
        triton_fakes.prepare(pair_kernel, recording)
        assert in_c(recording, launchable(pair_kernel), (1,), at(0), 3) == 0

    @pytest.mark.parametrize(("name", "value"), [("clusters", 2), ("shared", 228 * 1024 + 1)])
    def test_clusters_and_oversized_memory(self, recording, launch, name, value):
        setattr(recording, name, value)
        assert in_c(recording, launch, (1,), at(0), 3) == 0

    @pytest.mark.parametrize(
        "grid",
        [lambda _: (2,), (True,), (2**16, 2**16), (-1,), (-1, -1), (1, 1, 1, 1)],
        ids=["function", "bool", "large", "negative", "two negative", "four"],
    )
    def test_a_grid_that_is_unusual(self, recording, launch, grid):
        assert in_c(recording, launch, (1,), at(0), 3) == 1
        assert in_c(recording, launch, grid, at(0), 3) == 0

    def test_more_arguments_than_it_takes(self, recording, monkeypatch):
        monkeypatch.setattr(launch_native, "MOST", 1)
        triton_fakes.prepare(pair_kernel, recording)
        launch = launchable(pair_kernel)
        assert launch.native is None
        assert in_c(recording, launch, (1,), at(0), 3) == 0

    @pytest.mark.parametrize("missing", ["extension", "table", "version", "driver"])
    def test_where_it_cannot_be_used(self, recording, monkeypatch, missing):
        if missing == "extension":
            monkeypatch.setattr(launch_native, "built", None)
        elif missing == "table":
            monkeypatch.delattr(torch.Tensor, "__dlpack_c_exchange_api__")
        elif missing == "version":
            later = (ctypes.c_uint32 * 16)(2)
            monkeypatch.setattr(torch.Tensor, "__dlpack_c_exchange_api__", capsule(later))
        else:
            monkeypatch.setattr(launch_native, "library", lambda: None)
        triton_fakes.prepare(pair_kernel, recording)
        launch = launchable(pair_kernel)
        assert launch.direct
        assert launch.native is None
        assert in_c(recording, launch, (1,), at(0), 3) == 0


def test_two_first_launches_at_once(recording, monkeypatch):
    """Both launch by the launcher that learns."""
    functions = []

    def launcher(*given):
        monkeypatch.setattr(built, "Launcher", real.Launcher)
        functions.append(native.connect(int, int))  # the other thread is faster
        return real.Launcher(*given)

    real, built = launch_native.built, types.SimpleNamespace(Launcher=launcher)
    monkeypatch.setattr(launch_native, "built", built)
    native = launch_native.Native([], 0, launch_native.Library(0, 0))
    functions.append(native.connect(int, int))
    assert {one.__self__ for one in functions} == {native.launcher}


class TestErrors:
    def test_an_error_of_the_driver(self, recording, launch):
        launch((1,), at(0), 3)
        before = len(recording.launches)
        recording.status = 700
        with pytest.raises(RuntimeError, match=r"^Triton Error \[CUDA\]: error 700$"):
            launch((1,), at(0), 3)
        assert len(recording.launches) == before
        recording.status = 0
        assert in_c(recording, launch, (1,), at(0), 3) == 2

    def test_a_thread_without_a_context(self, recording, launch):
        """Triton's own launcher makes one; it launches once."""
        compiled = launch((1,), at(0), 3)
        recording.status = 201
        before = len(recording.launches)
        assert launch((1,), at(0), 3) is compiled
        assert len(recording.launches) == before + 1
        assert recording.in_c == 0

    @pytest.mark.parametrize("name", ["get_current_device", "get_current_stream"])
    def test_an_error_of_the_drivers_functions(self, recording, name):
        broken = []
        good = getattr(recording, name)

        def function(*given):
            if broken:
                raise RuntimeError("no device today")
            return good(*given)

        setattr(recording, name, function)
        triton_fakes.prepare(pair_kernel, recording)
        launch = launchable(pair_kernel)
        assert in_c(recording, launch, (1,), at(0), 3) == 1
        broken.append(True)
        with pytest.raises(RuntimeError, match="no device today"):
            launch((1,), at(0), 3)

    def test_a_tensor_that_has_no_memory(self, recording, launch):
        x = at(0)
        launch((1,), x, 3)
        with pytest.raises(RuntimeError) as ours, torch.no_grad():
            torch.func.vmap(lambda row: launch((1,), row, 3))(torch.zeros(2, 8))
        assert "storage" in str(ours.value) or "data pointer" in str(ours.value)


class TestMemory:
    """Class 8: what a launch uses lives until it returns, and no longer."""

    def test_temporaries_live_during_the_launch(self, recording, launch):
        alive, seen = [], []
        stream = recording.get_current_stream
        recording.get_current_stream = lambda device: (
            gc.collect(),
            seen.append([one() is not None for one in alive]),
            stream(device),
        )[-1]
        for _ in range(3):
            alive[:] = []
            launch((1,), remembered(alive), remembered(alive))
            recording.launches.clear()
            assert seen[-1] == [True, True]
            assert [one() for one in alive] == [None, None]

    def test_a_launch_within_a_launch(self, recording):
        """Of the same kernel, by what Python runs meanwhile; each has its own arguments."""
        within, stream = [], recording.get_current_stream

        def launching(device):
            if within:
                value = within.pop()
                for _ in range(3):  # through Triton, in Python, in C
                    launch((9,), value, at(1))
            return stream(device)

        recording.get_current_stream = launching
        triton_fakes.prepare(pair_kernel, recording)
        launch = launchable(pair_kernel)
        assert in_c(recording, launch, (2,), at(0), 3) == 1
        for value in (at(0), 5.0, 2**40, 2**63, True, *(at(0, dtype) for dtype in DTYPES)):
            within.append(value)
            recording.launches.clear()
            launch((2,), at(0), 3)
            assert [one["grid"] for one in recording.launches] == [(9, 1, 1)] * 3 + [(2, 1, 1)]
            *others, mine = [one["given"] for one in recording.launches]
            assert others == others[:1] * 3
            assert [int.from_bytes(data, "little") for _, data in mine] == [at(0).data_ptr(), 3]

    def test_nothing_is_counted_twice(self, recording, launch):
        x, big, grid = at(0), 2**40 + 1, (1, 2)
        compiled = launch(grid, x, big)
        launch(grid, x, big)
        recording.launches.clear()
        counts = [sys.getrefcount(one) for one in (x, big, grid, compiled)]
        for _ in range(50):
            launch(grid, x, big)
            launch(grid, x, at(1).double())  # another key each time, or none
        recording.launches.clear()
        assert [sys.getrefcount(one) for one in (x, big, grid, compiled)] == counts

    def test_a_launcher_goes_with_its_kernel(self, recording):
        triton_fakes.prepare(pair_kernel, recording)
        launch = launchable(pair_kernel)  # refers to itself, as every function to its globals
        compiled = weakref.ref(launch((1,), at(0), 3))
        assert launch((1,), at(0), 3) is compiled()
        pair_kernel.device_caches.clear()
        recording.launches.clear()
        gc.collect()
        assert compiled() is not None
        del launch
        gc.collect()
        assert compiled() is None


def test_two_threads_of_different_kernels(recording):
    triton_fakes.prepare(value_kernel, recording)
    launch = launchable(value_kernel)
    wrong = []

    def work(value):
        mine = launch((1,), value, value)
        wrong.extend(1 for _ in range(300) if launch((1,), value, value) is not mine)

    values = [at(0), 3.0, 2**40, at(1, torch.float64)]
    threads = [threading.Thread(target=work, args=(value,)) for value in values]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(launch.entries) == len(values)


def settings():
    """Triton's settings, none set."""
    return [None] * len(triton_forms.FORMS[triton_forms.version()].knobs)


def capsule(table, name=b"dlpack_exchange_api"):
    kinds = ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
    return ctypes.PYFUNCTYPE(*kinds)(("PyCapsule_New", ctypes.pythonapi))(
        ctypes.addressof(table), name, None
    )


def remembered(alive):
    tensor = torch.zeros(8)
    alive.append(weakref.ref(tensor))
    return tensor
