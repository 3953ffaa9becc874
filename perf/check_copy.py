"""How near are the native kernels to copying? Prints a Markdown table, one line a case.

    python perf/check_copy.py [--threads 1] [--rounds 30] [--only TEXT] [--heap system]
    python perf/check_copy.py --targets [--rounds 300] [--only TEXT] [--heap system]

Every round times each of these, once or for a few milliseconds, in an order that turns:

    copy_               into a tensor that is there: nothing but reading and writing
    clone               into new memory, as a transform gives: what new pages cost is in it
    forward, inverse    as they are called
    forward out, inverse out    into tensors that are there

The table has the medians in microseconds, the medians of the ratios to the `copy_` of the same
round, and how many pages a call writes for the first time. A result is freed before the next call.
With one thread, time is that of the thread, so that neighbours on the core do not count; with more
it is that of the wall.

`--targets` prints what was aimed at beside what is reached: a limit in microseconds, or in times of
`copy_`, for a whole public call, and for the large cases for one into a tensor that is there. The
rounds are short and many. Neighbours empty the caches, which makes calls slower and none faster: so
the table has the lowest tenth of the times and their ratio, and beside it the median of the ratios
within a round. `--heap warm` keeps freed memory in the process, as pytest's `--perf-heap` does: no
call pays for new pages then.
"""

import argparse
import gc
import resource
import statistics
import sys
import time

import test_wavelets as cases
import torch

from pytest_rightfast import heap
from rightfast import wavelets

TRANSFORMS = {
    1: (wavelets.wavedec, wavelets.waverec),
    2: (wavelets.wavedec2, wavelets.waverec2),
    3: (wavelets.wavedecn, wavelets.waverecn),
}
BLOCK = 2e-3  # seconds of one block, at least one call
SHORT = 5e-4  # the same for the targets
# By case, for both directions: (limit, of what); of the large ones, for tensors that are there.
TARGETS = {
    "litevae-haar-4096": (12, "us"),
    "litevae-haar-256x256": (2.2, "copy_"),
    "litevae-haar-64x64x64": (1.8, "copy_"),
    "jpeg2000-bior2.2-16384": (6, "copy_"),
    "jpeg2000-bior4.4-16384": (7, "copy_"),
    "jpeg2000-bior2.2-512x512": (3.5, "copy_"),
    "jpeg2000-bior4.4-512x512": (4.5, "copy_"),
    "jpeg2000-bior2.2-96x96x96": (5, "copy_"),
    "jpeg2000-bior4.4-96x96x96": (6, "copy_"),
    "large-haar-1024x1024": (1.4, "copy_"),
    "large-bior4.4-1024x1024": (2.0, "copy_"),
}


def calls(spec, generator):
    """What is compared, by name."""
    x = cases.draw(spec, generator)
    target = torch.empty_like(x)
    bands, out = cases.ours(x, spec), cases.ours(x, spec)
    back = cases.ours_inverse(bands, spec)
    torch.testing.assert_close(back, x, rtol=1e-4, atol=1e-4)
    forward, inverse = TRANSFORMS[len(spec.shape)]
    n_d = {"axes": spec.axes} if len(spec.shape) == 3 else {}
    how = (spec.wavelet, spec.mode)
    return {
        "copy_": lambda: target.copy_(x),
        "clone": x.clone,
        "forward": lambda: cases.ours(x, spec),
        "inverse": lambda: cases.ours_inverse(bands, spec),
        "forward out": lambda: forward(x, *how, spec.level, **n_d, out=out),
        "inverse out": lambda: inverse(bands, *how, **n_d, out=back),
    }


def block(call, loops, clock):
    start = clock()
    for _ in range(loops):
        call()
    return (clock() - start) / loops / 1e3


def measure(found, rounds, clock, seconds=BLOCK):
    """Microseconds of each call in each round."""
    loops = {name: max(1, int(seconds * 1e6 / block(f, 2, clock))) for name, f in found.items()}
    times = {name: [] for name in found}
    names = list(found)
    gc.collect()
    gc.disable()
    for turn in range(rounds):
        for i in range(len(names)):
            name = names[(i + turn) % len(names)]
            times[name].append(block(found[name], loops[name], clock))
    gc.enable()
    return times


def faults(call):
    """Pages that a call writes for the first time."""
    call()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(3):
        call()
    return round((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 3)


def line(cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def paired(times, name):
    """The median over the rounds of the ratio to `copy_`."""
    return statistics.median(a / b for a, b in zip(times[name], times["copy_"], strict=True))


def targets(specs, generator, rounds, clock):
    names = ("case", "", "copy_, us", "ours, us", "target", "reached", "paired median", "holds")
    line(names)
    line(["---"] * len(names))
    for spec in specs:
        limit, unit = TARGETS[str(spec)]
        large = spec in cases.LARGE
        found = calls(spec, generator)
        ours = ("forward out", "inverse out") if large else ("forward", "inverse")
        found = {name: found[name] for name in ("copy_", *ours)}
        times = measure(found, max(5, rounds // 10) if large else rounds, clock, SHORT)
        low = {name: statistics.quantiles(times[name], n=10)[0] for name in found}
        for name in ours:
            ratio = low[name] / low["copy_"]
            reached, sign = (low[name], " us") if unit == "us" else (ratio, "x")
            line(
                [spec, name, f"{low['copy_']:.1f}", f"{low[name]:.1f}", f"{limit}{sign}"]
                + [f"{reached:.2f}{sign}", f"{paired(times, name):.2f}x"]
                + ["yes" if reached <= limit else "NO"]
            )
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, help="30, or 300 of the targets")
    parser.add_argument("--targets", action="store_true", help="what was aimed at, and is reached")
    parser.add_argument("--heap", default="system", choices=heap.HEAPS, help="see --perf-heap")
    parser.add_argument("--only", default="", help="a part of the names of the cases")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.thread_time_ns if options.threads == 1 else time.perf_counter_ns
    generator = torch.Generator().manual_seed(0)
    if options.heap != "system":
        heap.put_in_force(options.heap)
    specs = [spec for spec in (*cases.SPECS, *cases.LARGE) if options.only in str(spec)]
    if options.targets:
        with wavelets.backend("kernel"):
            return targets(specs, generator, options.rounds or 300, clock)
    names = ["clone", "forward", "inverse", "forward out", "inverse out"]
    line(["case", "copy_", *names, *(f"{name} / copy_" for name in names), "faults of each"])
    line(["---"] * (3 + 2 * len(names)))
    with wavelets.backend("kernel"):
        for spec in specs:
            found = calls(spec, generator)
            new = ", ".join(str(faults(call)) for call in found.values())
            times = measure(found, options.rounds or 30, clock)
            cells = [f"{statistics.median(times[name]):.1f}" for name in ("copy_", *names)]
            cells += [f"{paired(times, name):.2f}" for name in names]
            line([spec, *cells, new])
    return 0


if __name__ == "__main__":
    sys.exit(main())
