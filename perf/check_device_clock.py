"""Does the device clock read what it should? Prints a table against `triton.testing.do_bench`.

    python perf/check_device_clock.py

Both flush the L2 cache between calls. The last columns show the same call with a warm cache, which
is what a loop without flushing would report, and the host's time.
"""

import statistics

import torch
import triton

from pytest_rightfast.clock_cpu import Budget, Target
from pytest_rightfast.clock_cuda import DeviceSampler


def ours(call):
    target = Target([call], lambda which, returned: None)
    timing = DeviceSampler(target, Budget(0.3, 20), torch.device("cuda")).block()
    return statistics.median(timing.samples), statistics.median(timing.host), timing


def warm(call, calls=200):
    """Seconds a call in a graph of many, with nothing flushed between them."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(calls):
            call()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    graph.replay()
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1e3 / calls


def main():
    device = torch.device("cuda")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}")
    cases = {}
    for mib in (1, 16, 64, 1024):
        x = torch.randn(mib * 2**18, device=device)
        y = torch.empty_like(x)
        cases[f"copy_ {mib} MiB"] = lambda x=x, y=y: y.copy_(x)
    for rows, columns in ((64, 4096), (4096, 4096), (16384, 8192)):
        x = torch.randn(rows, columns, device=device)
        cases[f"softmax {rows}x{columns}"] = lambda x=x: torch.softmax(x, -1)
    for n in (1024, 4096, 8192):
        x = torch.randn(n, n, device=device, dtype=torch.bfloat16)
        cases[f"matmul bf16 {n}"] = lambda x=x: x @ x
    print("| call | ours, us | do_bench, us | ratio | warm cache, us | host, us |")
    print("|---|---|---|---|---|---|")
    for name, call in cases.items():
        first, host, timing = ours(call)
        theirs = triton.testing.do_bench(call, warmup=50, rep=300, return_mode="median") * 1e-3
        again, _, _ = ours(call)
        mine = (first + again) / 2
        cells = (mine, theirs, mine / theirs, warm(call), host)
        text = " | ".join(f"{c:.3f}" if i == 2 else f"{c * 1e6:.2f}" for i, c in enumerate(cells))
        print(f"| {name} | {text} |", timing.clocks if timing.discarded else "")


if __name__ == "__main__":
    main()
