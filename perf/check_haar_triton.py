"""Every cut of Haar's Triton kernels: verified against float64, timed against `copy_`.

    python perf/check_haar_triton.py [--only PATTERN] [--processes 12] [--rounds 25]

Needs a CUDA device. First, processes beside one another compile each specialisation and verify it
on a small signal; then one process verifies and times the cases, and prints Markdown tables. Device
times are medians; small cases are also timed within a CUDA graph, where no host time counts.
A cut that fails is a row with its error; the others go on.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import torch
from rightfast_kernels.dwt import haar_triton
from rightfast_kernels.dwt.haar_triton import Config, down, pick, up

C = 2**-0.5
TOLERANCE = {
    torch.float16: 1e-2,
    torch.bfloat16: 8e-2,
    torch.float32: 1e-5,
    torch.float64: 1e-12,
}
F16, F32, F64 = torch.float16, torch.float32, torch.float64
LINES = [(0, 0, 1), (0, 0, 4), (1, 0, 4), (0, 1, 4)]
PLANES = [(0, 0, 1), (0, 0, 2), (0, 0, 4), (0, 0, 8), (1, 0, 4), (1, 0, 8)]
SPACES = [(1, 0, 1), (1, 0, 2), (1, 0, 4), (1, 0, 8)]
LEVEL_1 = [(0, 0, 4), (0, 1, 4), (0, 2, 4), (0, 2, 8)]
CASES = [
    ("2-D", (96, 1024, 1024), 3, F32, PLANES),
    ("3-D", (4, 256, 256, 256), 3, F32, SPACES),
    ("1-D small", (2, 4096), 3, F32, [(0, 0, 1), (0, 0, 4), (1, 0, 1)]),
    ("2-D small", (2, 256, 256), 3, F32, [(0, 0, 1), (0, 0, 2), (1, 0, 1), (1, 0, 4)]),
    ("3-D small", (2, 64, 64, 64), 3, F32, [(1, 0, 1), (1, 0, 2), (1, 0, 4)]),
    ("2-D", (24, 1024, 1024), 3, F32, [(0, 0, 4), (1, 0, 4)]),
    ("1-D", (96, 1 << 20), 3, F32, LINES),
    ("2-D, 1 level", (96, 1024, 1024), 1, F32, LEVEL_1),
    ("2-D, 2 levels", (96, 1024, 1024), 2, F32, [(0, 0, 4), (0, 1, 4)]),
    ("3-D, 1 level", (4, 256, 256, 256), 1, F32, [(0, 1, 4), (0, 2, 4)]),
    ("2-D, width no power of 2", (96, 1000, 1000), 3, F32, [(0, 0, 4), (1, 0, 4)]),
    ("2-D, odd", (96, 1001, 1001), 3, F32, [(0, 0, 1), (0, 0, 4), (1, 0, 1), (1, 0, 4)]),
    ("2-D, odd height", (96, 1001, 1024), 3, F32, [(0, 0, 4), (1, 0, 4)]),
    ("3-D, odd", (4, 255, 255, 255), 3, F32, [(1, 0, 4)]),
    ("2-D, half", (96, 1024, 1024), 3, F16, [(0, 0, 2), (0, 0, 4), (1, 0, 4)]),
    ("2-D, double", (48, 1024, 1024), 3, F64, [(0, 0, 4), (1, 0, 4)]),
    ("2-D, 5 levels", (96, 1024, 1024), 5, F32, [None]),
    ("2-D, 6 levels small", (2, 256, 256), 6, F32, [None]),
]
SMALL = {  # lengths by axes, as even as the case's
    2: {1: (160,), 2: (24, 80), 3: (16, 24, 80)},
    1: {2: (29, 80), 3: (13, 29, 80)},
    0: {1: (157,), 2: (29, 77), 3: (13, 29, 77)},
}
HEADER = (
    "case",
    "(across, run, warps)",
    "us",
    "/ copy_",
    "registers",
    "spills",
    "us in a graph",
    "us host",
)
compiled = {}


def noted(kernel, grid, *arguments, **meta):
    compiled[kernel.__name__] = kernel[grid](*arguments, **meta)


haar_triton.launch = noted


def reference_down(x, levels):
    """(low, details by level, the deepest first), by definition and in float64."""
    low, details = x.double(), []
    for _ in range(levels):
        bands = [low]
        for axis in range(1, x.ndim):
            bands = [part for band in bands for part in apart(band, axis)]
        low = bands[0]
        details.insert(0, bands[1:])
    return low, details


def apart(x, axis):
    pad = [0] * (2 * (x.ndim - axis) - 1) + [x.shape[axis] % 2]
    a, b = torch.nn.functional.pad(x, pad).unflatten(axis, (-1, 2)).unbind(axis + 1)
    return (a + b) * C, (a - b) * C


def reference_up(low, details, lengths):
    """The adjoint, to the lengths of each level, the deepest first."""
    x = low.double()
    for bands, shape in zip(details, lengths, strict=True):
        bands = [x, *[band.double() for band in bands]]
        for axis in range(len(shape), 0, -1):
            pairs = zip(bands[::2], bands[1::2], strict=True)
            bands = [
                torch.stack([(a + b) * C, (a - b) * C], axis + 1)
                .flatten(axis, axis + 1)
                .narrow(axis, 0, shape[axis - 1])
                for a, b in pairs
            ]
        x = bands[0]
    return x


def lengths_of(shape, levels):
    """Lengths of the axes at each level, the deepest first."""
    return [[-(-n // (1 << level)) for n in shape[1:]] for level in range(levels)][::-1]


class Problem:
    """A signal, its bands, what to write into, and what to expect."""

    def __init__(self, shape, levels, dtype):
        self.levels = levels
        self.x = torch.randn(shape, device="cuda", dtype=torch.float32).to(dtype)
        low, details = reference_down(self.x, levels)
        self.expected = [low, *[b for bands in details for b in bands]]
        self.low, self.details = low.to(dtype), [[b.to(dtype) for b in bs] for bs in details]
        self.back = reference_up(self.low, self.details, lengths_of(shape, levels))
        self.out_low = torch.empty_like(self.low)
        self.out = [[torch.empty_like(b) for b in bands] for bands in self.details]
        self.out_x = torch.empty_like(self.x)

    def down(self, config):
        down(self.x, self.out_low, self.out, C, 1, config)

    def up(self, config):
        up(self.low, self.details, self.out_x, C, 1, config)

    def check(self, way, config):
        """Raises AssertionError unless all is written and right."""
        found = [self.out_x]
        if way == "down":
            found = [self.out_low, *[band for bands in self.out for band in bands]]
        for one in found:
            one.fill_(float("nan"))
        getattr(self, way)(config)
        expected = self.expected if way == "down" else [self.back]
        error = max(
            float((a.double() - b).abs().max()) for a, b in zip(found, expected, strict=True)
        )
        worst = TOLERANCE[self.x.dtype]
        assert error <= worst, f"wrong by {error:.1e}, expected at most {worst:.0e}"


def first_line(error):
    lines = [line for line in f"{error}".splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:150]


def config_of(given):
    return None if given is None else Config(*given)


def evenness(shape, levels):
    """2: every length at every level; 1: the last axis's; 0: neither."""
    even = [n % (1 << levels) == 0 for n in shape[1:]]
    return 2 if all(even) else int(even[-1])


def jobs():
    """Each specialisation once, with a small signal that compiles the same one."""
    found = {}
    for _, shape, levels, dtype, configs in CASES:
        axes = len(shape) - 1
        even = evenness(shape, levels)
        more = 4 if even == 2 and levels > 3 else 1
        small = (3, *[n * more for n in SMALL[even][axes]])
        for config in configs:
            key = (axes, levels, str(dtype), config, even)
            found[key] = (small, levels, dtype, config)
    return found


def compile_some(index, count, path):
    """One of the processes: writes a line of JSON for each of its jobs."""
    with open(path, "w", encoding="utf-8") as out:
        for number, (key, (shape, levels, dtype, config)) in enumerate(jobs().items()):
            if number % count != index:
                continue
            for way in ("down", "up"):
                try:
                    Problem(shape, levels, dtype).check(way, config_of(config))
                    row = [[*key, way], "ok"]
                except Exception as error:
                    row = [[*key, way], first_line(error)]
                print(json.dumps(row), file=out, flush=True)


def compile_all(processes):
    """Verdicts by specialisation and way."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / str(i) for i in range(processes)]
        running = [
            subprocess.Popen(
                [sys.executable, __file__, "--part", f"{i}", f"{processes}", str(path)]
            )
            for i, path in enumerate(paths)
        ]
        for one in running:
            try:
                one.wait(100)
            except subprocess.TimeoutExpired:
                one.kill()
        lines = [line for path in paths if path.exists() for line in path.read_text().splitlines()]
    return {json.dumps(key): verdict for key, verdict in map(json.loads, lines)}


def device_times(calls, rounds):
    """Median microseconds of each call, in an order that turns."""
    events = {name: [] for name in calls}
    names = list(calls)
    for turn in range(rounds + 3):
        for number in range(len(names)):
            name = names[(number + turn) % len(names)]
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            calls[name]()
            end.record()
            events[name].append((start, end))
    torch.cuda.synchronize()
    return {
        name: statistics.median(a.elapsed_time(b) for a, b in pairs[3:]) * 1e3
        for name, pairs in events.items()
    }


def graph_time(call, loops=50):
    """Microseconds of a call among others, recorded."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(loops):
            call()
    times = device_times({"": graph.replay}, 10)
    return times[""] / loops


def host_time(call, loops=300):
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter_ns()
    for _ in range(loops):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter_ns() - start) / loops / 1e3


def line(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def usage(way):
    found = compiled.get(f"haar_{way}_kernel")
    return getattr(found, "n_regs", "?"), getattr(found, "n_spills", "?")


def measure(case, verdicts, rounds):
    name, shape, levels, dtype, configs = case
    even = evenness(shape, levels)
    problem = Problem(shape, levels, dtype)
    small = problem.x.numel() < 1 << 22
    label = f"{name}, {'x'.join(map(str, shape))}, {levels} levels"
    calls = {"copy_": lambda: problem.out_x.copy_(problem.x)}
    rows = {}
    for way in ("down", "up"):
        size = problem.x.itemsize, problem.x.numel()
        best = tuple(pick(len(shape) - 1, levels, *size, way == "up"))
        for config in configs:
            key = json.dumps([len(shape) - 1, levels, str(dtype), config, even, way])
            text = f"{way} {config}" + (" (picked)" if config in (best, None) else "")
            verdict = verdicts.get(key, "not compiled: its process died or took too long")
            try:
                assert verdict == "ok", verdict
                problem.check(way, config_of(config))
            except torch.AcceleratorError:
                raise
            except Exception as error:
                line(label, text, first_line(error), "", "", "", "", "")
                continue
            rows[text] = usage(way)
            calls[text] = partial(getattr(problem, way), config_of(config))
    times = device_times(calls, rounds)
    for text, took in times.items():
        inside = host = ""
        if small:
            inside, host = f"{graph_time(calls[text]):.2f}", f"{host_time(calls[text]):.1f}"
        registers, spills = rows.get(text, ("", ""))
        ratio = f"{took / times['copy_']:.2f}"
        line(label, text, f"{took:.1f}", ratio, registers, spills, inside, host)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--processes", type=int, default=min(12, os.cpu_count() or 1))
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--part", nargs=3)
    given = parser.parse_args()
    global CASES
    CASES = [case for case in CASES if given.only in case[0]]
    if given.part:
        return compile_some(int(given.part[0]), int(given.part[1]), given.part[2])
    start = time.perf_counter()
    verdicts = compile_all(given.processes)
    print(f"compiled and verified on small signals in {time.perf_counter() - start:.0f} s\n")
    line(
        "case",
        "(across, run, warps)",
        "us",
        "/ copy_",
        "regs",
        "spills",
        "us in a graph",
        "us host",
    )
    line(*["---"] * 8)
    for case in CASES:
        try:
            torch.cuda.empty_cache()
            measure(case, verdicts, given.rounds)
        except Exception as error:
            line(case[0], "", first_line(error), "", "", "", "", "")
    return None


if __name__ == "__main__":
    main()
