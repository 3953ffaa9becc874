# ruff: noqa: PT031  (a warning of any of several calls is what these tests are about)
"""`Graphs` beside the classes of error: what it refuses, what it keeps, what it says."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from dataclasses import dataclass

import pytest
import torch

from rightfast.runtime import Buffers, Graphs, NotRecorded, Tape

from .subject import WIDTH, Fast, Options, Plain, rows


@dataclass(frozen=True)
class None_:
    """No options."""


@dataclass
class Thawed:
    scale: float = 2.0


def double(options, x):
    return x * 2.0


def graphs_of(function, backend, **options):
    return Graphs(function, record=True, backend=backend, **options)


def numbers(backend, *values):
    return torch.tensor(values, device=backend.device)


class TestWhatIsGiven:
    @pytest.mark.parametrize("record", [False, None, True])
    def test_options_that_can_change(self, record):
        graphs = Graphs(double, record=record, backend=Tape())
        with pytest.raises(TypeError, match="frozen dataclass, got Thawed"):
            graphs(Thawed(), fed={"x": rows(2)})

    def test_a_tensor_as_an_option(self):
        with pytest.raises(TypeError, match="option 'scale' is a tensor"):
            graphs_of(double, Tape())(Options(scale=torch.ones(())), fed={"x": rows(2)})

    def test_a_number_as_a_tensor(self):
        with pytest.raises(TypeError, match="a tensor as 'x', got float"):
            graphs_of(double, Tape())(Options(), fed={"x": 2.0})

    def test_a_name_twice(self):
        x = rows(2)
        with pytest.raises(TypeError, match=r"once, got \['x'\]"):
            graphs_of(double, Tape())(Options(), fed={"x": x}, bound={"x": x.clone()})

    def test_state_without_an_object(self):
        with pytest.raises(TypeError, match="bound method"):
            Graphs(double, state=("rows",))
        with pytest.raises(TypeError, match="tuple of names"):
            Graphs(Fast(Tape())._forward, state="rows")

    def test_no_room(self):
        with pytest.raises(ValueError, match="most=1 or more, got 0"):
            Graphs(double, most=0)

    def test_options_that_equal_each_other_and_are_not_the_same(self, backend):
        """1 == 1.0 == True, 0.0 == -0.0, and NaN is not NaN."""

        def divided(options, x):
            return x / options.scale

        graphs = graphs_of(divided, backend)
        x = numbers(backend, 1.0, -2.0)
        values = [1, 1.0, True, 0.0, -0.0, float("nan")]
        for scale in [*values, *values]:
            got = graphs(Options(scale=scale), fed={"x": x})
            assert torch.equal(got.nan_to_num(7.0), (x / scale).nan_to_num(7.0))
        assert len(graphs) == graphs.replays == 6

    def test_a_list_as_an_option(self, backend):
        graphs = graphs_of(lambda options, x: x * len(options.partial), backend)
        columns = [1]
        with pytest.warns(NotRecorded, match="option 'partial' is a list, which may change"):
            for n in range(1, 4):
                x = numbers(backend, 2.0)
                assert graphs(Options(partial=columns), fed={"x": x}) == 2.0 * n
                columns.append(n)


class TestWhatIsNotRecorded:
    def test_a_fed_tensor_that_is_written(self, backend):
        graphs = graphs_of(lambda options, x: x.add_(1.0), backend)
        with pytest.warns(NotRecorded, match="writes to a tensor that is fed"):
            for n in range(3):
                x = numbers(backend, float(n))
                assert graphs(None_(), fed={"x": x}) == n + 1
                assert x == n + 1

    def test_fed_and_bound_in_one_memory(self, backend):
        def adds(options, x, y):
            y.add_(1.0)
            return x + y

        graphs = graphs_of(adds, backend)
        both = numbers(backend, 1.0, 2.0, 3.0)
        for _ in range(2):
            graphs(None_(), fed={"x": both[:2].clone()}, bound={"y": both[1:]})
        with pytest.warns(NotRecorded, match="share their memory"):
            got = graphs(None_(), fed={"x": both[:2]}, bound={"y": both[1:]})
        assert got.tolist() == [1.0 + 5.0, 5.0 + 6.0]

    def test_a_bound_tensor_that_is_negated(self, backend):
        z = torch.tensor([1.0 + 2.0j, 3.0 - 4.0j], device=backend.device)
        graphs = graphs_of(lambda options, y: y + 0.0, backend)
        for _ in range(2):
            assert torch.equal(graphs(None_(), bound={"y": z.imag}), z.imag)
        assert graphs.replays == 1
        with pytest.warns(NotRecorded, match="negated or conjugated"):
            assert torch.equal(graphs(None_(), bound={"y": z.conj().imag}), -z.imag)

    def test_a_subclass(self, backend):
        class Mine(torch.Tensor):
            pass

        graphs = graphs_of(double, backend)
        with pytest.warns(NotRecorded, match="subclass"):
            for n in range(2):
                got = graphs(None_(), fed={"x": numbers(backend, float(n)).as_subclass(Mine)})
                assert isinstance(got, Mine)
                assert got == 2 * n

    def test_a_transform(self, backend):
        graphs = graphs_of(double, backend)
        x = rows(3, device=backend.device)
        graphs(None_(), fed={"x": x[0]})
        with pytest.warns(NotRecorded, match=r"torch\.func"):
            got = torch.func.vmap(lambda row: graphs(None_(), fed={"x": row}))(x)
        assert torch.equal(got, x * 2.0)

    def test_a_capture_that_fails(self, backend):
        runs = []

        def second_fails(options, x):
            runs.append(1)
            if len(runs) == 2:
                raise RuntimeError("not again")
            return x * 2.0

        graphs = graphs_of(second_fails, backend)
        with pytest.warns(NotRecorded, match="not again"):
            for n in range(3):
                assert graphs(None_(), fed={"x": numbers(backend, float(n))}) == 2 * n
        assert len(runs) == 4

    def test_a_pass_that_fails(self, backend):
        def fails(options, x):
            raise KeyError("the pass's own")

        graphs = graphs_of(fails, backend)
        with pytest.raises(KeyError, match="own"):
            graphs(None_(), fed={"x": numbers(backend, 1.0)})

    def test_compiled_by_dynamo(self):
        graphs = graphs_of(double, Tape())
        compiled = torch.compile(lambda x: graphs(None_(), fed={"x": x}), backend="eager")
        for n in range(3):
            assert torch.equal(compiled(rows(3, n)), rows(3, n) * 2.0)


class Keeps:
    """Leaves what its pass is told to leave."""

    def __init__(self, backend, names, leave):
        self.leave = leave
        self.graphs = Graphs(self._run, record=True, backend=backend, state=names)

    def _run(self, options, x):
        self.leave(self, x)
        return x * 2.0

    def __call__(self, x):
        return self.graphs(None_(), fed={"x": x})


def test_an_attribute_that_is_not_declared(backend):
    """The same small number as before: no comparison of values would see that it was set."""

    def leave(self, x):
        self.rows = len(x)

    made = Keeps(backend, (), leave)
    made.rows = 3
    with pytest.warns(NotRecorded, match=r"sets \['rows'\] .*state=\('rows',\)"):
        made(rows(3, device=backend.device))
    made(rows(4, device=backend.device))
    made(rows(3, device=backend.device))
    assert made.rows == 3
    assert len(made.graphs) == 0
    assert type(made) is Keeps


def test_a_list_in_the_state(backend):
    def leave(self, x):
        self.levels = [x + 1.0]
        self.levels.append({"twice": x * 2.0})

    made = Keeps(backend, ("levels",), leave)
    for n in range(4):
        x = rows(3, n, device=backend.device)
        made(x)
        first, second = made.levels
        assert torch.equal(first, x + 1.0)
        assert torch.equal(second["twice"], x * 2.0)
        made.levels.clear()
    assert made.graphs.replays == 3


def test_state_that_another_pass_sets_is_left_alone(backend):
    made = Keeps(backend, ("mine", "others"), lambda self, x: setattr(self, "mine", len(x)))
    made.others = "before"
    x = rows(3, device=backend.device)
    made(x)
    made.others = "after"
    made(x)
    assert made.graphs.replays == 1
    assert made.others == "after"


def test_state_that_is_not_understood(backend):
    made = Keeps(backend, ("seen",), lambda self, x: setattr(self, "seen", {1, 2}))
    with pytest.warns(NotRecorded, match="state 'seen' holds a set"):
        made(rows(3, device=backend.device))
    assert made.seen == {1, 2}


def test_absent_tensors_and_nested_results(backend):
    def optional(options, x, mask, out):
        y = x if mask is None else x * mask
        return {"y": y + 1.0, "more": (out, [None, 3])}

    graphs = graphs_of(optional, backend)
    x, out = rows(3, device=backend.device), rows(1, device=backend.device)
    for mask in (None, x, None, x):
        got = graphs(None_(), fed={"x": x, "mask": mask}, bound={"out": out})
        assert torch.equal(got["y"], (x if mask is None else x * mask) + 1.0)
        assert got["more"][0] is out
        assert got["more"][1] == [None, 3]
    assert graphs.replays == 2


def test_two_cuts_of_one_buffer_in_a_pass(backend):
    buffers = Buffers()

    def layers(options, x):
        device = x.device
        wide = buffers.get("sum", (3, WIDTH), torch.float32, device).add_(x)
        total = wide.sum(1)
        narrow = buffers.get("sum", (3,), torch.float32, device).add_(total)
        return narrow + 0.0

    graphs = graphs_of(layers, backend, buffers=buffers)
    for n in range(4):
        x = rows(3, n, device=backend.device)
        assert torch.equal(graphs(None_(), fed={"x": x}), x.sum(1))
    assert graphs.replays == 3


def test_inference_mode(backend):
    made, plain = Fast(backend, record=True), Plain(backend.device)
    for n, inference in enumerate((True, False, True, False)):
        with torch.inference_mode(inference):
            x = rows(3, n, device=backend.device)
            assert torch.equal(made(x), plain(x))
    assert made.forwards.replays == 2


def test_an_object_is_not_kept_alive():
    made = Fast(Tape(), record=True)
    made(rows(3))
    gone = weakref.ref(made)
    gc.collect()
    gc.disable()
    try:
        del made
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_a_copy_records_for_itself(copied):
    made = Fast(Tape(), record=True)
    made(rows(3))
    other, plain = copied(made), Plain()
    plain.load_state_dict(made.state_dict())
    assert len(other.forwards) == 0
    other.weight.mul_(2.0)
    plain.weight.mul_(2.0)
    for _ in range(2):
        assert torch.equal(other(rows(3)), plain(rows(3)))
    assert len(other.forwards) == 1
    other(rows(300))  # its own buffers move, and take its own graphs along
    assert len(made.forwards) == 1
    assert len(other.forwards) == 1


def test_threads_take_turns(backend):
    made, plain = Fast(backend, record=True), Plain(backend.device)
    inputs = [rows(3, n, device=backend.device) for n in range(20)]
    wanted, wrong = [plain(x) for x in inputs], []

    def work():
        for x, right in zip(inputs, wanted):
            if not torch.equal(made(x), right):
                wrong.append(x)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_streams_wait_for_each_other():
    from rightfast.runtime import CudaGraphs

    def slow(options, x, y):
        torch.cuda._sleep(10_000_000)
        y.add_(x)
        return y + 0.0

    y = torch.zeros(1000, device="cuda")
    graphs = graphs_of(slow, CudaGraphs())
    streams = [torch.cuda.Stream() for _ in range(2)]
    results = []
    for n in range(6):
        with torch.cuda.stream(streams[n % 2]):
            results.append(
                graphs(None_(), fed={"x": torch.ones(1000, device="cuda")}, bound={"y": y})
            )
    torch.cuda.synchronize()
    assert [int(r[0]) for r in results] == [1, 2, 3, 4, 5, 6]
