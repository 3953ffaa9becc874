"""What a recorded pass costs, on one GPU, as Markdown tables.

    python perf/check_runtime.py            on the current CUDA device
    python perf/check_runtime.py --tape     on the CPU, where only the host's times mean anything

Each time is the median of several rounds in which all its columns take turns. A time "until the
device is idle" covers the host and the device; "host" ends when the call returns.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
import warnings

import torch
from test_runtime import Options, Steps, chain

from rightfast.runtime import Buffers, CudaGraphs, Graphs, NotRecorded, Tape
from rightfast.runtime.keys import key_of

ROUNDS = 15


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def measured(calls, device, number, host=False):
    """Median microseconds of a call, for each of `calls`, which take turns."""
    taken = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(5):
            call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            synchronize(device)
            start = time.perf_counter()
            if host:  # one by one, so that no queue fills up
                spent = 0.0
                for _ in range(number):
                    begin = time.perf_counter()
                    call()
                    spent += time.perf_counter() - begin
                    synchronize(device)
            else:
                for _ in range(number):
                    call()
                synchronize(device)
                spent = time.perf_counter() - start
            taken[name].append(spent / number * 1e6)
    return {name: statistics.median(times) for name, times in taken.items()}


def by_hand(kernels, x, y):
    """The same as a graph that somebody records and feeds on his own."""
    static, options = x.clone(), Options(kernels)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        chain(options, static, y)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        chain(options, static, y)

    def call():
        static.copy_(x)
        graph.replay()

    return call


def replays(backend, device):
    """Replay against eager and against a graph made by hand."""
    print("\n### Replay of a chain of small kernels, 16 x 1024 float32\n")
    print("| kernels | clock | eager, us | replay, us | by hand, us | replay / eager | / by hand |")
    print("|---|---|---|---|---|---|---|")
    for kernels in (1, 10, 100):
        x, y = torch.ones(16, 1024, device=device), torch.empty(16, 1024, device=device)
        graphs = Graphs(chain, record=True, backend=backend)
        options = Options(kernels)
        calls = {
            "eager": lambda x=x, y=y, o=options: chain(o, x, y),
            "replay": lambda x=x, y=y, o=options, g=graphs: g(o, fed={"x": x}, bound={"y": y}),
        }
        if device == "cuda":
            calls["by hand"] = by_hand(kernels, x, y)
        for host in (False, True):
            got = measured(calls, device, 100 if kernels < 100 else 30, host)
            hand = got.get("by hand", float("nan"))
            clock = "host" if host else "until idle"
            print(
                f"| {kernels} | {clock} | {got['eager']:.1f} | {got['replay']:.1f} | {hand:.1f} | "
                f"{got['replay'] / got['eager']:.2f} | {got['replay'] / hand:.2f} |"
            )
        assert len(graphs) == 1


def check_cost(backend, device):
    """Host time of finding the recording of a call with 20 tensors: one fed, 19 bound."""
    print("\n### Key and buffer check, host\n")
    print(
        "| tensors | a replay, us | without fed copy and launch, us | key and look-up alone, us "
        "| the same in a loop, us |"
    )
    print("|---|---|---|---|---|")

    class Empty(type(backend)):
        """What is left of a replay without its work."""

        def capture(self, body, known, fed):
            result, recording = super().capture(body, known, fed)
            self.kept = recording
            return result, self

        def replay(self):
            pass

    def reads(options, **tensors):
        first, *_, last = tensors.values()
        last.copy_(first)

    def found(graphs, options, tensors):
        return graphs._kept.find(key_of(options, {}, tensors, graphs.backend))

    for tensors in (2, 20):
        names = [f"t{n}" for n in range(tensors)]
        made = {name: torch.ones(16, 128, device=device) for name in names}
        calls = {}
        for kind, fed in ((type(backend), 1), (Empty, 0)):
            graphs = Graphs(reads, record=True, backend=kind(), buffers=Buffers())
            split = {name: made[name] for name in names[:fed]}
            rest = {name: made[name] for name in names[fed:]}
            options = Options()
            calls[kind.__name__] = lambda g=graphs, o=options, s=split, r=rest: g(o, fed=s, bound=r)
            calls[kind.__name__]()
            assert len(graphs) == 1
        calls["key"] = lambda g=graphs, o=options, r=rest: found(g, o, r)
        assert calls["key"]() is not None
        got = list(measured(calls, device, 200, host=True).values())
        (loop,) = measured({"key": calls["key"]}, device, 200).values()
        print(f"| {tensors} | {got[0]:.1f} | {got[1]:.1f} | {got[2]:.1f} | {loop:.1f} |")


def recording_cost(backend, device):
    """Time and memory of recording; a large free block shows a flush of the allocator."""
    print("\n### Recording a chain\n")
    print("| kernels | eager, ms | recording, ms | allocated | reserved | flushed |")
    print("|---|---|---|---|---|---|")
    reads = [lambda: 0, lambda: 0]
    if device == "cuda":
        reads = [torch.cuda.memory_allocated, torch.cuda.memory_reserved]
        keep = Graphs(chain, record=True, backend=backend)  # torch's own first allocation
        keep(Options(), fed={"x": torch.ones(4, device=device)}, bound={"y": torch.ones(4).cuda()})
    for kernels in (1, 10, 100):
        eager, recording, before, after = [], [], [], []
        for n in range(5):
            x, y = torch.ones(16, 1024, device=device), torch.empty(16, 1024, device=device)
            graphs = Graphs(chain, record=None, backend=backend)
            options, tensors = Options(kernels, 1.0 + n), {"fed": {"x": x}, "bound": {"y": y}}
            spare = torch.empty(2**28, dtype=torch.uint8, device=device)
            del spare
            for times in (eager, recording):
                synchronize(device)
                before = [read() for read in reads]
                start = time.perf_counter()
                graphs(options, **tensors)
                synchronize(device)
                times.append((time.perf_counter() - start) * 1e3)
                after = [read() for read in reads]
            assert graphs.recordings == 1
        delta = [b - a for a, b in zip(before, after)]
        print(
            f"| {kernels} | {statistics.median(eager):.2f} | {statistics.median(recording):.2f} | "
            f"{delta[0]:+d} B | {delta[1]:+d} B | {'yes' if delta[1] < 0 else 'no'} |"
        )


def varying_batch(_, device):
    """17 batch sizes in 80 steps, as a loop over ragged data has them."""
    print("\n### Varying batch: 17 sizes (10 to 26), 80 steps, 40 layers forward and backward\n")
    print("| | ms/step | ms/step, the next 80 | graphs kept | recordings | a size | memory |")
    print("|---|---|---|---|---|---|---|")
    generator = random.Random(0)
    batches = [generator.randint(10, 26) for _ in range(80)]
    inputs = {n: torch.ones(n, Steps.width, device=device) for n in set(batches)}
    Steps(device, False)(inputs[batches[0]])
    for name, record in (("eager", False), ("second sight", None), ("first sight", True)):
        steps = None  # the ones before
        if device == "cuda":
            gc.collect()
            torch.cuda.empty_cache()
        start_memory = torch.cuda.memory_reserved() if device == "cuda" else 0
        steps = Steps(device, record)
        times = []
        for n in batches * 2:
            synchronize(device)
            start = time.perf_counter()
            steps(inputs[n])
            steps.backward()
            synchronize(device)
            times.append((time.perf_counter() - start) * 1e3)
        kept = len(steps.forwards) + len(steps.backwards)
        recordings = steps.forwards.recordings + steps.backwards.recordings
        memory = torch.cuda.memory_reserved() - start_memory if device == "cuda" else 0
        early, late = statistics.mean(times[:80]), statistics.mean(times[80:])
        sizes = kept / len(set(batches))
        print(
            f"| {name} | {early:.3f} | {late:.3f} | {kept} | {recordings} | {sizes:.1f} | "
            f"{memory / 2**20:.1f} MiB |"
        )


def large_batch(_, device):
    """Memory of the buffers after one batch of 4096 among small ones."""
    print("\n### Memory of the buffers, MiB, after batches 16, 4096, 16\n")
    print("| | 16 | 4096 | 16 again |")
    print("|---|---|---|---|")
    for name, record in (("eager", False), ("second sight", None)):
        steps, held = Steps(device, record), []
        for n in (16, 4096, 16):
            steps(torch.ones(n, Steps.width, device=device))
            steps.backward()
            held.append(f"{steps.buffers.nbytes / 2**20:.1f}")
        print(f"| {name} | {' | '.join(held)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tape", action="store_true", help="on the CPU, by the tape")
    tape = parser.parse_args().tape
    device, backend = ("cpu", Tape()) if tape else ("cuda", CudaGraphs())
    warnings.simplefilter("error", NotRecorded)
    name = "the CPU, by the tape" if tape else torch.cuda.get_device_name()
    print(f"{name}, torch {torch.__version__}")
    with torch.no_grad():
        for table in (replays, check_cost, recording_cost, varying_batch, large_batch):
            table(backend, device)


if __name__ == "__main__":
    main()
