"""zarr, version 3: chunks and shards that hold plain bytes are read past the library.

Source of the format: https://zarr-specs.readthedocs.io/en/latest/v3/core/, and for shards
https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/. An array is read as plain
bytes if a chunk is whole samples and nothing but the ``bytes`` codec, little endian, is applied to
it; else (compressed, say) through the library, sample by sample.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rightfast.datasets import dtypes, writing
from rightfast.datasets.dataset import SampleDataset, Source
from rightfast.datasets.formats import zarr_plain
from rightfast.datasets.listing import existing
from rightfast.datasets.optional import library
from rightfast.datasets.raw import RawSource
from rightfast.datasets.through_library import LibrarySource


class ZarrDataset(SampleDataset):
    """Samples in a zarr array (version 3) in a folder; its first axis counts them.

    Raises ValueError for folders that hold no such array and for chunks that are cut off (when
    they are read), TypeError for dtypes that torch lacks, ImportError for an array that needs the
    library where zarr is not installed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        found = existing(path, "a zarr array")
        super().__init__(_source(found))

    @property
    def raw(self) -> bool:
        """Whether the samples are read as plain bytes, past the library."""
        return isinstance(self._source, RawSource)


def write_zarr(
    path: str | os.PathLike[str],
    samples: Any,
    layout: writing.Layout = "packed",
    shard: int = 128,
    compressors: Any = None,
) -> None:
    """Write samples as chunks of one array, each in a file (``"files"``) or in shards.

    Args:
        path: folder to make; must not exist.
        samples: a tensor whose first axis counts the samples, or a sequence of tensors.
        layout: ``"packed"`` for shards, ``"files"`` for a file each.
        shard: samples of one shard, all of which are held in memory while it is written.
        compressors: of zarr, such as ``zarr.codecs.ZstdCodec()``. Slower to read, see the docs.

    Raises:
        TypeError: a dtype that zarr can't hold.
        ValueError: samples of unequal shape or dtype, none at all, a shard below 1.
        FileExistsError: ``path`` exists. ImportError: zarr is not installed.
    """
    zarr = library("zarr", "writing zarr arrays")
    writing.check_layout(layout)
    writing.check_shard(shard)
    given = writing.Samples(samples)
    array = dtypes.stored(given.dtype, "zarr")
    rows = min(shard, max(1, len(given))) if layout == "packed" else 1
    named = {dtypes.ATTRIBUTE: dtypes.name_of(given.dtype)}
    with writing.appearing(path) as part:
        made = zarr.create_array(
            store=str(part),
            shape=(len(given), *given.shape),
            chunks=(1, *given.shape),
            shards=(rows, *given.shape) if layout == "packed" else None,
            dtype=array,
            compressors=compressors,
            fill_value=0,
            zarr_format=3,
            attributes=named if given.dtype in dtypes.CARRIED else None,
        )
        _fill(made, given, rows)


def _fill(made: Any, given: writing.Samples, rows: int) -> None:
    """Shard by shard, as a shard is written whole."""
    held = np.empty((rows, *given.shape), made.dtype)
    for index, sample in enumerate(given):
        held[index % rows] = sample.view(made.dtype).reshape(given.shape)
        if (index + 1) % rows == 0 or index + 1 == len(given):
            begin = index - index % rows
            made[begin : index + 1] = held[: index + 1 - begin]


def _source(path: Path) -> Source:
    described = _metadata(path)
    shape = tuple(described["shape"])
    if not shape:
        raise ValueError(
            f"expected an array whose first axis counts the samples in {path}, got one without axes"
        )
    name = described.get("attributes", {}).get(dtypes.ATTRIBUTE) or described["data_type"]
    if not isinstance(name, str):
        raise TypeError(f"expected a dtype that torch has in {path}, got {name!r}")
    dtype = dtypes.from_name(name, str(path))
    extents = zarr_plain.extents(path, described, dtype)
    if extents is not None:
        return RawSource(extents)
    library("zarr", f"{path}, whose samples are not stored as plain bytes")
    return LibrarySource([str(path)], shape[0], shape[1:], dtype, _open)


def _open(path: str) -> tuple[Any, Callable[[], None]]:
    zarr = library("zarr", f"{path}, whose samples are not stored as plain bytes")
    return zarr.open_array(path, mode="r"), lambda: None


def _metadata(path: Path) -> dict[str, Any]:
    try:
        described = json.loads((path / "zarr.json").read_bytes())
        if described["zarr_format"] != 3 or described["node_type"] != "array":
            raise ValueError(f"a {described['node_type']}")
        if missing := {"shape", "data_type", "codecs"} - set(described):
            raise ValueError(f"no {', '.join(sorted(missing))}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"expected a zarr array of version 3 in {path}, with its zarr.json, got none "
            f"({error}); check the path: of a group, give the folder of the array; version 2 has "
            "to be written anew"
        ) from None
    return dict(described)
