"""Is a path of ours slower than a peer in any case of test_wavelets.py? Prints a Markdown table.

    python perf/check_peers.py [--backend torch] [--peer ptwt] [--quads 30] [--only TEXT]

Both are checked against PyWavelets in float64, then timed in one process, one thread, in turn:
blocks in the order ABBA and BAAB (A the peer, B ours), so that a drift of the machine cancels in
each four. A four gives one log-ratio; the interval is a t-bound on their trimmed mean, at 95% for
the whole table. Time is that of the thread, so that a neighbour on the core does not count as
ours. Exit code 1 if an upper bound lies above 1: slower, or not enough fours to tell.
"""

import argparse
import gc
import math
import statistics
import sys
import time
import warnings
from dataclasses import dataclass

import numpy as np
import test_wavelets as cases
import torch

from pytest_rightfast import Unsupported
from pytest_rightfast.statistics import estimate, quad_log_ratio
from pytest_rightfast.student import t_quantile
from rightfast import wavelets

BLOCK = 4e-3  # seconds of one block, at least one call
ERROR = 0.05  # chance of a wrong bound in the whole table
PEERS = {
    "pywt": (cases.by_pywt, cases.by_pywt_inverse, cases.to_numpy, lambda result: result),
    "ptwt": (cases.by_ptwt, cases.by_ptwt_inverse, cases.to_ptwt, lambda result: result),
    "pytorch_wavelets": (
        cases.by_pytorch_wavelets,
        cases.by_pytorch_wavelets_inverse,
        cases.to_bands,
        cases.from_bands,
    ),
    "chuchichaestli": (
        cases.by_chuchichaestli,
        cases.by_chuchichaestli_inverse,
        cases.to_keyed,
        cases.from_keyed,
    ),
}


@dataclass(frozen=True)
class Duel:
    """One case: a call of ours, a call of the peer's."""

    name: str
    kind: str
    ours: object
    peer: object


def tensors(tree):
    return [leaf for leaf in torch.utils._pytree.tree_leaves(tree) if torch.is_tensor(leaf)]


def gradient(transform, x, spec):
    bands = tensors(transform(x, spec))
    return torch.autograd.grad(bands, x, [torch.ones_like(band) for band in bands])


def duels(spec, peer, generator):
    """Forward, inverse and gradient of a spec, each answer checked; nothing if unsupported."""
    forward, inverse, layout, back = PEERS[peer]
    x = cases.draw(spec, generator)
    try:
        forward(x, spec)
    except Unsupported:
        return
    coefficients = cases.coefficients_of(spec, generator)
    theirs, y = layout(coefficients, spec)[0], x.clone().requires_grad_()
    # The checks also use memory of this size before anything is timed. Without, glibc would return
    # a large block at each call, and one side pay for its pages that another spares.
    exact = cases.by_pywt(x.double(), spec)
    check(cases.ours(x, spec), exact, spec, "ours")
    check(back(forward(x, spec)), exact, spec, peer)
    exact = cases.by_pywt_inverse(*cases.to_numpy(double(coefficients), spec))
    check(cases.ours_inverse(coefficients, spec), exact, spec, "ours")
    check(inverse(theirs, spec), exact, spec, peer)
    name = str(spec)
    yield Duel(name, "forward", lambda: cases.ours(x, spec), lambda: forward(x, spec))
    yield Duel(
        name,
        "inverse",
        lambda: cases.ours_inverse(coefficients, spec),
        lambda: inverse(theirs, spec),
    )
    if peer == "pywt":  # which has none
        return
    yield Duel(
        name,
        "gradient",
        lambda: gradient(cases.ours, y, spec),
        lambda: gradient(forward, y, spec),
    )


def double(tree):
    return torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.double, tree)


def check(result, exact, spec, who):
    """Raises ArithmeticError unless the float32 result is that of float64, as a whole."""
    flat = torch.utils._pytree.tree_leaves
    pairs = list(zip(flat(result), flat(exact), strict=True))
    error = math.hypot(*(np.linalg.norm(np.asarray(a) - b) for a, b in pairs))
    size = math.hypot(*(np.linalg.norm(b) for _, b in pairs))
    if not error <= 1e-5 * size:
        raise ArithmeticError(f"{who} is wrong in {spec}: error {error:.2e} of {size:.2e}")


def block(call, loops):
    """Microseconds of thread time per call."""
    start = time.thread_time_ns()
    for _ in range(loops):
        call()
    return (time.thread_time_ns() - start) / loops / 1e3


def measure(duel, quads):
    """(microseconds of ours, of the peer's, log-ratios of the quads)."""
    sides = {"A": duel.peer, "B": duel.ours}
    loops = {}
    for side, call in sides.items():
        once = min(block(call, 1) for _ in range(3))
        loops[side] = max(1, int(BLOCK * 1e6 / once))
    times, ratios = {"A": [], "B": []}, []
    gc.collect()
    gc.disable()
    for quad in range(quads):
        order = "BAAB" if quad % 2 else "ABBA"
        found = [block(sides[side], loops[side]) for side in order]
        for side, microseconds in zip(order, found, strict=True):
            times[side].append(microseconds)
        ratios.append(quad_log_ratio(order, found))
    gc.enable()
    return statistics.median(times["B"]), statistics.median(times["A"]), ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", choices=PEERS, default="ptwt")
    parser.add_argument("--backend", choices=("kernel", "torch"), default="torch")
    parser.add_argument("--quads", type=int, default=30)
    parser.add_argument("--only", default="", help="a part of the names of the cases")
    options = parser.parse_args()
    with wavelets.backend(options.backend):
        return compare(options)


def compare(options):
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    specs = [spec for spec in [*cases.SPECS, *cases.REAL] if options.only in str(spec)]
    print(f"| case | | ours, us | {options.peer}, us | ratio | interval |")
    print("|---|---|---|---|---|---|")
    worst = 0.0
    for spec in specs:
        for duel in duels(spec, options.peer, generator):
            ours, theirs, ratios = measure(duel, options.quads)
            found = estimate(ratios)
            reach = t_quantile(ERROR / 2 / (3 * len(specs)), found.freedom) * found.error
            low, high = math.exp(found.mean - reach), math.exp(found.mean + reach)
            worst = max(worst, high)
            cells = f"{ours:.0f} | {theirs:.0f} | {math.exp(found.mean):.2f}"
            print(f"| {duel.name} | {duel.kind} | {cells} | {low:.2f} to {high:.2f} |", flush=True)
    print(f"\nThe largest upper bound is {worst:.3f}.")
    return int(worst > 1 or worst == 0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
