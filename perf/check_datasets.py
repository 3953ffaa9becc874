"""What a first epoch costs per format, and later ones with a share of the samples cached.

    python perf/check_datasets.py [--folder DIR] [--rounds 4] [--samples 1024] [--only cold,cached]
        [--figures FOLDER]

Prints Markdown: the cold epochs, the cached epochs, sweeps over sizes, batches and workers, and
the targets with what was reached. DIR must be on a device, not tmpfs; it needs nine times the
samples (2.3 GiB) for as long as this runs.

A cold epoch opens the dataset, starts the workers and reads every sample once, after `make_cold`
has synchronised and dropped all files of it and `mincore` has found no page of them in memory.
Every value of every cell is compared with what was written, in an epoch of its own that is not
timed; in the timed ones the first and last element of each sample, which say which sample it is,
and the order. Rounds go through all cells in an order drawn anew, the medians of the rounds are
printed. torch has one thread. The peer, chuchichaestli, is in the tables where it is installed.
"""

import argparse
import contextlib
import functools
import importlib.metadata
import math
import os
import platform
import random
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from datasets_epochs import (
    Case,
    cases,
    hit_cost,
    make_samples,
    memcpy,
    order_of,
    ours,
    read_plainly,
    timed,
    unpacked,
    verified,
)

from rightfast import datasets
from rightfast.datasets import SharedCache

BATCH = 32
COLUMNS = [(False, 0), (True, 0), (False, 4), (True, 4)]  # shuffled, workers
CACHED = [(8, 0), (32, 0), (32, 4)]  # batch, workers
FRACTIONS = [0, 0.25, 0.5, 0.75, 1]


def measure(cells, rounds):
    """{key: median of the rounds}, spread; every round takes all cells in another order."""
    seconds = {key: [] for key in cells}
    for number in range(rounds):
        keys = list(cells)
        random.Random(number).shuffle(keys)
        for key in keys:
            seconds[key].append(cells[key]())
    return seconds


def cold(case, *arguments):
    datasets.make_cold(case.path)
    return timed(case, *arguments)


def table(title, head, rows, seconds):
    print(f"## {title}\n")
    print("| | " + " | ".join(head) + " |")
    print("|---|" + "---|" * len(head))
    for name, keys in rows:
        print(f"| {name} | " + " | ".join(shown(seconds.get(key)) for key in keys) + " |")
    print()


def shown(samples):
    if not samples:
        return "-"
    middle = statistics.median(samples)
    return f"{1e3 * middle:.0f} ({1e3 * min(samples):.0f} to {1e3 * max(samples):.0f})"


def cold_epochs(made, samples, rounds):
    size, count = samples[0].nbytes, len(samples)
    by_name = {case.name: case for case in made}
    one, many = by_name["npy"].path, by_name["npy, a file each"].path
    cells = {}
    for name, path in (("plain read of one file", one), ("plain read, a file each", many)):
        for shuffled in (False, True):

            def read(path=path, shuffled=shuffled):
                datasets.make_cold(path)
                return read_plainly(path, size, count, shuffled)

            cells[name, shuffled, 0] = read
    cells["memcpy", False, 0] = lambda: memcpy(samples, BATCH)
    for case in made:
        for shuffled, workers in COLUMNS:
            order = order_of(samples, shuffled)
            datasets.make_cold(case.path)
            verified(case, samples, order, BATCH, workers)
            cells[case.name, shuffled, workers] = functools.partial(
                cold, case, samples, order, BATCH, workers
            )
    seconds = measure(cells, rounds)
    names = list(dict.fromkeys(key[0] for key in cells))
    rows = [(name, [(name, *column) for column in COLUMNS]) for name in names]
    head = [heading(*column) for column in COLUMNS]
    table(f"Cold: the first epoch, ms, batches of {BATCH}", head, rows, seconds)
    return seconds


def cached_epochs(made, samples, rounds):
    """Shuffled epochs after the one that filled the cache; what is not cached is cold."""
    case = next(case for case in made if case.name == "npy")
    cells, caches = {}, []
    order = order_of(samples, True)
    for fraction in FRACTIONS:
        for batch, workers in CACHED:
            cache = SharedCache(case.open(), fraction=fraction)
            caches.append(cache)
            verified(case, samples, order, batch, workers, cache)  # fills it
            # One loader, and one set of workers, for all epochs, as in training.
            later = order_of(samples, True, seed=1)
            loader = ours(cache, later, batch, workers, persistent_workers=workers > 0)
            one = case._replace(load=lambda *arguments, loader=loader: loader)
            verified(one, samples, later, batch, workers, cache)

            def run(one=one, later=later, cache=cache, batch=batch, workers=workers):
                datasets.make_cold(case.path)
                return timed(one, samples, later, batch, workers, cache)

            cells[f"{fraction:.0%} cached", batch, workers] = run
    for peer in [found for found in made if found.name.startswith("peer")]:
        for batch, workers in CACHED:
            cells[f"{peer.name}, all cached", batch, workers] = peer_epochs(
                peer, samples, order, later, batch, workers
            )
    for batch in (8, 32):
        cells["memcpy", batch, 0] = lambda batch=batch: memcpy(samples, batch)
    seconds = measure(cells, rounds)
    for cache in caches:
        hit = cache.info()
        assert hit.filled == hit.capacity
        cache.close()
    names = list(dict.fromkeys(key[0] for key in cells))
    rows = [(name, [(name, *column) for column in CACHED]) for name in names]
    head = [f"batches of {batch}, {workers} workers" for batch, workers in CACHED]
    table("Cached: later epochs, shuffled, ms; the rest is read cold", head, rows, seconds)
    return seconds


def peer_epochs(peer, samples, order, later, batch, workers):
    """The peer's own cache, filled; one loader for all epochs here too."""
    dataset = peer.open(cache="1G")
    verified(peer, samples, order, batch, workers, dataset)  # fills it
    loader = torch.utils.data.DataLoader(
        dataset, batch, sampler=later, num_workers=workers, persistent_workers=workers > 0
    )
    one = peer._replace(load=lambda *arguments: unpacked(loader))
    verified(one, samples, later, batch, workers, dataset)
    return lambda: timed(one, samples, later, batch, workers, dataset)


def sweeps(folder, rounds):
    """64 MiB each: sizes of samples by workers, and sizes of batches."""
    cells, rows = {}, {"size": [], "batch": []}
    caches = []

    def add(kind, name, samples, batch, workers):
        path = folder / f"sweep-{len(samples)}.npy"
        if not path.exists():
            datasets.write_npy(path, samples)
        case = Case(name, path, functools.partial(datasets.NpyDataset, path), ours)
        order = order_of(samples, True)
        cache = SharedCache(case.open(), fraction=1.0)
        caches.append(cache)
        verified(case, samples, order, batch, workers)
        verified(case, samples, order, batch, workers, cache)
        key = (kind, name, batch, workers)
        cells[(*key, "cold")] = functools.partial(cold, case, samples, order, batch, workers)
        cells[(*key, "cached")] = lambda: timed(case, samples, order, batch, workers, cache)
        rows[kind].append((*key, "cold"))
        rows[kind].append((*key, "cached"))

    for side in (32, 128, 256, 1024):
        samples = make_samples((64 << 20) // (4 * side * side), (1, side, side))
        for workers in (0, 1, 2, 4):
            add("size", f"{4 * side * side >> 10} KiB", samples, BATCH, workers)
        if side == 256:
            for batch in (1, 8, 32, 128):
                add("batch", f"batches of {batch}", samples, batch, 0)
    seconds = measure(cells, rounds)
    for cache in caches:
        cache.close()
    kinds = ("cold", "cached")
    sizes = list(dict.fromkeys(key[1] for key in rows["size"]))
    columns = [(workers, kind) for kind in kinds for workers in (0, 1, 2, 4)]
    listed = [(n, [("size", n, BATCH, w, kind) for w, kind in columns]) for n in sizes]
    head = [f"{kind}, {workers} workers" for workers, kind in columns]
    table(
        f"Sizes of samples: 64 MiB, npy, shuffled, batches of {BATCH}, new workers each time, ms",
        head,
        listed,
        seconds,
    )
    batches = [(f"batches of {b}", b) for b in (1, 8, 32, 128)]
    listed = [(n, [("batch", n, b, 0, kind) for kind in kinds]) for n, b in batches]
    table("Sizes of batches: 64 MiB of 256 KiB, npy, shuffled, ms", kinds, listed, seconds)


def draw(folder, cold_seconds, cached_seconds):
    """Bars of both tables, and their links."""
    from datasets_figures import bars

    folder.mkdir(parents=True, exist_ok=True)
    named = [(column, heading(*column)) for column in COLUMNS]
    bars(folder / "datasets-cold.svg", "Cold: the first epoch", cold_seconds, named)
    named = [(c, f"batches of {c[0]}, {c[1]} workers") for c in CACHED]
    bars(folder / "datasets-cached.svg", "Cached: later epochs", cached_seconds, named)
    print("![Bars: a cold epoch of each format](datasets-cold.svg)\n")
    print("![Bars: an epoch with a share of the samples cached](datasets-cached.svg)\n")


def heading(shuffled, workers):
    return f"{'shuffled' if shuffled else 'sequential'}, {workers} workers"


def targets(cold_seconds, cached_seconds, hit):
    """What was aimed at, in ratios of medians of this run."""
    print("## Targets\n\n| | target | reached | |\n|---|---|---|---|")

    def line(name, limit, value):
        print(f"| {name} | {limit:.2f} | {value:.2f} | {'met' if value <= limit else 'missed'} |")

    if cold_seconds:
        got = {key: statistics.median(found) for key, found in cold_seconds.items()}
        our = [n for n in dict.fromkeys(k[0] for k in got) if is_ours(n)]
        files = [name for name in our if "file each" in name]

        def best(names, *column):
            return min(got[(name, *column)] for name in names)

        sequential = got["plain read of one file", False, 0]
        line("cold sequential, best / plain read", 1.2, best(our, False, 0) / sequential)
        shuffled = got["plain read of one file", True, 0]
        line("cold shuffled, best / plain read", 0.75, best(our, True, 0) / shuffled)
        each = got["plain read, a file each", True, 0]
        line("cold shuffled, a file each, best / plain read", 0.8, best(files, True, 0) / each)
        for name in ("safetensors", "npy", "HDF5"):
            for column in COLUMNS:
                if (f"peer: {name}", *column) in got:
                    ratio = got[(name, *column)] / got[(f"peer: {name}", *column)]
                    line(f"{name} / peer's, {heading(*column)}", 1, ratio)
        peer = [name for name in dict.fromkeys(k[0] for k in got) if name.startswith("peer")]
        for column in [column for column in COLUMNS if column[0] and peer]:
            ratio = best(our, *column) / best(peer, *column)
            line(f"best / peer's best, {heading(*column)}", 1 / 1.5, ratio)
    if cached_seconds:
        full = statistics.median(cached_seconds["100% cached", 8, 0])
        line(
            "all cached, batches of 8 / memcpy",
            1.2,
            full / statistics.median(cached_seconds["memcpy", 8, 0]),
        )
    line("a hit beyond its copy, us", 5, 1e6 * hit)
    print()


def is_ours(name):
    return not name.startswith(("peer", "plain", "memcpy", "np.load"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path(".rightfast/datasets"))
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--figures", type=Path, help="folder for two figures (SVG)")
    parser.add_argument("--only", default="cold,cached,sweeps", help="parts, by comma")
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*worker processes.*")
    torch.set_num_threads(1)  # the copies of torch, as in its workers
    parts = set(chosen.only.split(","))
    chosen.folder.mkdir(parents=True, exist_ok=True)
    samples = make_samples(chosen.samples, (1, 256, 256))
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        report(Path(folder), samples, parts, chosen.rounds, chosen.figures)


def peer_version():
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return f", chuchichaestli {importlib.metadata.version('chuchichaestli')}"
    return ""


def without_folder(arguments):
    """The command, but for where the files were."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--folder")
    return parser.parse_known_args(arguments)[1]


def report(folder, samples, parts, rounds, figures):
    start = time.perf_counter()
    size = len(samples) * math.prod(samples.shape[1:]) * 4 >> 20
    cores = len(os.sched_getaffinity(0))
    print("# Datasets: cold and cached epochs\n\n```console")
    print("$ python perf/check_datasets.py " + " ".join(without_folder(sys.argv[1:])) + "\n```\n")
    print(
        f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {cores} cores, load "
        f"{os.getloadavg()[0]:.1f} at the start, Linux "
        f"{platform.release().split('-')[0]}, Python {platform.python_version()}, torch "
        f"{torch.__version__}{peer_version()}. "
        f"{len(samples)} samples of 1x256x256 float32, {size} MiB. Medians of {rounds} rounds, in "
        "brackets the fastest and the slowest.\n"
    )
    made = cases(folder, samples)
    cold_seconds = cold_epochs(made, samples, rounds) if "cold" in parts else {}
    cached_seconds = cached_epochs(made, samples, rounds) if "cached" in parts else {}
    if figures:
        draw(figures, cold_seconds, cached_seconds)
    if "sweeps" in parts:
        sweeps(folder, max(2, rounds // 2))
    targets(cold_seconds, cached_seconds, hit_cost(samples, rounds))
    print(f"Took {time.perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    main()
