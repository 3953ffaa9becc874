# ruff: noqa: PT031  (a warning of any of several calls is what these tests are about)
"""When a pass is recorded, and where it must not be: docs/runtime.md."""

from __future__ import annotations

import threading
import warnings

import pytest
import torch

from pytest_rightfast import call, drawn, put, swap
from rightfast.runtime import Buffers, Graphs, NotRecorded, Tape

from .subject import RUNS, WIDTH, Fast, Options, Plain, compare, reasons, rows

RECORD = pytest.mark.parametrize("record", [None, True])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_14_another_thread_pins_memory_during_a_capture():
    from rightfast.runtime import CudaGraphs

    seen = []

    def pins():
        # Not the device: nobody may wait for all of it while a stream of it is captured.
        seen.append(torch.empty(2 ** (22 + len(seen))).pin_memory().is_pinned())  # not cached

    def beside(options, x):
        y = x * 2.0
        thread = threading.Thread(target=pins)
        thread.start()
        thread.join()
        return y + 1.0

    graphs = Graphs(beside, record=True, backend=CudaGraphs())
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotRecorded)
        for n in range(3):
            x = torch.full((4,), float(n), device="cuda")
            assert torch.equal(graphs(Options(), fed={"x": x}), x * 2.0 + 1.0)
    assert seen == [True, True]  # the real run and the capture
    assert graphs.replays == 2


@pytest.mark.parametrize(
    "sync",
    [
        lambda h: float(h.sum()),
        lambda h: h.nonzero(),
        lambda h: h[h > 0],
        lambda h: bool(h.any()),
        lambda h: h.tolist(),
        lambda h: torch.equal(h, h),
        lambda h: h.cpu().numpy(),
    ],
    ids=["item", "nonzero", "mask", "bool", "tolist", "equal", "numpy"],
)
def test_15_a_wait_for_the_device_is_tried_once(backend, sync):
    def setup(made):
        made.before = sync

    tries = 0
    with pytest.warns(NotRecorded) as found:
        objects = compare(
            backend,
            [call(rows(3, seed=n)) for n in range(5)],
            setup=setup,
            recorded=False,
            record=True,
        )
    assert reasons(found) == len(objects)
    RUNS.clear()
    made = Fast(backend, record=True)
    setup(made)
    with pytest.warns(NotRecorded):
        for n in range(5):
            made(rows(3, seed=n, device=backend.device))
    tries = len(RUNS) - 5
    assert tries == 1
    assert len(made.forwards) == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_15_a_wait_that_no_operator_shows():
    """CUDA ends such a capture as invalid; nothing of it may stay behind."""
    from rightfast.runtime import CudaGraphs

    waits = [True]

    def scaled(options, x):
        y = x * options.scale
        if waits[0]:
            torch.cuda.synchronize()
        return y + 1.0

    graphs = Graphs(scaled, record=True, backend=CudaGraphs())
    torch.cuda.empty_cache()
    with pytest.warns(NotRecorded, match="captur") as found:
        for n in range(4):
            x = torch.full((2**20,), float(n), device="cuda")
            assert torch.equal(graphs(Options(), fed={"x": x}), x * 2.0 + 1.0)
    assert reasons(found) == 1
    assert len(graphs) == 0
    del x
    graphs = Graphs(scaled, record=True, backend=CudaGraphs())
    waits[0] = False
    for n in range(3):
        x = torch.full((2**20,), float(n), device="cuda")
        assert torch.equal(graphs(Options(), fed={"x": x}), x * 2.0 + 1.0)
    assert graphs.replays == 2
    kept = torch.cuda.memory_allocated()
    torch.empty(2**24, device="cuda")
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() == kept
    assert torch.cuda.memory_reserved() < kept + 4 * 2**24  # bytes of what was freed


def test_16_inside_the_callers_capture(backend):
    """What the caller records holds our pass, on memory that none of our calls frees."""
    inner = Fast(backend, record=True)
    plain = Plain(backend.device)
    device = backend.device
    bound = {"weight": inner.weight, "table": inner.table(), "flows": inner.flows}

    def outer(options, x, **bound):
        return inner(x) + 1.0

    for _ in range(2):
        assert torch.equal(inner(rows(3, device=device)), plain(rows(3, device=device)))
    graphs = Graphs(outer, record=True, backend=type(backend)())
    for n, batch in enumerate((3, 3, 40, 3, 3)):
        x = rows(batch, seed=n, device=device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotRecorded)
            got = graphs(Options(), fed={"x": x}, bound=bound)
        assert torch.equal(got, plain(x) + 1.0)
        assert torch.equal(inner.flows, plain.flows)
    assert graphs.replays == 2  # the larger batch moved what the others were recorded on


def test_16_warns_once_inside_the_callers_capture(backend):
    inner = Fast(backend, record=True)
    bound = {"weight": inner.weight, "table": inner.table(), "flows": inner.flows}
    for _ in range(2):
        inner(rows(3, device=backend.device))

    def outer(options, x, **bound):
        return inner(x) + inner(x)

    graphs = Graphs(outer, record=True, backend=type(backend)())
    with pytest.warns(NotRecorded, match="the caller captures") as found:
        graphs(Options(), fed={"x": rows(3, device=backend.device)}, bound=bound)
    assert reasons(found) == 1


def test_16_on_the_cpu():
    made, plain = Fast(Tape(), record=True), Plain()
    made.forwards = Graphs(made._forward, record=True, state=made.forwards.state)
    with pytest.warns(NotRecorded, match="CUDA") as found:
        for n in range(3):
            assert torch.equal(made(rows(3, n)), plain(rows(3, n)))
    assert reasons(found) == 1
    assert len(made.forwards) == 0


def test_16_with_a_parameter_that_is_not_declared(backend):
    gate = torch.full((WIDTH,), 2.0, device=backend.device)
    graphs = Graphs(lambda options, x: x * gate, record=True, backend=backend)
    with pytest.warns(NotRecorded, match="neither fed nor bound") as found:
        for n in range(4):
            x = rows(3, n, device=backend.device)
            assert torch.equal(graphs(Options(), fed={"x": x}), x * gate)
            gate = gate + 1.0
    assert reasons(found) == 1
    assert len(graphs) == 0


def test_16_where_a_gradient_is_wanted(backend):
    class Differentiable:
        def __init__(self, record):
            self.graphs = Graphs(
                lambda options, x: x * x, record=record, backend=backend, buffers=Buffers()
            )

        def __call__(self, x):
            return self.graphs(Options(), fed={"x": x})

    for record in (None, True):
        made = Differentiable(record)
        with pytest.warns(NotRecorded, match="gradient"):
            for _ in range(3):
                x = rows(3, device=backend.device).requires_grad_()
                (gradient,) = torch.autograd.grad(made(x).sum(), x)
                assert torch.equal(gradient, 2 * x)


@pytest.mark.parametrize(
    ("record", "counts"), [(None, [0, 1, 1]), (True, [1, 1, 1]), (False, [0, 0, 0])], ids=str
)
def test_17_when_a_call_is_recorded(backend, record, counts):
    made, seen = Fast(backend, record=record), []
    for n in range(3):
        made(rows(3, seed=n, device=backend.device))
        seen.append(len(made.forwards))
    assert seen == counts


def test_17_off_by_default(backend):
    graphs = Graphs(lambda options, x: x * 2.0, backend=backend)
    for _ in range(3):
        graphs(Options(), fed={"x": rows(3, device=backend.device)})
    assert len(graphs) == 0


def test_17_what_keeps_changing_is_named(backend):
    made, plain = Fast(backend, record=True), Plain(backend.device)
    with pytest.warns(NotRecorded, match=r"recorded 8 times.* option 'scale'$") as found:
        for n in range(12):
            x = rows(3, n, device=backend.device)
            assert torch.equal(made(x, scale=1.0 + n), plain(x, scale=1.0 + n))
    assert reasons(found) == 1
    assert len(made.forwards) == 8
    before = made.forwards.replays
    made(x, scale=1.0)  # what was recorded is still replayed
    assert made.forwards.replays == before + 1


def test_random_walks(backend):
    """All of the above in any order."""
    x, out = rows(3), torch.zeros(3, device=backend.device)
    alphabet = [
        *(call(rows(n, seed)) for n, seed in ((3, 1), (8, 2), (40, 3))),
        call(x),
        call(x, log=True),
        call(x, out=out),
        call(x, noise=True),
        call.backward(),
        call.evict(),
        swap("weight"),
        swap(out),
        put(partial=(1,)),
        put(partial=()),
    ]
    walks = drawn(alphabet, length=30, count=3, seed=4)
    compare(backend, walks, record=True)
