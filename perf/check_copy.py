"""How near are the native kernels to copying? Prints a Markdown table, one line a case.

    python perf/check_copy.py [--threads 1] [--rounds 30] [--only TEXT]

Every round times each of these, once or for a few milliseconds, in an order that turns:

    copy_               into a tensor that is there: nothing but reading and writing
    clone               into new memory, as a transform gives: what new pages cost is in it
    forward, inverse    as they are called
    forward out, inverse out    into tensors that are there

The table has the medians in microseconds, the medians of the ratios to the `copy_` of the same
round, and how many pages a call writes for the first time. A result is freed before the next call.
With one thread, time is that of the thread, so that neighbours on the core do not count; with more
it is that of the wall.
"""

import argparse
import gc
import resource
import statistics
import sys
import time

import test_wavelets as cases
import torch

from rightfast import wavelets

TRANSFORMS = {
    1: (wavelets.wavedec, wavelets.waverec),
    2: (wavelets.wavedec2, wavelets.waverec2),
    3: (wavelets.wavedecn, wavelets.waverecn),
}
BLOCK = 2e-3  # seconds of one block, at least one call


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


def measure(found, rounds, clock):
    """Microseconds of each call in each round."""
    loops = {name: max(1, int(BLOCK * 1e6 / block(call, 2, clock))) for name, call in found.items()}
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--only", default="", help="a part of the names of the cases")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.thread_time_ns if options.threads == 1 else time.perf_counter_ns
    generator = torch.Generator().manual_seed(0)
    names = ["clone", "forward", "inverse", "forward out", "inverse out"]
    line(["case", "copy_", *names, *(f"{name} / copy_" for name in names), "faults of each"])
    line(["---"] * (3 + 2 * len(names)))
    with wavelets.backend("kernel"):
        for spec in [*cases.SPECS, *cases.LARGE]:
            if options.only not in str(spec):
                continue
            found = calls(spec, generator)
            new = ", ".join(str(faults(call)) for call in found.values())
            times = measure(found, options.rounds, clock)
            cells = [f"{statistics.median(times[name]):.1f}" for name in ("copy_", *names)]
            for name in names:
                pairs = zip(times[name], times["copy_"], strict=True)
                cells.append(f"{statistics.median(a / b for a, b in pairs):.2f}")
            line([spec, *cells, new])


if __name__ == "__main__":
    sys.exit(main())
