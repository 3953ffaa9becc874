"""Errors of what a recording is found by: docs/runtime.md."""

from __future__ import annotations

import copy
import enum
from dataclasses import dataclass

import pytest
import torch

from pytest_rightfast import act, call, put, swap, toggled
from rightfast.runtime import Graphs, NotRecordable, NotRecorded, Tape
from rightfast.runtime.keys import key_of, options_key

from .subject import VALUES, WIDTH, Options, compare, rows


class Number(enum.IntEnum):
    ZERO = 0


class Other(enum.IntEnum):
    ZERO = 0


@dataclass(frozen=True)
class Pair:
    one: object
    other: object


RECORD = pytest.mark.parametrize("record", [None, True])


@RECORD
@pytest.mark.parametrize("name", ["weight", "plan"])
def test_01_memory_under_a_tensor_is_swapped(backend, record, name):
    steps = [*[call(rows(3))] * 3, swap(name), *[call(rows(3))] * 3, call.backward()]
    compare(backend, steps, record=record)


@RECORD
def test_01_memory_under_an_argument_is_swapped(backend, record):
    out = torch.zeros(3, device=backend.device)
    steps = [*[call(rows(3), out=out)] * 3, swap(out), *[call(rows(3), out=out)] * 2]
    compare(backend, steps, record=record)


@RECORD
def test_03_every_option_counts(backend, record):
    """The options come from the fields of the dataclass: a new one is covered as well."""
    x = rows(3, device=backend.device)
    found = toggled(Options, lambda **o: call(x, **o), VALUES, fixed=["hook"])
    assert len(found) >= 7
    compare(backend, found, record=record)


def test_03_values_that_are_equal_and_not_the_same():
    class Real(float):
        pass

    class Few(tuple):
        pass

    values = [0, False, 0.0, -0.0, float("nan"), "nan", "0x0.0p+0", None, 0j, -0j, (), (0,), (0.0,)]
    values += [(-0.0,), (False,), ((0,),), frozenset(), frozenset({0}), frozenset({0.0}), Real(0)]
    values += [Few(), Few((0,)), b"", "", Number.ZERO, Other.ZERO, Pair(0, 1), Pair(False, 1)]
    values += [Pair(Pair(0, 1), 1), int, bool, torch.float32, torch.float16, torch.device("cpu")]
    values += [1, True, 1.0, 2**53, 2.0**53, 2**53 + 1, float("inf"), float("-inf")]
    keys = [options_key(Pair(value, 1)) for value in values]
    assert len(set(keys)) == len(keys)
    assert [options_key(Pair(copy.deepcopy(value), 1)) for value in values] == keys


@pytest.mark.parametrize("base", [float, tuple, frozenset, complex, Pair])
def test_03_attributes_that_are_no_fields(base):
    """An instance of a subclass may have some, though its base is frozen."""
    kind = type("Loose", (base,), {})
    options = kind(1, 2) if base is Pair else Pair(kind(), 1)
    assert options_key(options) == options_key(options)
    (options if base is Pair else options.one).more = 1
    with pytest.raises(NotRecordable, match=r"more|Loose"):
        options_key(options)


@pytest.mark.parametrize("name", ["cuda", "mkldnn"])
def test_03_precision_that_is_set_by_backend(name):
    owner = getattr(torch.backends, name).matmul
    before, found = owner.fp32_precision, set()
    try:
        for value in ("ieee", "tf32", "bf16") if name == "mkldnn" else ("ieee", "tf32"):
            owner.fp32_precision = value
            found.add(key_of(Options(), {}, {}, Tape()))
    finally:
        owner.fp32_precision = before
    assert len(found) == (3 if name == "mkldnn" else 2)


def test_03_modes_of_torch_count(backend):
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
def test_05_what_is_fed_is_fresh(backend, record):
    x = rows(4, seed=9)
    mask = torch.linspace(-1, 1, WIDTH)
    steps = [call(rows(4, seed=n)) for n in range(4)]
    steps += [call(x), swap(x), call(x), call(x, mask=mask), call(x, mask=-mask), call(x)]
    steps += [call(x.t().contiguous().t()), call(x[:1].expand(4, WIDTH)), call(x)]
    compare(backend, steps, record=record)


@RECORD
def test_09_structure_is_an_option(backend, record):
    x = rows(3)
    on, off, other = put(partial=(0,)), put(partial=()), put(partial=(1,))
    steps = [on, *[call(x)] * 3, off, *[call(x)] * 3, on, call(x), other, *[call(x)] * 3]
    compare(backend, steps, record=record)
    compare(backend, [off, *[call(x)] * 3, on, *[call(x)] * 3], record=record)


@RECORD
def test_10_a_move_leaves_no_stale_pointer(backend, record):
    # Of the larger type first, so that no buffer grows, which would drop the graphs.
    steps = [call.double(), *[call(rows(3))] * 3, call.float(), *[call(rows(3))] * 3]
    steps += [*steps, swap("weight"), *steps, call.backward()]
    compare(backend, steps, record=record)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_10_to_the_cpu_and_back():
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
