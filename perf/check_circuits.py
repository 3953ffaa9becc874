"""How does `rightfast.circuits` compare with circuits written by hand, and with peers? Prints
Markdown tables.

    python perf/check_circuits.py [--threads 1] [--rounds 12] [--peers cirkit,spflow] [--only TEXT]

Seven circuits: log-likelihoods (forward), with the gradient by every parameter (step), and a whole
EM step; beside torch written by hand also as parameters are after 20 EM steps on the timed batch.
All sides get the same parameters, and must give the same log-likelihoods, before and after an EM
step, before anything is timed; a timed EM step starts from these parameters each time. Every round
times ours and one other in turn; the tables have the medians in milliseconds, and the median of
the rounds' ratios. With one thread, time is that of the thread, so that neighbours on the core do
not count; with more it is that of the wall.

Exit code 1 if, with random parameters, ours takes more than 1.15 times as long as torch written by
hand, or less than 2.5 times as fast as cirkit, or 6 times as SPFlow.
"""

import argparse
import gc
import statistics
import sys
import time

import circuits_by_hand as by_hand
import circuits_by_peers as by_peers
import torch
from circuits_by_peers import Side

from rightfast import circuits

BOUND = 1.15  # ours / by hand
PEERS = {"cirkit": (by_peers.cirkit, 2.5), "spflow": (by_peers.spflow, 6.0)}  # theirs / ours
PASSES = {"forward": "forward", "step": "step", "em": "EM"}
LEAST_ROUNDS, SECONDS = 3, 5  # fewer rounds where all would take longer, one of them to warm up
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


def ours(circuit):
    def step(x):
        return torch.autograd.grad(circuit(x).mean(), circuit.parameters_flat)

    def em(x):
        return circuits.mini_batch_em(circuit, x, step_size=1.0)

    return Side(circuit, step, em, circuit, [circuit.parameters_flat])


def hand(model):
    def step(x):
        return by_hand.step(model, x)

    def em(x):
        return by_hand.em(model, x)

    likelihood = model.log_likelihood
    return Side(likelihood, step, em, likelihood, model.parameters)


class Duel:
    """Two sides of one circuit on one batch.

    Raises ArithmeticError unless both give the same numbers, before and after an EM step.
    """

    def __init__(self, one, other, x):
        self.sides, self.x = (one, other), x
        self._kept = [[p.detach().clone() for p in side.parameters] for side in self.sides]
        self._same("log-likelihoods", lambda side: side.forward, 1e-5)
        for side in self.sides:
            side.em(x)
        self._same("log-likelihoods after an EM step", lambda side: side.learned, 1e-4)
        self.restore()

    def _same(self, what, pick, rtol):
        with torch.no_grad():
            a, b = (pick(side)(self.x).clone() for side in self.sides)
        if not torch.allclose(a, b, rtol=rtol):
            raise ArithmeticError(f"{what} differ by {float((a - b).abs().max()):.2e}")

    @torch.no_grad()
    def restore(self):
        """All parameters as they were."""
        for side, kept in zip(self.sides, self._kept):
            for parameter, value in zip(side.parameters, kept):
                parameter.copy_(value)

    def measure(self, name, rounds, clock):
        """(ms of the one, ms of the other, median of one / other)."""
        calls, times = [getattr(side, name) for side in self.sides], ([], [])
        begun = time.monotonic()
        gc.disable()
        gc.freeze()  # what a round leaves behind is then found at little cost
        for turn in range(rounds + 2):
            gc.collect()
            for which in (0, 1) if turn % 2 else (1, 0):
                if name == "em":
                    self.restore()
                with torch.set_grad_enabled(name != "forward"):
                    start = clock()
                    calls[which](self.x)
                    times[which].append((clock() - start) / 1e6)
            if turn + 1 >= LEAST_ROUNDS and time.monotonic() - begun > SECONDS:
                break
        gc.unfreeze()
        gc.enable()
        one, other = (found[min(2, len(found) // 2) :] for found in times)  # after warming up
        ratio = statistics.median(a / b for a, b in zip(one, other))
        return statistics.median(one), statistics.median(other), ratio


def against_hand(kind, trained, options, clock):
    """Cells of a line, and the largest ratio."""
    circuit, take_over = build(*kind[:3])
    x = data(kind)
    for _ in range(20 if trained else 0):
        circuits.mini_batch_em(circuit, x, step_size=0.5, pseudocount=0.1)
    duel = Duel(ours(circuit), hand(take_over(circuit)), x)
    found = [duel.measure(name, options.rounds, clock) for name in PASSES]
    cells = [f"{value:.2f}" for passed in found for value in passed]
    return cells, max(ratio for _, _, ratio in found)


def against_peers(kind, options, clock):
    """By pass, cells of a line, and whether all targets are reached."""
    tied, x = build(*kind[:3])[0], data(kind)
    circuit = by_peers.untied(tied)
    rows, reached = {label: [] for label in PASSES.values()}, True
    with torch.no_grad():
        if not torch.allclose(tied(x), circuit(x), rtol=1e-5):
            raise ArithmeticError("without shared parameters it is another circuit")
    for peer in options.peers:
        make, least = PEERS[peer]
        try:
            duel = Duel(ours(circuit), make(circuit), x)
        except ArithmeticError as error:
            print(f"{peer} is wrong, and not timed: {error}", file=sys.stderr)
            for row in rows.values():
                row += ["", "wrong", ""]
            continue
        for name, label in PASSES.items():
            one, other, ratio = duel.measure(name, options.rounds, clock)
            reached &= 1 / ratio >= least
            rows[label] += [f"{one:.2f}", f"{other:.2f}", f"{1 / ratio:.1f}"]
    return rows, reached


def data(kind):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, (kind[3], kind[1]), generator=generator)


def line(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def head(*cells):
    line(*cells)
    line(*["---"] * len(cells))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--peers", type=lambda text: text.split(","), default=[])
    parser.add_argument("--only", default="", help="a part of the names of the cases")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.thread_time_ns if options.threads == 1 else time.perf_counter_ns
    chosen = {name: kind for name, kind in CASES.items() if options.only in name}

    columns = ("{}, ms", "{}, by hand", "{}, ratio")
    head("case", "parameters", *[c.format(label) for label in PASSES.values() for c in columns])
    worst, reached = 0.0, True
    for name, kind in chosen.items():
        for trained in (False, True):
            cells, ratio = against_hand(kind, trained, options, clock)
            worst = worst if trained else max(worst, ratio)
            line(name, "trained" if trained else "random", *cells)
    print(f"\nThe largest ratio of random parameters is {worst:.2f}.")
    if options.peers:
        columns = ("ours, ms", "{}, ms", "times ours")
        print()
        head("case", "pass", *[c.format(peer) for peer in options.peers for c in columns])
        for name, kind in chosen.items():
            rows, enough = against_peers(kind, options, clock)
            reached &= enough
            for label, cells in rows.items():
                line(name, label, *cells)
    return int(worst > BOUND or not reached)


if __name__ == "__main__":
    sys.exit(main())
