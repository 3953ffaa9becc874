"""How does `rightfast.circuits` compare with two circuits written by hand? Prints a Markdown table.

    python perf/check_circuits.py [--threads 1] [--rounds 12] [--only TEXT]

Seven circuits, as random parameters and after 20 EM steps on the timed batch: log-likelihoods
(forward), with the gradient by every parameter (step), and a whole EM step. Both sides get the
same parameters, and must give the same log-likelihoods before anything is timed; an EM step starts
from these parameters each time. Every round times ours and the other in turn; the table has the
medians in milliseconds, and the median of the rounds' ratios. With one thread, time is that of the
thread, so that neighbours on the core do not count; with more it is that of the wall.

Exit code 1 if a ratio of random parameters is above 1.15.
"""

import argparse
import gc
import statistics
import sys
import time

import circuits_by_hand as by_hand
import torch

from rightfast import circuits

BOUND = 1.15
CASES = {
    "HMM, 64 latents, batch 16": ("hmm", 32, 64, 16),
    "HMM, 64 latents, batch 128": ("hmm", 32, 64, 128),
    "HMM, 256 latents, batch 16": ("hmm", 32, 256, 16),
    "HMM, 256 latents, batch 128": ("hmm", 32, 256, 128),
    "HCLT, 784 variables, 32 latents, batch 16": ("hclt", 784, 32, 16),
    "HCLT, 784 variables, 32 latents, batch 128": ("hclt", 784, 32, 128),
    "HCLT, 64 variables, 64 latents, batch 128": ("hclt", 64, 64, 128),
}


def build(kind, variables, latents):
    """(circuit, how the one by hand takes over its parameters)."""
    dist = circuits.Categorical(256)
    if kind == "hmm":
        return circuits.compile(circuits.hmm(variables, latents, dist)), by_hand.HMM.from_circuit
    tree = by_hand.random_tree(variables)
    circuit = circuits.compile(circuits.hclt(parents=tree, num_latents=latents, dist=dist))
    return circuit, lambda c: by_hand.HCLT.from_circuit(c, tree)


def calls(circuit, hand, x):
    """By name: (ours, the other, what restores the parameters of both, untimed)."""
    flat = circuit.parameters_flat
    kept = [value.detach().clone() for value in (flat, *hand.parameters)]

    def nothing():
        pass

    def restore():
        with torch.no_grad():
            for target, value in zip((flat, *hand.parameters), kept):
                target.copy_(value)

    def step():
        return torch.autograd.grad(circuit(x).mean(), flat)

    return {
        "forward": (no_grad(circuit, x), no_grad(hand.log_likelihood, x), nothing),
        "step": (step, lambda: by_hand.step(hand, x), nothing),
        "EM": (
            lambda: circuits.mini_batch_em(circuit, x, step_size=1.0),
            lambda: by_hand.em(hand, x),
            restore,
        ),
    }


def no_grad(function, x):
    def call():
        with torch.no_grad():
            return function(x)

    return call


def check(circuit, hand, x):
    """Raises ArithmeticError unless both give the same numbers, before and after an EM step."""
    for _ in range(2):
        ours, other = (no_grad(f, x)() for f in (circuit, hand.log_likelihood))
        if not torch.allclose(ours, other, rtol=1e-4):
            raise ArithmeticError(f"ours differs by {float((ours - other).abs().max()):.2e}")
        before = circuit.parameters_flat.detach().clone(), [p.clone() for p in hand.parameters]
        circuits.mini_batch_em(circuit, x, step_size=1.0)
        by_hand.em(hand, x)
    with torch.no_grad():
        circuit.parameters_flat.copy_(before[0])
        for parameter, value in zip(hand.parameters, before[1]):
            parameter.copy_(value)


def measure(ours, other, restore, rounds, clock):
    """(ms of ours, ms of the other, median ratio)."""
    times = {ours: [], other: []}
    gc.collect()
    gc.disable()
    for turn in range(rounds + 2):
        for call in (ours, other) if turn % 2 else (other, ours):
            restore()
            start = clock()
            call()
            times[call].append((clock() - start) / 1e6)
    gc.enable()
    a, b = (times[call][2:] for call in (ours, other))  # the first rounds warm up
    ratio = statistics.median(x / y for x, y in zip(a, b))
    return statistics.median(a), statistics.median(b), ratio


def line(cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def row(name, kind, trained, options, clock):
    """Prints a line; the largest ratio in it."""
    circuit, take_over = build(*kind[:3])
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(256, (kind[3], kind[1]), generator=generator)
    for _ in range(20 if trained else 0):
        circuits.mini_batch_em(circuit, x, step_size=0.5, pseudocount=0.1)
    hand = take_over(circuit)
    check(circuit, hand, x)
    cells, worst = [], 0.0
    for call in calls(circuit, hand, x).values():
        ours, other, ratio = measure(*call, options.rounds, clock)
        worst = max(worst, ratio)
        cells += [f"{ours:.2f}", f"{other:.2f}", f"{ratio:.2f}"]
    line([name, "trained" if trained else "random", *cells])
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--only", default="", help="a part of the names of the cases")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.thread_time_ns if options.threads == 1 else time.perf_counter_ns
    heads = [f"{n}, {who}" for n in ("forward", "step", "EM") for who in ("ms", "by hand", "ratio")]
    line(["case", "parameters", *heads])
    line(["---"] * (2 + len(heads)))
    worst = 0.0
    for name, kind in CASES.items():
        if options.only in name:
            worst = max(worst, row(name, kind, False, options, clock))
            row(name, kind, True, options, clock)
    print(f"\nThe largest ratio of random parameters is {worst:.2f}.")
    return int(worst > BOUND)


if __name__ == "__main__":
    sys.exit(main())
