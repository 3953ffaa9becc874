# ruff: noqa: PT031  (a warning of any of several calls is what these tests are about)
"""The classes of silent error of recorded work, one sequence of calls each: docs/runtime.md."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import warnings
import weakref

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from pytest_rightfast import CallLog, act, call, drawn, put, sizes, swap, toggled
from rightfast.runtime import Buffers, Graphs, NotRecorded, Tape

from .subject import RUNS, VALUES, WIDTH, BackwardOptions, Fast, Options, Plain, compare, rows

RECORD = pytest.mark.parametrize("record", [None, True])


class TestKey:
    @RECORD
    @pytest.mark.parametrize("name", ["weight", "plan"])
    def test_01_memory_under_a_tensor_is_swapped(self, backend, record, name):
        steps = [*[call(rows(3))] * 3, swap(name), *[call(rows(3))] * 3, call.backward()]
        compare(backend, steps, record=record)

    @RECORD
    def test_01_memory_under_an_argument_is_swapped(self, backend, record):
        out = torch.zeros(3, device=backend.device)
        steps = [*[call(rows(3), out=out)] * 3, swap(out), *[call(rows(3), out=out)] * 2]
        compare(backend, steps, record=record)

    @RECORD
    def test_03_every_option_counts(self, backend, record):
        """The options come from the fields of the dataclass: a new one is covered as well."""
        x = rows(3, device=backend.device)
        found = toggled(Options, lambda **o: call(x, **o), VALUES, fixed=["hook"])
        assert len(found) >= 7
        compare(backend, found, record=record)

    def test_03_modes_of_torch_count(self, backend):
        """What an operator computes is decided outside of the options, too."""
        graphs = Graphs(lambda options, x, w: x @ w, record=True, backend=backend)
        x, w = (torch.linspace(-1, 1, 16, device=backend.device).view(4, 4) for _ in range(2))
        for enabled in (False, True, True, False):
            with torch.autocast(backend.device, dtype=torch.bfloat16, enabled=enabled):
                got, right = graphs(Options(), fed={"x": x}, bound={"w": w}), x @ w
            assert got.dtype == right.dtype
            assert torch.equal(got, right)
        assert len(graphs) == 2
        assert graphs.replays == 2

    @RECORD
    def test_05_what_is_fed_is_fresh(self, backend, record):
        x = rows(4, seed=9)
        mask = torch.linspace(-1, 1, WIDTH)
        steps = [call(rows(4, seed=n)) for n in range(4)]
        steps += [call(x), swap(x), call(x), call(x, mask=mask), call(x, mask=-mask), call(x)]
        steps += [call(x.t().contiguous().t()), call(x[:1].expand(4, WIDTH)), call(x)]
        compare(backend, steps, record=record)

    @RECORD
    def test_09_structure_is_an_option(self, backend, record):
        x = rows(3)
        on, off, other = put(partial=(0,)), put(partial=()), put(partial=(1,))
        steps = [on, *[call(x)] * 3, off, *[call(x)] * 3, on, call(x), other, *[call(x)] * 3]
        compare(backend, steps, record=record)
        compare(backend, [off, *[call(x)] * 3, on, *[call(x)] * 3], record=record)

    @RECORD
    def test_10_a_move_leaves_no_stale_pointer(self, backend, record):
        # Of the larger type first, so that no buffer grows, which would drop the graphs.
        steps = [call.double(), *[call(rows(3))] * 3, call.float(), *[call(rows(3))] * 3]
        steps += [*steps, swap("weight"), *steps, call.backward()]
        compare(backend, steps, record=record)

    @pytest.mark.gpu
    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
    def test_10_to_the_cpu_and_back(self):
        from rightfast.runtime import CudaGraphs

        def moved(made, device):
            made.to(device).evict()
            made.flows = made.flows.to(device)

        def on(device):
            return [call(rows(3, device=device)) for _ in range(3)]

        there, back = act(moved, "cpu"), act(moved, "cuda")
        steps = [*on("cuda"), there, *on("cpu"), back, *on("cuda")]
        with pytest.warns(NotRecorded, match="not on cpu"):
            compare(CudaGraphs(), steps, move=False, recorded=None, record=True)


class TestState:
    @RECORD
    def test_06_state_is_set_by_every_call(self, backend, record):
        b32, b16 = rows(32), rows(16)
        steps = [call(b32), call(b16)] * 2 + [call(b32), call.backward()] * 3
        compare(backend, [*steps, call(b16), call.backward()], record=record)

    @RECORD
    def test_07_state_belongs_to_the_latest_call(self, backend, record):
        x = rows(3)
        a, b = call(x, log=True), call(x, scale=3.0)
        steps = [a, call.backward(), a, call.backward(), b, b, call.backward()]
        steps += [a, call.backward(), b, a, call.backward(), call.backward()]
        compare(backend, steps, record=record)

    @RECORD
    def test_02_recording_runs_once_for_real(self, backend, record):
        """Flows of the recording step equal an eager step's and a replay's, linear and log."""
        for log in (False, True):
            steps = [call(rows(3, seed=n), log=log) for n in range(5)]
            for made in compare(backend, steps, record=record):
                assert made.forwards.recordings == 1

    @RECORD
    def test_02_random_numbers_are_drawn_once(self, backend, record):
        compare(backend, [call(rows(3, seed=n), noise=True) for n in range(5)], record=record)

    def test_25_from_any_state_of_the_generator(self):
        """150 scrambled states: the answers, and the state that is left, are an eager run's."""
        for seed in range(150):
            left = []
            for make in (Plain, lambda: Fast(Tape(), record=True)):
                torch.manual_seed(seed)
                made = make()
                got = [made(torch.randn(2, WIDTH), noise=True) for _ in range(3)]
                left.append([*got, torch.get_rng_state()])
            assert all(map(torch.equal, *left)), seed

    def test_04_a_callback_runs_every_time(self, backend):
        with pytest.warns(NotRecorded, match="option 'hook' is callable") as found:
            compare(backend, [call(rows(3), hook=CallLog())] * 4, recorded=False, record=True)
        assert reasons(found) == 2  # one for each of the two objects that were made


class TestMemory:
    @RECORD
    def test_08_the_plan_is_evicted(self, backend, record):
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

    def test_08_what_a_recording_uses_lives_as_long(self, backend):
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
    def test_11_buffers_are_cut_anew(self, backend, record):
        steps = [call(rows(n)) for n in (32, 16, 40, 8, 8, 40, 16, 32, 8, 40, 40, 8)]
        compare(backend, steps, record=record)
        several = sizes(lambda n: call(rows(n)), (32, 16, 40, 8, 9, 1), length=24)
        compare(backend, several, record=record)

    def test_11_a_smaller_batch_keeps_the_address_and_growing_drops_the_graphs(self, backend):
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

    def test_12_memory_of_one_large_batch_is_let_go(self, backend):
        held = {}
        for record, batches in ((False, (16, 4096, 16)), (None, (16, 4096, 16))):
            made = Fast(backend, record=record)
            for n in batches:
                made(rows(n, device=backend.device))
                held[record, n] = made.buffers.nbytes
            assert made.buffers.nbytes == needs(16)
        assert held[False, 4096] > 100 * held[False, 16]

    def test_12_memory_within_the_ratio_is_kept(self, backend):
        made = Fast(backend)
        for n in (16, 60, 16):
            made(rows(n, device=backend.device))
        assert made.buffers.nbytes == needs(60)

    def test_12_memory_that_graphs_use_is_kept(self, backend):
        made = Fast(backend, record=True)
        for n in (4096, 16, 16):
            made(rows(n, device=backend.device))
        assert len(made.forwards) == 2
        assert made.buffers.nbytes == needs(4096)

    @RECORD
    def test_13_at_most_two_graphs_a_size(self, backend, record):
        def bounded(made):
            kept, made_so_far = len(made.forwards) + len(made.backwards), made.forwards.recordings
            return max(kept, made_so_far) <= 2 * 17 or f"{kept} graphs, {made_so_far} recordings"

        batches = range(10, 27)
        seeds = itertools.count()
        steps = sizes(lambda n: [call(rows(n, next(seeds))), call.backward()], batches, length=80)
        compare(backend, steps, check=bounded, hold=False, record=record)

    def test_13_recordings_have_a_limit_and_the_least_recently_replayed_goes(self, backend):
        made = Fast(backend, record=True, most=3)
        for n in (5, 4, 3, 5, 4, 2):  # 3 is the one that was replayed least recently
            made(rows(n, device=backend.device))
        assert len(made.forwards) == 3
        before = made.forwards.replays
        for n in (5, 4, 2):
            made(rows(n, device=backend.device))
        assert made.forwards.replays == before + 3

    @RECORD
    def test_26_results_are_the_callers_own(self, backend, record):
        x = rows(3)
        steps = [call(x), call(rows(3, 1)), call.backward(), call(rows(3, 2)), call.backward()]
        compare(backend, [*steps, *steps], record=record)

    def test_26_results_of_eager_calls_as_well(self, backend):
        made = Fast(backend, record=False)
        first = made(rows(3, device=backend.device))
        kept = first.clone()
        made(rows(3, seed=1, device=backend.device))
        assert torch.equal(first, kept)

    def test_18_recording_keeps_no_memory_and_runs_once(self):
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
    def test_18_recording_flushes_no_allocator(self):
        from rightfast.runtime import CudaGraphs

        def simple(options, x, y):
            torch.mul(x, 2.0, out=y)

        x, y = torch.ones(2, 2**20, device="cuda")
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


class TestPolicy:
    @pytest.mark.gpu
    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
    def test_14_another_thread_pins_memory_during_a_capture(self):
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
    def test_15_a_wait_for_the_device_is_tried_once(self, backend, sync):
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

    def test_16_inside_the_callers_capture(self, backend):
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

    def test_16_warns_once_inside_the_callers_capture(self, backend):
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

    def test_16_on_the_cpu(self):
        made, plain = Fast(Tape(), record=True), Plain()
        made.forwards = Graphs(made._forward, record=True, state=made.forwards.state)
        with pytest.warns(NotRecorded, match="CUDA") as found:
            for n in range(3):
                assert torch.equal(made(rows(3, n)), plain(rows(3, n)))
        assert reasons(found) == 1
        assert len(made.forwards) == 0

    def test_16_with_a_parameter_that_is_not_declared(self, backend):
        gate = torch.full((WIDTH,), 2.0, device=backend.device)
        graphs = Graphs(lambda options, x: x * gate, record=True, backend=backend)
        with pytest.warns(NotRecorded, match="neither fed nor bound") as found:
            for n in range(4):
                x = rows(3, n, device=backend.device)
                assert torch.equal(graphs(Options(), fed={"x": x}), x * gate)
                gate = gate + 1.0
        assert reasons(found) == 1
        assert len(graphs) == 0

    def test_16_where_a_gradient_is_wanted(self, backend):
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
    def test_17_when_a_call_is_recorded(self, backend, record, counts):
        made, seen = Fast(backend, record=record), []
        for n in range(3):
            made(rows(3, seed=n, device=backend.device))
            seen.append(len(made.forwards))
        assert seen == counts

    def test_17_off_by_default(self, backend):
        graphs = Graphs(lambda options, x: x * 2.0, backend=backend)
        for _ in range(3):
            graphs(Options(), fed={"x": rows(3, device=backend.device)})
        assert len(graphs) == 0

    def test_17_what_keeps_changing_is_named(self, backend):
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

    def test_24_host_work_of_a_replay(self):
        """Operators: a copy for each fed tensor, a copy of each result, a view of bound memory."""
        counter = Operators()
        graphs = Graphs(several, record=True, backend=Nothing(), buffers=Buffers())
        flows = torch.zeros(WIDTH)
        for n in range(6):
            fed = {"x": rows(3, n), "y": rows(3, n)}
            with counter:
                graphs(Options(), fed=fed, bound={"flows": flows})
        replays = counter.seen[1:]
        assert graphs.replays == 5
        assert replays == [["copy_", "copy_", "clone", "clone", "detach"]] * 5

    def test_24_python_calls_of_a_replay(self):
        """Exact, and the same at every step: what creeps back shows here first."""
        graphs = Graphs(several, record=True, backend=Nothing(), buffers=Buffers())
        flows, x = torch.zeros(WIDTH), rows(3)
        options, fed, bound = BackwardOptions(3, False), {"x": x, "y": x.clone()}, {"flows": flows}
        counts = [python_calls(lambda: graphs(options, fed=fed, bound=bound)) for _ in range(6)]
        assert counts[1:] == [16] * 5

    def test_random_walks(self, backend):
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


def reasons(found):
    """How many reasons were given against recording."""
    return sum(one.category is NotRecorded for one in found)


def needs(n):
    """Bytes of the buffers of `Fast` at this batch."""
    return ((n + 4) * WIDTH + WIDTH + n) * 4


def several(options, x, y, flows):
    flows.add_(x.sum(0))
    return x * 2.0, y + 1.0, flows[:2]


class Nothing(Tape):
    """A tape that is empty: what is left is the host's own work."""

    def capture(self, body, known, fed):
        result, _ = super().capture(body, known, fed)
        return result, self

    def replay(self):
        """Nothing."""


class Operators(torch.utils._python_dispatch.TorchDispatchMode):
    """The names of the operators of each block."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __enter__(self):
        self.seen.append([])
        return super().__enter__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen[-1].append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def python_calls(work):
    """Calls of functions of the runtime's own files."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call" and "rightfast/runtime" in frame.f_code.co_filename

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def live_bytes():
    """Bytes of all memory that a tensor lies in."""
    gc.collect()
    found = {}
    for thing in gc.get_objects():
        if type(thing) in (torch.Tensor, torch.nn.Parameter) and thing.device.type == "cpu":
            storage = thing.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return sum(found.values())
