"""How near are the native kernels to copying? Prints a Markdown table, one line a case.

    python perf/check_copy.py [--threads 1] [--rounds 30] [--only TEXT]

Every round calls each of these once, or for a few milliseconds, in an order that turns:

    copy_      into a tensor that is there: nothing but reading and writing
    clone      into memory of its own, as a transform gives: what new pages cost is in it
    forward, inverse, inverse out=

and the table has the medians, in microseconds, and the ratios to `copy_`, round by round. A result
is freed before the next call, so that memory is as new, or as used, as in a program that does the
same. With one thread time is that of the thread, so that neighbours on the core do not count; with
more it is that of the wall.
"""

import argparse
import gc
import statistics
import sys
import time

import test_wavelets as cases
import torch

from rightfast import wavelets

BLOCK = 2e-3  # seconds of one block, at least one call


def calls(spec, generator):
    """What is compared, by name."""
    x = cases.draw(spec, generator)
    target = torch.empty_like(x)
    bands = cases.ours(x, spec)
    back = cases.ours_inverse(bands, spec)
    torch.testing.assert_close(back, x, rtol=1e-4, atol=1e-4)
    return {
        "copy_": lambda: target.copy_(x),
        "clone": x.clone,
        "forward": lambda: cases.ours(x, spec),
        "inverse": lambda: cases.ours_inverse(bands, spec),
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--only", default="", help="a part of the names of the cases")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.thread_time_ns if options.threads == 1 else time.perf_counter_ns
    generator = torch.Generator().manual_seed(0)
    header = None
    with wavelets.backend("kernel"):
        for spec in [*cases.SPECS, *cases.LARGE]:
            if options.only not in str(spec):
                continue
            times = measure(calls(spec, generator), options.rounds, clock)
            if header is None:
                header = list(times)
                print(
                    "| case | "
                    + " | ".join(header)
                    + " | of copy_: "
                    + " | ".join(header[1:])
                    + " |"
                )
                print("|---" * (2 * len(header)) + "|")
            cells = [f"{statistics.median(times[name]):.1f}" for name in header]
            for name in header[1:]:
                pairs = zip(times[name], times["copy_"], strict=True)
                cells.append(f"{statistics.median(a / b for a, b in pairs):.2f}")
            print(f"| {spec} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
