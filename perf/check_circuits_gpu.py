"""Circuits on a GPU: verified against torch in float64, then timed; prints Markdown tables.

    python perf/check_circuits_gpu.py [--workloads hmm-1024,...] [--batches 16,128,512]
        [--precisions ieee,tf32] [--parts time,peer,profile,vary,first,memory]
        [--rounds 8] [--steps 10]

A step is a forward and a backward pass that adds parameter flows, as EM needs them. Times are
those between CUDA events, over ``--steps`` steps a round, so that waiting for the host counts.
Exits with 1 if a circuit is wrong, before anything of it is timed. "peer" is pyjuice on the same
circuit with the same parameters, in turns with ours.
"""

import argparse
import functools
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perf.circuits_by_hand import random_tree
from rightfast import circuits

CATEGORIES = 256


def tree():
    return circuits.hclt(
        parents=random_tree(784), num_latents=256, dist=circuits.Categorical(CATEGORIES)
    )


def rat(**options):
    dist = circuits.Categorical(CATEGORIES)
    return circuits.rat_spn(784, 64, dist, depth=5, num_repetitions=4, **options)


def grid(**options):
    dist = circuits.Categorical(CATEGORIES)
    return circuits.pd((28, 28), 64, dist, split_intervals=4, **options)


WORKLOADS: dict[str, Callable[[], circuits.nodes.CircuitNodes]] = {
    "hmm-1024": lambda: circuits.hmm(32, 1024, circuits.Categorical(1278)),
    "hmm-256u": lambda: circuits.hmm(32, 256, circuits.Categorical(1278), homogeneous=False),
    "hclt-256": tree,
    "pd-28": lambda: grid(max_cuts=4),
    "rat-spn": lambda: rat(products="hadamard", share_inputs=True),
    "pd-28-all": grid,
    "rat-spn-outer": rat,
}
BLOCKS = {"hmm-1024": 1024, "hmm-256u": 256, "hclt-256": 256, "pd-28": 32, "rat-spn": 64}
TOLERANCE = {"ieee": 3e-5, "tf32x3": 3e-5, "bf16x3": 2e-4, "tf32": 3e-3, "bf16": 3e-2}


def data(circuit, batch, seed=0):
    """Random categories [batch, variables]."""
    generator = torch.Generator().manual_seed(seed)
    categories = circuit.plan.inputs[0].dist.num_categories
    shape = (batch, circuit.num_variables)
    return torch.randint(categories, shape, generator=generator).to(circuit.device)


def step(circuit, x):
    """Forward and backward."""
    with torch.no_grad():
        values = circuit(x)
        circuit.backward()
    return values


def twin(circuit):
    """Its parameters by torch operations in float64."""
    return circuits.Circuit(circuit.plan, circuit.parameters_flat.detach().double())


def with_options(circuit, **options):
    """The same plan and parameters."""
    return circuits.Circuit(circuit.plan, circuit.parameters_flat.detach().clone(), **options)


def errors(circuit, exact, x):
    """Of log-likelihoods, relative to the largest; of flows, relative to their norm."""
    circuit.zero_flows()
    values = step(circuit, x).double()
    flows = circuit.flows.double()
    off = float((values - exact[0]).abs().max() / exact[0].abs().max())
    return off, float((flows - exact[1]).norm() / exact[1].norm())


def timed(run, rounds, steps):
    """(median, least) milliseconds of a step between CUDA events."""
    for _ in range(3):
        run()
    found = []
    for _ in range(rounds):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        for _ in range(steps):
            run()
        stop.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(stop) / steps)
    return statistics.median(found), min(found)


def host_time(run, steps):
    """Milliseconds until the host is done with a step, nothing waited for."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        run()
    found = (time.perf_counter() - start) / steps * 1e3
    torch.cuda.synchronize()
    return found


def no_waiting(run):
    """Raises where a step waits for the device."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        run()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def times(name, base, options):
    """Rows of the first table; False if something is wrong."""
    right = True
    reference = {}
    exact = twin(base)
    for batch in options.batches:
        x = data(base, batch)
        exact.zero_flows()
        reference[batch] = step(exact, x), exact.flows.clone()
    del exact
    torch.cuda.empty_cache()
    for precision in options.precisions:
        for graphs in (False, True):
            circuit = with_options(base, graphs=graphs, precision=precision)
            for batch in options.batches:
                x = data(base, batch)
                for _ in range(2):  # the second time it is replayed
                    off, flows = errors(circuit, reference[batch], x)
                bound = TOLERANCE[precision]
                if not (off <= bound and flows <= bound):
                    print(f"WRONG: {name} {precision} {graphs} {batch}: {off:.2g} {flows:.2g}")
                    right = False
                    continue
                found = figures(functools.partial(step, circuit, x), options)
                kind = "graphs" if graphs else "eager"
                print(
                    f"| {name} | {precision} | {kind} | {batch} | {found} | "
                    f"{off:.1e} | {flows:.1e} |",
                    flush=True,
                )
    return right


def figures(run, options):
    """What is measured of a step, which must not wait for the device."""
    no_waiting(run)
    median, least = timed(run, options.rounds, options.steps)
    return f"{median:.3f} | {least:.3f} | {host_time(run, options.steps):.3f}"


def peer(name, base, options):
    """Ours and pyjuice's steps in turns, eager and recorded; flows of sums are compared."""
    from perf.circuits_by_pyjuice import Pyjuice

    start = time.perf_counter()
    other = Pyjuice(base, BLOCKS[name])
    torch.cuda.synchronize()
    compiling = time.perf_counter() - start
    exact = twin(base)
    ours = [with_options(base, graphs=g, precision=options.precisions[-1]) for g in (False, True)]
    for batch in options.batches:
        x = data(base, batch)
        exact.zero_flows()
        values = step(exact, x)
        for graphs in (False, True):
            for _ in range(2):
                other.forget()
                found = other.step(x, graphs).double()
            off = float((found - values).abs().max() / values.abs().max())
            flows = other.flows_off(base, exact.flows)
            mine, theirs = [], []
            for _ in range(options.rounds):
                mine.append(timed(functools.partial(step, ours[graphs], x), 1, options.steps)[0])
                run = functools.partial(other.step, x, graphs)
                theirs.append(timed(run, 1, options.steps)[0])
            kind = "graphs" if graphs else "eager"
            print(
                f"| {name} | {kind} | {batch} | {statistics.median(mine):.3f} | "
                f"{statistics.median(theirs):.3f} | {off:.1e} | {flows:.1e} | {compiling:.1f} |",
                flush=True,
            )
    return True


def profile(name, base, options):
    """Microseconds of a recorded step, by kernel."""
    circuit = with_options(base, graphs=True, precision=options.precisions[-1])
    for batch in options.batches:
        x = data(base, batch)
        for _ in range(3):
            step(circuit, x)
        with torch.profiler.profile() as found:
            for _ in range(options.steps):
                step(circuit, x)
            torch.cuda.synchronize()
        by_kernel = {
            event.key: (event.self_device_time_total, event.count)
            for event in found.key_averages()
            if event.self_device_time_total > 0
        }
        words = ", ".join(
            f"{key[:40]} {spent / options.steps:.0f} ({count / options.steps:.0f})"
            for key, (spent, count) in sorted(by_kernel.items(), key=lambda item: -item[1][0])
        )
        print(f"| {name} | {batch} | {words} |", flush=True)
    return True


def vary(name, base, options):
    """Batches of 10 to 26, another one at every step."""
    generator = torch.Generator().manual_seed(0)
    sizes = [10 + int(torch.randint(17, (), generator=generator)) for _ in range(80)]
    batches = {size: data(base, size) for size in set(sizes)}
    for graphs in (False, True):
        circuit = with_options(base, graphs=graphs, precision=options.precisions[-1])
        epochs = []
        for _ in range(4):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for size in sizes:
                step(circuit, batches[size])
            torch.cuda.synchronize()
            epochs.append((time.perf_counter() - start) / len(sizes) * 1e3)
        engine = circuit.engine()
        recorded = sum(len(w.forward) + len(w.backward) for w in engine._free)
        if circuit.state is not None:
            own = circuit.state.workspace
            recorded += len(own.forward) + len(own.backward)
        words = ", ".join(f"{epoch:.3f}" for epoch in epochs)
        kind = "graphs" if graphs else "eager"
        print(f"| {name} | {kind} | {words} | {recorded} | {len(batches)} |", flush=True)
    return True


def first(name, root, options):
    """Compiling, and the first steps of batch sizes that were not seen before."""
    start = time.perf_counter()
    circuit = circuits.compile(root, device="cuda", graphs=True, precision=options.precisions[-1])
    circuit.engine()
    torch.cuda.synchronize()
    compiling = time.perf_counter() - start
    found = []
    for batch in (16, 128, 512, 24, 100):
        x = data(circuit, batch)
        torch.cuda.synchronize()
        start = time.perf_counter()
        step(circuit, x)
        torch.cuda.synchronize()
        found.append(f"{batch}: {time.perf_counter() - start:.3f}")
    print(f"| {name} | {compiling:.2f} | {', '.join(found)} |", flush=True)
    return True


def memory(name, base, options):
    """What is held at batch 16, before and after one step of batch 4096."""
    circuit = with_options(base, precision=options.precisions[-1])
    found = []
    for batch in (16, 16, 4096, 16, 16):
        step(circuit, data(base, batch))
        torch.cuda.synchronize()
        found.append(torch.cuda.memory_allocated() / 2**20)
    words = ", ".join(f"{size:.0f}" for size in found)
    print(f"| {name} | {words} | {found[-1] / found[1]:.2f} |", flush=True)
    return True


PARTS = {"time": times, "peer": peer, "profile": profile, "vary": vary, "memory": memory}


def main():
    """Parse, verify, time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", default=",".join(BLOCKS))
    parser.add_argument("--batches", default="16,128,512")
    parser.add_argument("--precisions", default="ieee,tf32")
    parser.add_argument("--parts", default="time,vary,first,memory")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    options.batches = [int(n) for n in options.batches.split(",")]
    options.precisions = options.precisions.split(",")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    heads = {
        "time": (
            "| workload | precision | | batch | median, ms | least, ms | host, ms | "
            "error of log-likelihoods | of flows |"
        ),
        "peer": (
            "| workload | | batch | ours, ms | pyjuice, ms | its error of log-likelihoods | "
            "of flows of sums | its compiling, s |"
        ),
        "profile": "| workload | batch | us a step (launches) |",
        "vary": "| workload | | ms a step, epoch by epoch | graphs | sizes |",
        "first": "| workload | compile, s | first step, s |",
        "memory": "| workload | MiB at 16, 16, 4096, 16, 16 | after / before |",
    }
    right = True
    for part in options.parts.split(","):
        print(f"\n{heads[part]}\n|{' --- |' * (heads[part].count('|') - 1)}", flush=True)
        for name in options.workloads.split(","):
            root = WORKLOADS[name]()
            if part == "first":
                first(name, root, options)
                continue
            base = circuits.compile(root, device="cuda")
            right &= PARTS[part](name, base, options)
            del base
            torch.cuda.empty_cache()
    sys.exit(not right)


if __name__ == "__main__":
    main()
