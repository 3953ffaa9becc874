"""Batches of `rightfast.datasets`: out of a full cache, and out of files that the system holds.

Each case fetches one batch of the samples that a permutation names, and every value of it is
compared with what was written; ``copy`` is the same by `torch.index_select`, into memory that the C
library gives. Epochs, and cold files, take longer than a case may: `perf/check_datasets.py`.
"""

import functools
import math
import os
import tempfile
from pathlib import Path

import pytest
import torch

from pytest_rightfast import PerfCase, peer
from rightfast import datasets

# (samples, shape of one, samples of a batch): 4 KiB and 256 KiB each, and, if asked for, 4 MiB.
SIZES = [(4096, (1, 32, 32), 32), (256, (1, 256, 256), 8)]
if os.environ.get("RIGHTFAST_LARGE"):
    SIZES.append((16, (1, 1024, 1024), 4))
FORMATS = {
    "npy": (datasets.write_npy, datasets.NpyDataset),
    "safetensors": (datasets.write_safetensors, datasets.SafetensorsDataset),
    "hdf5": (datasets.write_hdf5, datasets.HDF5Dataset),
    "zarr": (datasets.write_zarr, datasets.ZarrDataset),
    "tar": (datasets.write_tar, datasets.TarDataset),
}


@functools.cache
def samples(count, shape):
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(count))


@functools.cache
def folder():
    return tempfile.TemporaryDirectory(prefix="rightfast-datasets-")


@functools.cache
def dataset(name, count, shape):
    """A format's dataset, or a full cache over one."""
    if name == "cache":
        cache = datasets.SharedCache(dataset("npy", count, shape), fraction=1.0)
        cache.warm()
        return cache
    write, read = FORMATS[name.removesuffix("-files")]
    path = Path(folder().name) / f"{name}-{count}-{math.prod(shape)}"
    write(path, samples(count, shape), **({"layout": "files"} if "-files" in name else {}))
    return read(path)


def by_dataset(name):
    def fetch(order, count, shape):
        return dataset(name, count, shape).__getitems__(order).stacked

    return fetch


def by_sample(order, count, shape):
    """What DataLoader does with a cache that gives single samples."""
    cache = dataset("cache", count, shape)
    return torch.stack([cache[index] for index in order])


def copy(order, count, shape):
    return torch.index_select(samples(count, shape), 0, torch.tensor(order))


def right(batch, order, count, shape):
    """Every value is the one that was written, bit for bit."""
    return torch.equal(batch, samples(count, shape)[order])


@pytest.fixture(params=SIZES, ids=lambda size: f"{4 * math.prod(size[1]) >> 10}KiB-{size[2]}")
def case(request):
    count, shape, batch = request.param

    def inputs(generator):
        return torch.randperm(count, generator=generator)[:batch].tolist(), count, shape

    moved = 2 * 4 * batch * math.prod(shape)
    return PerfCase(inputs=inputs, check=right, moved_bytes=moved)


@pytest.mark.perf_backends(cache=by_dataset("cache"), by_sample=by_sample, copy=peer(copy))
def test_cached_batch(perf, case, backend):
    perf(backend, case=case)


@pytest.mark.perf_backends(
    npy=by_dataset("npy"),
    npy_files=by_dataset("npy-files"),
    safetensors=by_dataset("safetensors"),
    hdf5=by_dataset("hdf5"),
    zarr=by_dataset("zarr"),
    tar=by_dataset("tar"),
    copy=peer(copy),
)
def test_warm_files(perf, case, backend):
    perf(backend, case=case)
