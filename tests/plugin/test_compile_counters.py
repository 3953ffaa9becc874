"""The `torch.compile` arm: breaks and recompilations are exact, seconds are not and stand apart."""

from __future__ import annotations

import os

import pytest
import torch

from pytest_rightfast import CaseError, call, compile_counters, compiled
from pytest_rightfast.case import Call
from pytest_rightfast.compile_counters import note
from pytest_rightfast.fixture import Perf, PerfSession
from pytest_rightfast.options import Options
from pytest_rightfast.results import Row


def smooth(x):
    return x.sin() * x.shape[0]


def breaks(x):
    y = x.sin()
    torch._dynamo.graph_break()
    y = y.cos()
    torch._dynamo.graph_break()
    return y + 1


def breaks_when_long(x):
    if x.shape[0] > 4:
        torch._dynamo.graph_break()
    return x + 1


SHAPES = [torch.ones(n) for n in (4, 5, 6, 4, 3)]


def measure(function, **options):
    arm = compiled(function, backend="eager", time_compile=False, **options)
    return arm.measure(Call((torch.ones(3),)))


def test_a_whole_graph_at_one_shape():
    found = measure(smooth)
    assert found.counters == {
        "compile/graphs": 1,
        "compile/graph_breaks": 0,
        "compile/recompilations": 0,
        "compile/fallbacks": 0,
    }
    assert found.seconds is None


def test_graph_breaks_are_counted_with_their_reasons():
    found = measure(breaks)
    assert (found.graph_breaks, found.graphs) == (2, 3)
    assert found.reasons
    assert all("\n" not in reason for reason in found.reasons)


def test_a_break_that_one_input_has_is_counted():
    assert measure(breaks_when_long).graph_breaks == 0
    assert measure(breaks_when_long, over=SHAPES).graph_breaks == 1


def test_breaks_are_not_counted_again_when_shapes_recompile():
    assert measure(breaks, over=SHAPES, dynamic=False).graph_breaks == 2


def test_recompilations_over_shapes():
    """Static: every new shape. By default: once, to make the size dynamic. Dynamic: never."""
    assert measure(smooth, over=SHAPES, dynamic=False).recompilations == 3
    assert measure(smooth, over=SHAPES).recompilations == 1
    assert measure(smooth, over=SHAPES, dynamic=True).recompilations == 0
    assert measure(smooth, over=SHAPES, dynamic=False).counters["compile/recompilations"] == 3


def test_counting_starts_from_nothing_every_time():
    assert [measure(smooth, over=SHAPES, dynamic=False).recompilations for _ in range(2)] == [3, 3]
    torch.compile(smooth, backend="eager")(torch.ones(3))
    assert measure(smooth).graphs == 1


@pytest.mark.filterwarnings("ignore")
def test_the_recompile_limit_is_a_fallback():
    found = measure(smooth, over=[torch.ones(n) for n in range(4, 16)], dynamic=False)
    assert found.fallbacks >= 1
    assert measure(smooth, over=SHAPES, dynamic=False).fallbacks == 0


def test_further_inputs_may_be_written_in_several_ways():
    ways = [call(torch.ones(4)), (torch.ones(5),), torch.ones(6), Call((torch.ones(7),))]
    assert measure(smooth, over=ways, dynamic=False).recompilations == 4
    assert measure(smooth, over=lambda: ways, dynamic=False).recompilations == 4
    with pytest.raises(CaseError, match="over= takes arguments"):
        measure(smooth, over=[call.backward()])


def test_mode_and_options_are_inductors_and_not_for_counting(monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "compile", lambda f, **options: asked.append(options) or f)
    arm = compiled(smooth, mode="reduce-overhead", dynamic=True, time_compile=False)
    arm(torch.ones(3))
    arm.measure(Call((torch.ones(3),)))
    assert asked == [
        {"mode": "reduce-overhead", "dynamic": True},
        {"mode": None, "options": None, "dynamic": True, "backend": "eager"},
    ]


@pytest.mark.filterwarnings("ignore")
def test_counting_does_not_use_up_the_recompile_limit():
    compilations = []

    def backend(graph, inputs):
        compilations.append(graph)
        return graph.forward

    shapes = [torch.ones(n) for n in range(4, 16)]
    arm = compiled(smooth, over=shapes, time_compile=False, dynamic=False, backend=backend)
    assert arm.measure(Call((torch.ones(3),))).fallbacks
    arm(torch.ones(3))
    assert len(compilations) == 1


def test_fullgraph_reaches_torch():
    with pytest.raises(Exception, match="graph_break"):
        compiled(breaks, fullgraph=True, backend="eager")(torch.ones(3))


def test_seconds_are_those_of_the_real_backend():
    compilations = []

    def slow(graph, inputs):
        compilations.append(graph)
        return graph.forward

    found = compiled(smooth, backend=slow).measure(Call((torch.ones(3),)))
    assert len(compilations) == 1
    assert found.seconds > 0


def test_seconds_are_taken_with_cold_caches(monkeypatch):
    folders = []

    def timed(*_):
        folders.append(os.environ.get("TORCHINDUCTOR_CACHE_DIR"))
        return 1.0

    monkeypatch.setattr(compile_counters, "_seconds", timed)
    for _ in range(2):
        compiled(smooth, backend="eager").measure(Call((torch.ones(3),)))
    outside = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    assert len({*folders, outside}) == 3


def test_only_compiled_functions_are_measured():
    row = Row("id", "case", "backend")
    note(row, smooth, Call((torch.ones(3),)))
    assert (row.counters, row.compile_seconds) == ({}, None)


def test_a_case_has_them_in_its_row(tmp_path):
    session = PerfSession(Options(timing=False), tmp_path)
    perf = Perf(session, "t.py::t", "t.py::t", None, 1)
    arm = compiled(breaks, backend="eager", over=SHAPES, dynamic=False)
    row = perf(arm, torch.randn(3), reference=lambda x: x.sin().cos() + 1)
    assert row.backend == "compiled(breaks)"
    assert row.counters["compile/graph_breaks"] == 2
    assert row.counters["compile/recompilations"] == 9
    assert row.compile_seconds > 0


def test_inductors_own_start_is_not_charged_to_the_first_case(monkeypatch):
    events = []
    monkeypatch.setattr(compile_counters, "_warm_up", lambda: events.append("warm"))
    monkeypatch.setattr(compile_counters, "_seconds", lambda *_: events.append("timed") or 1.0)
    for backend in ("inductor", "eager"):
        compiled(smooth, backend=backend).measure(Call((torch.ones(3),)))
    assert events == ["warm", "timed", "timed"]
