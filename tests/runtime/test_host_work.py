"""Host work that creeps back: docs/runtime.md."""

from __future__ import annotations

import sys

import pytest
import torch

from rightfast.runtime import Buffers, Graphs, Tape

from .subject import WIDTH, BackwardOptions, Options, rows

RECORD = pytest.mark.parametrize("record", [None, True])


def test_24_host_work_of_a_replay():
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


def test_24_python_calls_of_a_replay():
    """Exact, and the same at every step: what creeps back shows here first."""
    graphs = Graphs(several, record=True, backend=Nothing(), buffers=Buffers())
    flows, x = torch.zeros(WIDTH), rows(3)
    options, fed, bound = BackwardOptions(3, False), {"x": x, "y": x.clone()}, {"flows": flows}
    counts = [python_calls(lambda: graphs(options, fed=fed, bound=bound)) for _ in range(6)]
    assert counts[1:] == [14] * 5


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
