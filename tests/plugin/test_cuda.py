"""The suite on a GPU: planted faults that only a device has, counters, poison."""

import pytest
import torch

from pytest_rightfast import counters_cuda

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

FAULTS = """
import torch
from pytest_rightfast import PerfCase

SIDE = torch.cuda.Stream()
PINNED = {}
GRAPH = {}

def case(**options):
    return PerfCase(
        inputs=lambda g: (torch.randn(2048, 2048, generator=g).cuda(),),
        reference=lambda x: x * 2, **options)

def honest(x):
    return x * 2

def escaped(x):
    "Right, and most of its work goes where the events do not look."
    SIDE.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(SIDE):
        for _ in range(20):
            x @ x
    return x * 2

def unjoined(x):
    "The answer is made on a side stream, and nobody waits for it."
    SIDE.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(SIDE):
        for _ in range(20):
            x @ x
        return x * 2

def unsynchronised(x):
    "A pinned copy that is still under way when it is handed out."
    for _ in range(20):
        x @ x
    target = torch.empty(x.shape, pin_memory=True)
    return target.copy_(x * 2, non_blocking=True)

def stale(x):
    "A recorded graph that reads the first input for ever."
    if not GRAPH:
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            x * 2
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(graph):
            out = x * 2
        GRAPH.update(graph=graph, out=out, x=x)
    GRAPH["graph"].replay()
    return GRAPH["out"].clone()

def unwritten(x):
    out = torch.empty_like(x)
    out.view(-1)[:-1] = x.view(-1)[:-1] * 2
    return out

def reused(x, buffer={}):
    out = buffer.setdefault("out", torch.empty_like(x))
    return torch.mul(x, 2, out=out)

def test_fault(perf):
    perf(NAME, case=case())
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("escaped", "worked on for"),
        ("unjoined", "elements are wrong"),
        ("unsynchronised", "elements are wrong"),
        ("stale", "is wrong"),
        ("unwritten", "elements are wrong"),
        ("reused", "its memory was reused"),
    ],
)
def test_planted_faults_are_caught(inner, name, said):
    text = inner(FAULTS.replace("NAME", name), "--perf-device=cuda")
    assert said in text
    assert "1 failed" in text


def test_an_honest_case_passes_with_device_and_host_time(inner, tmp_path):
    from pytest_rightfast.results import load

    file = tmp_path / "rows.json"
    text = inner(FAULTS.replace("NAME", "honest"), "--perf-device=cuda", f"--perf-json={file}")
    assert "1 passed" in text
    (row,) = load(file)
    assert row.device == "cuda"
    assert len(row.samples) == len(row.host) > 0
    assert row.counters["launches"] == 1
    assert row.counters["synchronizations"] == 0
    assert row.environment["gpu"]
    assert row.environment["driver"]


@pytest.fixture
def inner(pytester):
    """Run one perf file in a process of its own, briefly; returns what it printed."""
    from importlib import metadata

    installed = metadata.entry_points(group="pytest11", name="rightfast")
    loading = () if installed else ("-p", "pytest_rightfast.plugin")

    def run(text, *options):
        pytester.makepyfile(test_inner=text)
        done = pytester.runpytest_subprocess(
            *loading, "-p", "no:cacheprovider", "--benchmark-max-time=0.1", *options
        )
        return done.stdout.str()

    return run


def test_counters_agree_with_what_was_done():
    device = torch.device("cuda")
    x = torch.randn(1000, device=device)
    graph = torch.cuda.CUDAGraph()
    (x + 1).sum()
    with torch.cuda.graph(graph):
        x + 1

    def counted(call):
        return counters_cuda.counts(call, device)

    assert counted(lambda: (x + 1) * 2 - 3)["launches"] == 3
    item = counted(lambda: x[0].item())
    assert item["synchronizations"] >= 1
    assert item["copies"] >= 1
    assert counted(graph.replay)["graph_launches"] == 1
    assert counted(lambda: torch.empty(5000, device=device))["allocations"] == 1
    assert counted(lambda: torch.empty(5000, device=device))["launches"] == 0


def test_a_trace_of_the_profiler_counts_the_same():
    """The counters are taken from the runtime calls; the kernels in a trace are another witness."""
    from torch.profiler import ProfilerActivity, profile

    x = torch.randn(1000, 1000, device="cuda")

    def call():
        return torch.softmax(x @ x, -1).sum()

    call()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        call()
        torch.cuda.synchronize()
    kernels = [
        e
        for e in recorded.events()
        if e.device_type == torch.autograd.DeviceType.CUDA and not e.name.startswith("Mem")
    ]
    assert counters_cuda.counts(call, torch.device("cuda"))["launches"] == len(kernels)
