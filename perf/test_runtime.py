"""The runtime: replays beside eager passes, recording, and a loop over batches of many sizes.

On a GPU by CUDA graphs. On the CPU by the tape, whose times mean nothing; its counters do.
"""

import functools
from dataclasses import dataclass

import pytest
import torch

from pytest_rightfast import Unsupported, call, peer, sizes
from rightfast.runtime import Buffers, CudaGraphs, Graphs, Tape


@dataclass(frozen=True)
class Options:
    """What a pass of a circuit might take."""

    kernels: int = 1
    scale: float = 1.0
    log: bool = False
    algorithm: str = "ll"


def backend_of(device):
    return CudaGraphs() if torch.device(device).type == "cuda" else Tape()


def chain(options, x, y):
    """`kernels` small elementwise kernels, one after another, into a bound tensor."""
    torch.mul(x, options.scale, out=y)
    for _ in range(options.kernels - 1):
        y.add_(1.0)


class Chain:
    """A chain in a buffer, whose result is the caller's own."""

    def __init__(self, kernels, device, record):
        self.options, self.buffers = Options(kernels, 2.0), Buffers()
        self.graphs = Graphs(
            self._run, record=record, backend=backend_of(device), buffers=self.buffers
        )

    def _run(self, options, x):
        y = self.buffers.get("y", x.shape, x.dtype, x.device)
        chain(options, x, y)
        return y

    @torch.no_grad()
    def __call__(self, x):
        return self.graphs(self.options, fed={"x": x})


class Steps:
    """Forward and backward of small layers in buffers, as in a circuit's training step."""

    width = 1024

    def __init__(self, device, record, layers=40):
        self.layers, self.buffers = layers, Buffers()
        self.weight = torch.full((self.width,), 0.99, device=device)
        self.flows = torch.zeros(self.width, device=device)
        common = {"record": record, "backend": backend_of(device), "buffers": self.buffers}
        self.forwards = Graphs(self._forward, state=("values",), **common)
        self.backwards = Graphs(self._backward, **common)

    @torch.no_grad()
    def __call__(self, x):
        options = Options(self.layers)
        return self.forwards(options, fed={"x": x}, bound={"weight": self.weight})

    @torch.no_grad()
    def backward(self):
        bound = {"values": self.values, "weight": self.weight, "flows": self.flows}
        self.flows.zero_()
        self.backwards(Options(self.layers), bound=bound)
        return self.flows.clone()

    def _forward(self, options, x, weight):
        values = self.buffers.get("values", (options.kernels, *x.shape), x.dtype, x.device)
        for layer in range(options.kernels):
            torch.mul(values[layer - 1] if layer else x, weight, out=values[layer])
        self.values = values
        return values[-1]

    def _backward(self, options, values, weight, flows):
        gradient = self.buffers.get("gradient", values.shape[1:], values.dtype, values.device)
        gradient.fill_(1.0)
        for layer in reversed(range(options.kernels)):
            gradient.mul_(weight)
            flows.addcmul_(gradient[0], values[layer][0])


@functools.cache
def chain_of(kernels, device, record):
    return Chain(kernels, device, record)


def replay(x, kernels):
    return chain_of(kernels, x.device, True)(x)


def eager(x, kernels):
    return chain_of(kernels, x.device, False)(x)


@functools.cache
def recorded_by_hand(kernels, shape, device):
    static, y, options = torch.zeros(shape, device=device), None, Options(kernels, 2.0)
    y = torch.empty_like(static)
    chain(options, static, y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        chain(options, static, y)
    return graph, static, y


def by_hand(x, kernels):
    if not x.is_cuda:
        raise Unsupported("a torch.cuda.CUDAGraph needs a GPU")
    graph, static, y = recorded_by_hand(kernels, x.shape, x.device)
    static.copy_(x)
    graph.replay()
    return y.clone()


def chained(x, kernels):
    return 2.0 * x + float(kernels - 1)


@pytest.mark.parametrize("kernels", [1, 10, 100])
@pytest.mark.perf_backends(replay=replay, eager=eager, by_hand=peer(by_hand))
def test_chain(perf, perf_device, kernels, backend):
    x = torch.randn(16, 1024, device=perf_device)
    perf(backend, x, kernels, reference=chained)


@pytest.mark.parametrize("kernels", [1, 100])
def test_recording(perf, perf_device, kernels):
    """One real run, one capture, and no memory that is kept."""

    def record(x, kernels):
        return Chain(kernels, x.device, True)(x)

    perf(record, torch.randn(16, 1024, device=perf_device), kernels, reference=chained)


@pytest.mark.parametrize("record", [False, None], ids=["eager", "graphs"])
def test_varying_batch(perf, perf_device, record):
    """17 sizes in 80 steps: at most two graphs a size, a forward and a backward one."""

    def bounded(made):
        kept = len(made.forwards) + len(made.backwards)
        return kept <= 2 * 17 or f"{kept} graphs"

    gpu = torch.device(perf_device).type == "cuda"
    perf.sequence(
        make=lambda: Steps(perf_device, record, layers=4),
        fresh=lambda: Steps(perf_device, False, layers=4),
        steps=sizes(
            lambda n: [call(batch(n, perf_device)), call.backward()],
            range(10, 27),
            length=80 if gpu else 40,
        ),
        check=bounded,
        hold=False,
        timed=gpu,
    )


def batch(n, device):
    return torch.linspace(0.5, 1.5, n * Steps.width).view(n, Steps.width).to(device)
