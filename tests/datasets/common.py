"""What the tests of the datasets share: samples whose every element says where it belongs."""

import contextlib
import os
import subprocess
import sys

import pytest
import torch

from rightfast import datasets

COUNT, SHAPE = 23, (2, 5, 7)

# name: (writer, dataset, keywords of the writer)
LAYOUTS = {
    "npy": (datasets.write_npy, datasets.NpyDataset, {}),
    "npy-files": (datasets.write_npy, datasets.NpyDataset, {"layout": "files"}),
    "safetensors": (datasets.write_safetensors, datasets.SafetensorsDataset, {}),
    "safetensors-files": (
        datasets.write_safetensors,
        datasets.SafetensorsDataset,
        {"layout": "files"},
    ),
    "hdf5": (datasets.write_hdf5, datasets.HDF5Dataset, {}),
    "hdf5-files": (datasets.write_hdf5, datasets.HDF5Dataset, {"layout": "files"}),
    "hdf5-gzip": (datasets.write_hdf5, datasets.HDF5Dataset, {"compression": "gzip"}),
    "hdf5-gzip-files": (
        datasets.write_hdf5,
        datasets.HDF5Dataset,
        {"compression": "gzip", "layout": "files"},
    ),
    "zarr": (datasets.write_zarr, datasets.ZarrDataset, {"shard": 7}),
    "zarr-files": (datasets.write_zarr, datasets.ZarrDataset, {"layout": "files"}),
    "zarr-zstd": (datasets.write_zarr, datasets.ZarrDataset, {"compressors": "auto"}),
    "tar": (datasets.write_tar, datasets.TarDataset, {}),
    "tar-shards": (datasets.write_tar, datasets.TarDataset, {"shard": 7}),
}


def numbers(dtype=torch.float32, count=COUNT, shape=SHAPE):
    """Samples of random bits that are numbers in ``dtype``."""
    generator = torch.Generator().manual_seed(count)
    if dtype is torch.bool:
        return torch.rand((count, *shape), generator=generator) > 0.5
    if dtype.is_complex:
        return torch.randn((count, *shape), generator=generator, dtype=torch.complex64).to(dtype)
    if dtype.is_floating_point:
        return torch.randn((count, *shape), generator=generator).to(dtype)
    drawn = torch.randint(0, 256, (count, *shape, dtype.itemsize), generator=generator)
    return drawn.to(torch.uint8).view(dtype)[..., 0]


def same(a, b):
    """Bit for bit, in the same dtype and shape."""
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(bits(a), bits(b))


def bits(x):
    return x.contiguous().reshape(-1).view(torch.uint8)


def names_in_shm():
    return set(os.listdir("/dev/shm"))


def inodes_of(process):
    """Of the files that a process has open or mapped."""
    found = set()
    for fd in os.listdir(f"/proc/{process}/fd"):
        with contextlib.suppress(OSError):
            found.add(os.stat(f"/proc/{process}/fd/{fd}").st_ino)
    with open(f"/proc/{process}/maps") as lines:
        return found | {int(line.split()[4]) for line in lines}


def run_on_a_small_disk(script, folder):
    """What a script prints; its argument is a tmpfs of 8 MiB, in a namespace of its own."""
    mount = f"mount -t tmpfs -o size=8m none {folder}"
    shell = f'{mount} && exec {sys.executable} -c "$0" {folder}'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", shell, script]
    try:
        probe = subprocess.run([*command[:4], "true"], capture_output=True, timeout=30)
    except FileNotFoundError:
        pytest.skip("no unshare")
    if probe.returncode:
        pytest.skip(f"no namespaces here: {probe.stderr.decode()}")
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=paths)
    assert done.returncode == 0, done.stderr
    return done.stdout
