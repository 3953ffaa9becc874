"""Epochs of `rightfast.datasets`: the first one, with files out of memory, and later ones with a
share of the samples in a cache.

Before every call all files that were read are synchronised and dropped, and `mincore` has to find
no page of them in memory; on tmpfs that is an error. A call opens the dataset, starts the workers
and reads every sample once, into memory that earlier calls used; all values are compared with what
was written. The files lie below .rightfast, or below RIGHTFAST_FOLDER. With RIGHTFAST_LARGE=1 the
sizes and counts of samples, batches, workers and fractions are swept; `perf/check_datasets.py`
makes the tables.

Peers: `plain` reads the packed samples by one system call after the other, `dd` the whole file a
MiB at a time (sequential only), `memcpy` copies them from memory; chuchichaestli reads the same
files, where it is installed.
"""

import functools
import math
import os
import random
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch.utils.data import DataLoader

from pytest_rightfast import PerfCase, Unsupported, peer
from rightfast import datasets
from rightfast.datasets.buffers import pool

pytestmark = pytest.mark.filterwarnings("ignore:.*worker processes.*:UserWarning")


class Epoch(NamedTuple):
    """What is read, and how."""

    count: int  # samples
    side: int  # of one, 1 x side x side float32
    batch: int
    workers: int = 0
    shuffled: bool = True
    fraction: float | None = None  # of the samples that the cache has room for

    def __str__(self):
        order = "shuffled" if self.shuffled else "sequential"
        name = f"{self.count}x{4 * self.side**2 >> 10}KiB-by-{self.batch}-{self.workers}w-{order}"
        return name if self.fraction is None else f"{name}-{self.fraction:.0%}"


COLD = [Epoch(64, 256, 8, shuffled=shuffled) for shuffled in (False, True)]
WORKERS = [how._replace(workers=2) for how in COLD]  # to start them takes most of it
CACHED = [Epoch(64, 256, 8, fraction=fraction) for fraction in (0, 0.5, 1)]
if os.environ.get("RIGHTFAST_LARGE"):
    SWEPT = [
        *(Epoch((64 << 20) // (4 * side**2), side, 32) for side in (32, 128, 256, 1024)),
        *(Epoch(count, 256, 32) for count in (32, 128, 1024)),
        *(Epoch(256, 256, batch) for batch in (1, 8, 128)),
    ]
    WORKERS += [how._replace(workers=4) for how in COLD]
    WORKERS += [Epoch(256, 256, 32, workers) for workers in (1, 2, 4)]
    CACHED += [Epoch(64, 256, 8, fraction=fraction) for fraction in (0.25, 0.75)]
    CACHED += [how._replace(fraction=1) for how in [*SWEPT, *WORKERS]]
    COLD += SWEPT

FORMATS = {
    "npy": (datasets.write_npy, datasets.NpyDataset),
    "npy_files": (functools.partial(datasets.write_npy, layout="files"), datasets.NpyDataset),
    "safetensors": (datasets.write_safetensors, datasets.SafetensorsDataset),
    "hdf5": (datasets.write_hdf5, datasets.HDF5Dataset),
    "zarr": (datasets.write_zarr, datasets.ZarrDataset),
    "tar": (datasets.write_tar, datasets.TarDataset),
}


@functools.cache
def folder():
    above = Path(os.environ.get("RIGHTFAST_FOLDER", Path(__file__).parents[1] / ".rightfast"))
    above.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="epochs-", dir=above)


@functools.lru_cache(1)
def samples(count, side):
    return torch.randn(count, 1, side, side, generator=torch.Generator().manual_seed(count))


def path_of(name, count, side):
    suffix = {"npy": ".npy", "hdf5": ".h5", "safetensors": ".safetensors"}.get(name, "")
    return Path(folder().name) / f"{name}-{count}-{side}{suffix}"


WARM = set()  # files that may be in memory: written, or read since they were made cold


@functools.cache
def write(name, count, side):
    FORMATS[name][0](path_of(name, count, side), samples(count, side))


def written(name, count, side):
    """The path of a format's files, which are to be read."""
    write(name, count, side)
    WARM.add(path_of(name, count, side))
    return path_of(name, count, side)


def loaded(dataset, order, how):
    loader = datasets.Loader(dataset, how.batch, sampler=order, num_workers=how.workers)
    return list(loader)


def by_format(name):
    def epoch(order, how):
        return loaded(FORMATS[name][1](written(name, how.count, how.side)), order, how)

    return epoch


@functools.lru_cache(1)
def filled(how):
    cache = datasets.SharedCache(
        datasets.NpyDataset(written("npy", how.count, how.side)), fraction=how.fraction
    )
    cache.warm()
    return cache


def by_cache(order, how):
    cache = filled(how)
    written("npy", how.count, how.side)
    return loaded(cache, order, how)


def in_rows(order, how):
    """For peers: (index, row) of each sample, and the batches of these rows, in used memory."""
    if how.workers:
        raise Unsupported("one process")
    sizes = [len(order[first : first + how.batch]) for first in range(0, how.count, how.batch)]
    shapes = [(size, 1, how.side, how.side) for size in sizes]
    batches = [pool.take(4 * math.prod(s)).tensor(s, torch.float32) for s in shapes]
    return zip(order, (row for batch in batches for row in batch)), batches


def memcpy(order, how):
    rows, batches = in_rows(order, how)
    held = samples(how.count, how.side)
    for index, row in rows:
        row.copy_(held[index])
    return batches


def plain(order, how):
    rows, batches = in_rows(order, how)
    fd = os.open(written("npy", how.count, how.side), os.O_RDONLY)
    size = 4 * how.side**2
    start = os.fstat(fd).st_size - how.count * size
    for index, row in rows:
        os.preadv(fd, [row.numpy().data.cast("B")], start + index * size)
    os.close(fd)
    return batches


def dd(order, how):
    if how.shuffled:
        raise Unsupported("reads in the order of the file")
    _, batches = in_rows(order, how)
    with open(written("npy", how.count, how.side), "rb", buffering=0) as file:
        file.seek(os.path.getsize(file.name) - how.count * 4 * how.side**2)
        for view in (batch.numpy().reshape(-1).data.cast("B") for batch in batches):
            for first in range(0, len(view), 1 << 20):
                file.readinto(view[first : first + (1 << 20)])
    return batches


def chuchichaestli(name, dataset, **options):
    def epoch(order, how):
        from chuchichaestli import data

        path = str(written(name, how.count, how.side))
        found = getattr(data, dataset)(path, cache=False, **options)
        loader = DataLoader(found, how.batch, sampler=order, num_workers=how.workers)
        return [batch[0] if isinstance(batch, (tuple, list)) else batch for batch in loader]

    return peer(epoch)


def right(batches, order, how):
    """Every value is the one that was written, bit for bit."""
    return torch.equal(torch.cat(batches), samples(how.count, how.side)[order])


def case(how):
    def inputs(generator):
        order = list(range(how.count))
        if how.shuffled:
            random.Random(generator.initial_seed()).shuffle(order)
        return order, how

    def cold(order, how):
        datasets.make_cold(WARM)
        WARM.clear()

    moved = 2 * 4 * how.count * how.side**2
    return PerfCase(inputs=inputs, check=right, before=cold, moved_bytes=moved)


@pytest.mark.parametrize("how", COLD, ids=str)
@pytest.mark.perf_backends(
    **{name: by_format(name) for name in FORMATS},
    plain=peer(plain),
    dd=peer(dd),
    memcpy=peer(memcpy),
    chuchichaestli_npy=chuchichaestli("npy", "NumpyDataset"),
    chuchichaestli_safetensors=chuchichaestli("safetensors", "SafetensorsDataset"),
    chuchichaestli_hdf5=chuchichaestli("hdf5", "HDF5Dataset", groups="data"),
)
def test_first_epoch(perf, how, backend):
    perf(backend, case=case(how))


@pytest.mark.parametrize("how", WORKERS, ids=str)
@pytest.mark.perf_backends(
    npy=by_format("npy"),
    npy_files=by_format("npy_files"),
    chuchichaestli=chuchichaestli("npy", "NumpyDataset"),
)
def test_first_epoch_of_workers(perf, how, backend):
    perf(backend, case=case(how))


@pytest.mark.parametrize("how", CACHED, ids=str)
@pytest.mark.perf_backends(cache=by_cache, memcpy=peer(memcpy))
def test_cached_epoch(perf, how, backend):
    perf(backend, case=case(how))
