"""Record identical code against itself: the noise on which the gate's test is calibrated.

Run by hand: `python tests/gate/record_aa.py PAIRS OUT.json`. Each pair is two fresh processes that
walk the cases in lockstep, quads ABBA or BAAB by turns, one thread. What is kept is each quad's
log-ratio, in time order: the pair's own is their median. `data/aa_two_loaded_cores.json` is 64
pairs of a virtual machine with two cores on which other work ran all the while (load 2 to 3).
"""

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

QUADS = 6
ROUNDS = 3


def cases() -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(0)
    rows = torch.randn(512, 2048, generator=g)
    square = torch.randn(384, 384, generator=g)
    signal = torch.randn(8, 8, 4096, generator=g)
    taps = torch.randn(8, 8, 9, generator=g)
    index = torch.randint(0, 2048, (512, 2048), generator=g)
    small = torch.randn(64, generator=g)

    def many_adds(x: Any) -> Any:
        for _ in range(400):
            x = x + 1.0
        return x

    # Each factory copies its inputs: a block then has addresses, so cache colours, of its own, and
    # a process is not fast or slow for good by where its memory happened to lie.
    def on(op: Callable[..., Any], *inputs: torch.Tensor) -> Callable[[], Callable[[], Any]]:
        def fresh() -> Callable[[], Any]:
            copies = [x.clone() for x in inputs]
            return lambda: op(*copies)

        return fresh

    return {
        "softmax": on(lambda x: torch.softmax(x, dim=-1), rows),
        "matmul": on(torch.matmul, square, square),
        "conv1d": on(torch.nn.functional.conv1d, signal, taps),
        "cumsum": on(lambda x: torch.cumsum(x, dim=-1), rows),
        "gather": on(lambda x, i: torch.gather(x, 1, i), rows, index),
        "strided": on(lambda x: x[:, ::2] + x[:, 1::2], rows),
        "sort": on(torch.sort, rows[:32]),
        "python_loop": on(many_adds, small),
    }


def worker(core: int) -> None:
    os.sched_setaffinity(0, {core})
    known = cases()
    for fresh in known.values():
        call = fresh()
        for _ in range(5):
            call()
    print(json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        call = known[line.strip()]()
        call()
        samples = []
        for _ in range(ROUNDS):
            start = time.perf_counter_ns()
            call()
            samples.append(time.perf_counter_ns() - start)
        print(json.dumps(statistics.median(samples)), flush=True)


def ask(side: "subprocess.Popen[str]", name: str) -> float:
    assert side.stdin is not None
    assert side.stdout is not None
    side.stdin.write(name + "\n")
    side.stdin.flush()
    return float(json.loads(side.stdout.readline()))


def record_pair(number: int) -> dict[str, list[float]]:
    # One core for both: only one of them works at a time, and two cores do not share their noise.
    cores = sorted(os.sched_getaffinity(0))
    command = [sys.executable, __file__, "--worker", str(cores[number % len(cores)])]
    pipe = subprocess.PIPE
    sides = {s: subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for s in "AB"}
    names = []
    for side in sides.values():
        assert side.stdout is not None
        names = json.loads(side.stdout.readline())
    order = ("ABBA" if number % 2 == 0 else "BAAB") * QUADS
    found = {}
    for name in names:
        signed = [math.log(ask(sides[s], name)) * (0.5 if s == "B" else -0.5) for s in order]
        found[name] = [round(sum(signed[i : i + 4]), 5) for i in range(0, len(signed), 4)]
    for side in sides.values():
        side.communicate()
    return found


def main() -> None:
    pairs = []
    for number in range(int(sys.argv[1])):
        pairs.append(record_pair(number))
        text = json.dumps({"quads": QUADS, "rounds": ROUNDS, "pairs": pairs})
        Path(sys.argv[2]).write_text(text + "\n")


if __name__ == "__main__":
    worker(int(sys.argv[2])) if sys.argv[1] == "--worker" else main()
