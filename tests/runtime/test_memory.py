"""Errors of memory: freed, moved, kept, overwritten: docs/runtime.md."""

from __future__ import annotations

import gc
import itertools
import weakref

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from pytest_rightfast import act, call, sizes
from rightfast.runtime import Buffers, Graphs, Tape

from .subject import WIDTH, Fast, Options, compare, rows

RECORD = pytest.mark.parametrize("record", [None, True])


@RECORD
def test_08_the_plan_is_evicted(backend, record):
    """The plan is made anew in memory where the old one was, if that was freed."""
    addresses = weakref.WeakKeyDictionary()

    def note(made):
        addresses[made] = made.table().data_ptr()

    def again(made):
        made.plan, kept = None, []
        for _ in range(200):
            kept.append(torch.full((WIDTH,), 0.25, device=made.flows.device))
            if kept[-1].data_ptr() == addresses[made]:
                break
        made.plan = kept[-1]

    steps = [*[call(rows(3))] * 3, act(note), act(again), *[call(rows(3))] * 3]
    steps += [call.evict(), *[call(rows(3))] * 3, call.backward()]
    compare(backend, steps, record=record)


def test_08_what_a_recording_uses_lives_as_long(backend):
    made = Fast(backend, record=True)
    made(rows(3, device=backend.device))
    used = [made.table(), made.buffers.get("y", (3,), device=backend.device), made.totals]
    memory = [StorageWeakRef(tensor.untyped_storage()) for tensor in used]
    del used
    made.evict()
    assert [one.expired() for one in memory] == [False] * 3
    made.forwards.clear()
    made.buffers.clear()
    made.totals = None
    assert [one.expired() for one in memory] == [True] * 3


@RECORD
def test_11_buffers_are_cut_anew(backend, record):
    steps = [call(rows(n)) for n in (32, 16, 40, 8, 8, 40, 16, 32, 8, 40, 40, 8)]
    compare(backend, steps, record=record)
    several = sizes(lambda n: call(rows(n)), (32, 16, 40, 8, 9, 1), length=24)
    compare(backend, several, record=record)


def test_11_a_smaller_batch_keeps_the_address_and_growing_drops_the_graphs(backend):
    made = Fast(backend, record=True)
    made(rows(32, device=backend.device))
    first = made.buffers.addresses()
    made(rows(16, device=backend.device))
    assert made.buffers.addresses() == first
    assert len(made.forwards) == 2
    made(rows(40, device=backend.device))
    assert made.buffers.addresses()["padded"] != first["padded"]
    assert len(made.forwards) == 1
    made(rows(8, device=backend.device))
    assert len(made.forwards) == 2


def test_12_memory_of_one_large_batch_is_let_go(backend):
    held = {}
    for record, batches in ((False, (16, 4096, 16)), (None, (16, 4096, 16))):
        made = Fast(backend, record=record)
        for n in batches:
            made(rows(n, device=backend.device))
            held[record, n] = made.buffers.nbytes
        assert made.buffers.nbytes == needs(16)
    assert held[False, 4096] > 100 * held[False, 16]


def test_12_memory_within_the_ratio_is_kept(backend):
    made = Fast(backend)
    for n in (16, 60, 16):
        made(rows(n, device=backend.device))
    assert made.buffers.nbytes == needs(60)


def test_12_memory_that_graphs_use_is_kept(backend):
    made = Fast(backend, record=True)
    for n in (4096, 16, 16):
        made(rows(n, device=backend.device))
    assert len(made.forwards) == 2
    assert made.buffers.nbytes == needs(4096)


@RECORD
def test_13_at_most_two_graphs_a_size(backend, record):
    def bounded(made):
        kept, made_so_far = len(made.forwards) + len(made.backwards), made.forwards.recordings
        return max(kept, made_so_far) <= 2 * 17 or f"{kept} graphs, {made_so_far} recordings"

    batches = range(10, 27)
    seeds = itertools.count()
    steps = sizes(lambda n: [call(rows(n, next(seeds))), call.backward()], batches, length=80)
    compare(backend, steps, check=bounded, hold=False, record=record)


def test_13_recordings_have_a_limit_and_the_least_recently_replayed_goes(backend):
    made = Fast(backend, record=True, most=3)
    for n in (5, 4, 3, 5, 4, 2):  # 3 is the one that was replayed least recently
        made(rows(n, device=backend.device))
    assert len(made.forwards) == 3
    before = made.forwards.replays
    for n in (5, 4, 2):
        made(rows(n, device=backend.device))
    assert made.forwards.replays == before + 3


@RECORD
def test_26_results_are_the_callers_own(backend, record):
    x = rows(3)
    steps = [call(x), call(rows(3, 1)), call.backward(), call(rows(3, 2)), call.backward()]
    compare(backend, [*steps, *steps], record=record)


def test_26_results_of_eager_calls_as_well(backend):
    made = Fast(backend, record=False)
    first = made(rows(3, device=backend.device))
    kept = first.clone()
    made(rows(3, seed=1, device=backend.device))
    assert torch.equal(first, kept)


def test_18_recording_keeps_no_memory_and_runs_once():
    buffers, runs = Buffers(), []

    def scratch_only(options, x):
        runs.append(1)
        wide = buffers.get("wide", (1000, *x.shape)).copy_(x)
        return torch.sum(wide, 0, out=buffers.get("y", x.shape))

    graphs = Graphs(scratch_only, record=None, buffers=buffers, backend=Tape())
    graphs(Options(), fed={"x": rows(3)})
    before = live_bytes()
    graphs(Options(), fed={"x": rows(3)})
    assert live_bytes() - before == 0
    assert graphs.recordings == 1
    assert len(runs) == 1 + 2  # once for real, once to be captured


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_18_recording_flushes_no_allocator():
    from rightfast.runtime import CudaGraphs

    def simple(options, x, y):
        torch.mul(x, 2.0, out=y)

    x, y = (torch.ones(2**20, device="cuda") for _ in range(2))
    first = Graphs(simple, record=True, backend=CudaGraphs())  # torch's own first allocation
    first(Options(), fed={"x": x}, bound={"y": y})
    graphs = Graphs(simple, backend=CudaGraphs(), record=None)
    graphs(Options(), fed={"x": x}, bound={"y": y})
    spare = torch.empty(2**28, dtype=torch.uint8, device="cuda")
    del spare  # cached now: a flush would give it back
    memory = (torch.cuda.memory_allocated, torch.cuda.memory_reserved)
    before = [read() for read in memory]
    graphs(Options(), fed={"x": x}, bound={"y": y})
    assert graphs.recordings == 1
    assert [read() for read in memory] == before


def needs(n):
    """Bytes of the buffers of `Fast` at this batch."""
    return ((n + 4) * WIDTH + WIDTH + n) * 4


def live_bytes():
    """Bytes of all memory that a dense tensor lies in, other tests' included."""
    gc.collect()
    found = {}
    for thing in gc.get_objects():
        if type(thing) not in (torch.Tensor, torch.nn.Parameter):
            continue
        if thing.device.type == "cpu" and thing.layout is torch.strided:
            storage = thing.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return sum(found.values())
