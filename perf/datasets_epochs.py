"""What `check_datasets.py` measures: layouts of the same samples, and epochs over them."""

import functools
import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from rightfast import datasets
from rightfast.datasets import Loader


class Case(NamedTuple):
    """One row: how it is opened, and what reads it, `load(dataset, order, batch, workers)`."""

    name: str
    path: Path
    open: Callable[[], Any]
    load: Callable[..., Any]


def ours(dataset, order, batch, workers, **options):
    return Loader(dataset, batch, sampler=order, num_workers=workers, **options)


def plain(dataset, order, batch, workers):
    return DataLoader(dataset, batch, sampler=order, num_workers=workers)


def peer_tensors(dataset, order, batch, workers):
    return unpacked(DataLoader(dataset, batch, sampler=order, num_workers=workers))


def unpacked(loader):
    for found in loader:
        yield found[0] if isinstance(found, (tuple, list)) else found


class NumpyFiles(Dataset):
    """What is written by hand most often."""

    def __init__(self, folder):
        self.paths = sorted(folder.iterdir())

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return torch.from_numpy(np.load(self.paths[index]))


def make_samples(count, shape):
    """Random values; the first and last element of each say which it is."""
    samples = torch.randn(count, *shape, generator=torch.Generator().manual_seed(0))
    flat = samples.view(count, -1)
    flat[:, 0], flat[:, -1] = torch.arange(count), -torch.arange(count)
    return samples


def cases(folder, samples):
    """Writes all layouts, and gives a case for each."""
    d = datasets
    made = []
    for name, write, read, options in [
        ("npy", d.write_npy, d.NpyDataset, {}),
        ("npy, a file each", d.write_npy, d.NpyDataset, {"layout": "files"}),
        ("safetensors", d.write_safetensors, d.SafetensorsDataset, {}),
        (
            "safetensors, a file each",
            d.write_safetensors,
            d.SafetensorsDataset,
            {"layout": "files"},
        ),
        ("HDF5", d.write_hdf5, d.HDF5Dataset, {}),
        ("HDF5, a file each", d.write_hdf5, d.HDF5Dataset, {"layout": "files"}),
        ("zarr, shards of 128", d.write_zarr, d.ZarrDataset, {}),
        ("tar", d.write_tar, d.TarDataset, {}),
    ]:
        suffix = {"HDF5": ".h5"}.get(name, f".{name.split(',')[0]}" if "," not in name else "")
        path = folder / (name.replace(", ", "-").replace(" ", "-") + suffix)
        write(path, samples, **options)
        made.append(Case(name, path, functools.partial(read, path), ours))
    paths = {case.name: case.path for case in made}
    files = paths["npy, a file each"]
    made.append(Case("np.load, a file each", files, lambda: NumpyFiles(files), plain))
    return made + peers(paths)


def peers(paths):
    """chuchichaestli's datasets, if it is there."""
    try:
        from chuchichaestli.data import HDF5Dataset, NumpyDataset, SafetensorsDataset
    except ImportError as error:
        print(f"No rows of chuchichaestli: {error}.\n")
        return []
    rows = [("safetensors", SafetensorsDataset, {}), ("npy", NumpyDataset, {})]
    rows.append(("HDF5", HDF5Dataset, {"groups": "data"}))
    return [
        Case(f"peer: {n}", paths[n], peer_opener(c, paths[n], k), peer_tensors) for n, c, k in rows
    ]


def peer_opener(dataset, path, options):
    return lambda cache=False: dataset(str(path), cache=cache, **options)


def epoch(case, order, batch, workers, dataset=None):
    """(seconds, the first and last elements as they came), two to a sample."""
    start = time.perf_counter()
    dataset = case.open() if dataset is None else dataset
    ends = []
    for found in case.load(dataset, order, batch, workers):
        flat = found.numpy().reshape(len(found), -1)
        ends.append(flat[:, :: flat.shape[1] - 1].copy())  # by numpy: the clock runs
        del found, flat
    return time.perf_counter() - start, np.concatenate(ends)


def timed(case, samples, order, batch, workers, dataset=None):
    seconds, ends = epoch(case, order, batch, workers, dataset)
    if ends.tolist() != [[index, -index] for index in order]:
        raise SystemExit(f"{case.name}: wrong samples, or in the wrong order")
    return seconds


def verified(case, samples, order, batch, workers, dataset=None):
    """Every value, once."""
    dataset = case.open() if dataset is None else dataset
    seen = 0
    for found in case.load(dataset, order, batch, workers):
        if not torch.equal(found, samples[order[seen : seen + len(found)]]):
            raise SystemExit(f"{case.name}: a value that was not written")
        seen += len(found)
    if seen != len(order):
        raise SystemExit(f"{case.name}: {seen} of {len(order)} samples")


def order_of(samples, shuffled, seed=0):
    order = list(range(len(samples)))
    if shuffled:
        random.Random(seed).shuffle(order)
    return order


def read_plainly(path, size, count, shuffled):
    """No dataset: one system call after the other into memory that is used again.

    One file: a MiB a call, as dd does it, or, shuffled, a sample a call. Files: one each.
    """
    buffer = memoryview(bytearray(max(size, 1 << 20)))
    start = time.perf_counter()
    order = list(range(count))
    if shuffled:
        random.Random(0).shuffle(order)
    if path.is_dir():
        names = sorted(os.listdir(path))
        for index in order:
            fd = os.open(path / names[index], os.O_RDONLY)
            while os.readv(fd, [buffer]):
                pass
            os.close(fd)
    else:
        fd = os.open(path, os.O_RDONLY)
        if shuffled:
            for index in order:
                os.preadv(fd, [buffer[:size]], index * size)
        else:
            while os.readv(fd, [buffer[: 1 << 20]]):
                pass
        os.close(fd)
    return time.perf_counter() - start


def memcpy(samples, batch):
    """The same bytes from memory to memory that is used again."""
    out = torch.empty_like(samples[:batch])
    start = time.perf_counter()
    for first in range(0, len(samples), batch):
        part = samples[first : first + batch]
        out[: len(part)].copy_(part)
    return time.perf_counter() - start


def hit_cost(samples, rounds):
    """Seconds of the thread that a hit takes beyond the copy of its bytes, sample by sample."""
    cache = datasets.SharedCache(list(samples[:64]), fraction=1.0)
    cache.warm()
    out, costs = torch.empty_like(samples[0]), []
    for _ in range(20 * rounds):
        start = time.thread_time()
        for index in range(64):
            cache[index]
        middle = time.thread_time()
        for index in range(64):
            out.copy_(samples[index])
        costs.append((2 * middle - start - time.thread_time()) / 64)
    cache.close()
    return statistics.median(costs)
