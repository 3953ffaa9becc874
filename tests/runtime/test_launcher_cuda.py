"""The launcher on a GPU: compiled kernels, streams, graphs, and what the device cannot read."""

from __future__ import annotations

import itertools
import random
import threading

import pytest
import torch

from rightfast.runtime import cdiv, launch_native, launchable

triton = pytest.importorskip("triton", minversion="3.6", exc_type=ImportError)
tl = pytest.importorskip("triton.language")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@triton.jit
def affine_kernel(x, bias, out, n, scale, BLOCK: tl.constexpr, SQUARE: tl.constexpr = False):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, at < n, 0).to(tl.float32) * scale
    if bias is not None:
        value += tl.load(bias + at, at < n, 0).to(tl.float32)
    if SQUARE:
        value = value * value
    tl.store(out + at, value.to(out.dtype.element_ty), at < n)


@triton.jit
def count_kernel(out):
    tl.atomic_add(out, 1)


@pytest.fixture(autouse=True, params=["python", "c"])
def way(request, monkeypatch):
    """Launchers in Python, and in C where it was built."""
    if request.param == "c" and launch_native.built is None:
        pytest.skip("_launch.c was not built: setup.py says why")
    monkeypatch.setattr(launch_native, "enabled", request.param == "c")
    return request.param


@pytest.fixture
def launch(way):
    launch = launchable(affine_kernel)
    assert (launch.native is not None) == (way == "c")
    return launch


def refuse(*given):
    raise AssertionError("launched by Triton's own launcher")


def expected(x, bias, n, scale, square):
    value = x[:n].float() * scale
    if bias is not None:
        value = value + bias[:n].float()
    return value * value if square else value


def test_every_kind_in_any_order(launch):
    """Class 23, compiled: alignment, dtype, None, integers, scalars and constexprs, in turn."""
    memory = torch.randn(4096, device="cuda")
    calls = list(
        itertools.product(
            (torch.float32, torch.bfloat16, torch.float64),
            (0, 1, 4),  # elements after an aligned address
            (True, False),  # with a bias
            (1, 16, 37),
            (1, 2, 0.5, True),
            (False, True),
        )
    )
    random.Random(0).shuffle(calls)
    for dtype, offset, with_bias, n, scale, square in calls[:100]:
        x = memory.to(dtype)[offset : offset + 100]
        bias = memory[200 + offset : 300 + offset] if with_bias else None
        results = []
        for way in (launch, lambda grid, *given, **meta: affine_kernel[grid](*given, **meta)):
            for _ in range(2):
                out = torch.zeros(100, dtype=dtype, device="cuda")[offset:]
                way((cdiv(n, 32),), x, bias, out, n, scale, BLOCK=32, SQUARE=square)
                results.append(out)
        assert all(torch.equal(one, results[0]) for one in results)
        wanted = expected(x, bias, n, scale, square).to(dtype)
        torch.testing.assert_close(results[0][:n], wanted, rtol=2e-2, atol=1e-2)
        assert not results[0][n:].any()
    assert launch.direct
    assert launch.reason == ""
    assert len(launch.entries) > 50


def test_which_way_is_taken(launch, way):
    x, out = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda")
    launch((2,), x, None, out, 64, 0.5, BLOCK=32)
    for key, entry in launch.entries.items():
        launch.entries[key] = entry._replace(run=refuse)
    if way == "c":
        for scale in (3.0, -1.0):
            launch((2,), x, None, out, 64, scale, BLOCK=32)
            assert torch.equal(out, scale * x)
    else:
        with pytest.raises(AssertionError, match="own launcher"):
            launch((2,), x, None, out, 64, 0.5, BLOCK=32)


def test_an_error_is_tritons(launch):
    x, out = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda")
    launch((2,), x, None, out, 64, 2, BLOCK=32)
    caught = []
    for call in (launch, lambda grid, *given, **meta: affine_kernel[grid](*given, **meta)):
        with pytest.raises(RuntimeError, match="invalid argument") as error:
            call((1, 70000), x, None, out, 64, 2, BLOCK=32)  # more than a grid may have
        caught.append(str(error.value))
    assert caught[0] == caught[1]
    launch((2,), x, None, out, 64, 2, BLOCK=32)
    assert torch.equal(out, 2 * x)


def test_a_thread_that_has_no_context_yet(launch):
    x, out = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda")
    launch((2,), x, None, out, 64, 2, BLOCK=32)
    errors = []

    def work():
        try:
            for _ in range(3):
                launch((2,), x, None, out, 64, 5, BLOCK=32)
        except Exception as error:
            errors.append(error)

    launch((2,), x, None, out, 64, 5, BLOCK=32)
    out.zero_()
    torch.cuda.synchronize()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert errors == []
    assert torch.equal(out, 5 * x)


def test_memory_that_the_device_cannot_read(launch):
    x = torch.ones(64, device="cuda")
    for _ in range(2):
        launch((2,), x, None, torch.zeros(64, device="cuda"), 64, 2, BLOCK=32)
    with pytest.raises(ValueError, match="cannot be accessed from Triton"):
        launch((2,), torch.ones(64), None, x, 64, 2, BLOCK=32)
    # Pinned memory can be read, and goes the same way.
    out = torch.zeros(64, device="cuda")
    launch((2,), torch.ones(64).pin_memory(), None, out, 64, 2, BLOCK=32)
    assert torch.equal(out, torch.full_like(out, 2))


def test_the_current_stream(launch):
    """A launch on a side stream comes after what that stream has to do, and not before."""
    x, out = torch.zeros(64, device="cuda"), torch.zeros(64, device="cuda")
    launch((2,), x, None, out, 64, 2, BLOCK=32)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    for _ in range(3):
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
            x.fill_(3)
            launch((2,), x, None, out, 64, 2, BLOCK=32)
        side.synchronize()
        assert torch.equal(out, torch.full_like(out, 6))
        x.zero_()
        out.zero_()
        torch.cuda.synchronize()


def test_a_capture_records_and_does_not_run(launch):
    x, out = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda")
    launch((2,), x, None, out, 64, 2, BLOCK=32)
    out.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch((2,), x, None, out, 64, 2, BLOCK=32)
    torch.cuda.synchronize()
    assert not out.any()
    x.fill_(5)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, torch.full_like(out, 10))


def test_exactly_one_launch_a_call():
    launch = launchable(count_kernel, num_warps=1)
    out = torch.zeros(1, dtype=torch.int32, device="cuda")
    for number in range(1, 6):
        launch((3,), out)
        assert int(out) == 3 * number
    launch((0,), out)
    launch((2, 3), out)
    launch([1, 1, 2], out)
    launch(lambda known: (known["out"].numel(),), out)
    assert int(out) == 15 + 6 + 2 + 1


def test_hooks_see_every_launch(launch):
    from triton import knobs

    x, out = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda")
    launch((2,), x, None, out, 64, 2, BLOCK=32)
    seen = []

    def hook(metadata):
        seen.append(metadata.get()["name"])

    knobs.runtime.launch_enter_hook.add(hook)
    try:
        launch((2,), x, None, out, 64, 2, BLOCK=32)
    finally:
        knobs.runtime.launch_enter_hook.remove(hook)
    launch((2,), x, None, out, 64, 2, BLOCK=32)
    assert seen == ["affine_kernel"]


def test_fixed_meta_parameters():
    x = torch.arange(64.0, device="cuda")
    for square in (False, True):
        for warps in (1, 4):
            launch = launchable(affine_kernel, BLOCK=64, SQUARE=square, num_warps=warps)
            for _ in range(2):
                out = torch.zeros(64, device="cuda")
                compiled = launch((1,), x, None, out, 64, 3)
                assert compiled.metadata.num_warps == warps
                assert torch.equal(out, expected(x, None, 64, 3, square))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_each_device_has_a_kernel_of_its_own(launch):
    for index in (0, 1, 0, 1):
        with torch.cuda.device(index):
            x = torch.ones(64, device="cuda")
            out = torch.zeros(64, device="cuda")
            launch((2,), x, None, out, 64, 2, BLOCK=32)
            assert torch.equal(out, 2 * x)
    assert len(launch.entries) == 2
