"""What a launch costs the host. Prints Markdown tables; needs a CUDA device.

    python perf/check_launch.py [--rounds 50]

Each round launches a kernel of next to no work 200 times in a row by each of these, in an order
that turns, and waits for the device outside the clock:

    ours            launchable(kernel, BLOCK=..., num_warps=4)(grid, ...)
    Python path     the same where _launch.c was not built
    kernel[grid]    kernel[grid](..., BLOCK=..., num_warps=4)
    compiled[grid]  the compiled kernel's own call, which binds nothing and looks nothing up
    copy_           one ATen operator

The table has the medians over the rounds, in microseconds a launch, and the medians of the ratios
within a round, then what one further argument adds. Then a tuner's first step, all kernels
compiled, with and without dropping what takes over twice the fastest's time.
"""

import argparse
import gc
import platform
import statistics
import sys
import time

import launches
import torch
import triton
import triton.language as tl

from rightfast.runtime import best_of, choices, forget_choices, launch_native, launchable

LOOPS = 200
FIXED = {"BLOCK": launches.BLOCK, "num_warps": 4}


@triton.jit
def sums_kernel(x, out, width, TILE: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([TILE], dtype=tl.float32)
    for start in range(0, width, TILE):
        at = start + tl.arange(0, TILE)
        total += tl.load(x + row * width + at, at < width, 0.0)
    tl.store(out + row, tl.sum(total, 0))


def python_launchable(kernel):
    """A launcher as it is where _launch.c was not built."""
    launch_native.enabled = False
    try:
        return launchable(kernel, **FIXED)
    finally:
        launch_native.enabled = True


def ways(count, device):
    """The calls of one row, verified."""
    kernel = launches.KERNELS[count]
    inputs = [torch.rand(launches.BLOCK, device=device) for _ in range(launches.TENSORS[count])]
    out, other = (torch.rand(launches.BLOCK, device=device) for _ in range(2))
    given = launches.arguments(count, out, inputs)
    launch, in_python = launchable(kernel, **FIXED), python_launchable(kernel)
    for one in (launch, in_python):
        compiled = one((1,), *given)  # through Triton: the first launch compiles
        if not one.direct or not one.entries:
            sys.exit(f"launches go through Triton: {one.reason}")
    if launch.native is None:
        sys.exit("launches are not made in C: see what setup.py build_ext --inplace prints")
    calls = {
        "ours": lambda: launch((1,), *given),
        "Python path": lambda: in_python((1,), *given),
        "kernel[grid]": lambda: kernel[(1,)](*given, **FIXED),
        "compiled[grid]": lambda: compiled[(1, 1, 1)](*given, launches.BLOCK),
        "copy_": lambda: other.copy_(out),
    }
    for name in ("ours", "Python path", "kernel[grid]", "compiled[grid]"):
        start = torch.rand(launches.BLOCK, device=device)
        out.copy_(start)
        calls[name]()
        torch.testing.assert_close(out, launches.expected(count, inputs or [start]))
    return calls


def rounds_of(calls, count, wait):
    """Microseconds a launch, of each call in each round."""
    times = {name: [] for name in calls}
    names = list(calls)
    gc.collect()
    gc.disable()
    for turn in range(-3, count):  # three to warm up
        for number in range(len(names)):
            name = names[(number + turn) % len(names)]
            call = calls[name]
            wait()
            start = time.perf_counter_ns()
            for _ in range(LOOPS):
                call()
            taken = (time.perf_counter_ns() - start) / LOOPS / 1e3
            if turn >= 0:
                times[name].append(taken)
    wait()
    gc.enable()
    return times


def line(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def launch_table(rounds, device, wait):
    names = ["ours", "Python path", "kernel[grid]", "compiled[grid]", "copy_"]
    others = names[1:4]
    found = {}
    line("arguments", *(f"{name}, us" for name in names), *(f"ours / {name}" for name in others))
    line(*["---"] * (1 + len(names) + len(others)))
    for count in launches.KERNELS:
        times = rounds_of(ways(count, device), rounds, wait)
        found[count] = [statistics.median(times[name]) for name in names]
        cells = [f"{median:.2f}" for median in found[count]]
        for name in others:
            pairs = zip(times["ours"], times[name], strict=True)
            cells.append(f"{statistics.median(a / b for a, b in pairs):.3f}")
        line(count, *cells)
    few, many = min(found), max(found)
    pairs = zip(found[few], found[many], strict=True)
    each = [f"{(b - a) * 1e3 / (many - few):.0f} ns" for a, b in pairs]
    line("each further one", *each[:-1], *[""] * (1 + len(others)))


def config(tile, warps):
    launch = launchable(sums_kernel, TILE=tile, num_warps=warps)

    def run(x):
        out = x.new_empty(len(x))
        launch((len(x),), x, out, x.shape[1])
        return out

    return run


def tuner_table(device, wait):
    candidates = {"1024 by 4 warps": config(1024, 4)}
    for tile in (32, 64, 128, 256, 512, 1024, 2048, 4096):
        for warps in (1, 4, 8):
            candidates.setdefault(f"{tile} by {warps} warps", config(tile, warps))
    x = torch.rand(8192, 8192, device=device)
    for candidate in candidates.values():
        candidate(x)
    line("first step", "candidates", "dropped", "winner", "ms")
    line(*["---"] * 5)
    for prune in (True, False):
        taken = []
        for _ in range(5):
            forget_choices()
            wait()
            start = time.perf_counter()
            best_of(candidates, (x,), key="sums", writes=(), prune=prune)
            wait()
            taken.append((time.perf_counter() - start) * 1e3)
        (choice,) = choices()
        name = "pruned" if prune else "everything"
        cells = len(candidates), len(choice.dropped), choice.winner
        line(name, *cells, f"{statistics.median(taken):.1f}")
    print()
    print(f"```\n{choice}\n```")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("check_launch.py needs a CUDA device")
    versions = f"torch {torch.__version__}, triton {triton.__version__}"
    print(f"{torch.cuda.get_device_name()}, {versions}, Python {platform.python_version()}\n")
    launch_table(options.rounds, "cuda", torch.cuda.synchronize)
    print()
    tuner_table("cuda", torch.cuda.synchronize)


if __name__ == "__main__":
    main()
