"""Errors of what a recording is found by: docs/runtime.md."""

from __future__ import annotations

import pytest
import torch

from pytest_rightfast import act, call, put, swap, toggled
from rightfast.runtime import Graphs, NotRecorded

from .subject import VALUES, WIDTH, Options, compare, rows

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
