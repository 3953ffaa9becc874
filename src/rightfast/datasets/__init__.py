"""Map-style datasets over files, read by the batch, and a cache of samples in shared memory."""

from rightfast.datasets.cache import CacheInfo, SharedCache
from rightfast.datasets.cold import NotCold, make_cold, resident_bytes
from rightfast.datasets.dataset import SampleDataset
from rightfast.datasets.formats.hdf5 import HDF5Dataset, write_hdf5
from rightfast.datasets.formats.npy import NpyDataset, write_npy
from rightfast.datasets.formats.safetensors import SafetensorsDataset, write_safetensors
from rightfast.datasets.formats.tar import TarDataset, write_tar
from rightfast.datasets.formats.zarr import ZarrDataset, write_zarr
from rightfast.datasets.loader import Loader, collate

__all__ = [
    "CacheInfo",
    "HDF5Dataset",
    "Loader",
    "NotCold",
    "NpyDataset",
    "SafetensorsDataset",
    "SampleDataset",
    "SharedCache",
    "TarDataset",
    "ZarrDataset",
    "collate",
    "make_cold",
    "resident_bytes",
    "write_hdf5",
    "write_npy",
    "write_safetensors",
    "write_tar",
    "write_zarr",
]
