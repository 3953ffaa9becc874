"""WebDataset-style tar: one `.npy` member a sample, in one archive or a folder of shards.

Source of the layout: https://github.com/webdataset/webdataset. Archives are read in any order: the
places of the members are found once, when the dataset is made, by reading all their headers.
"""

import io
import os
import tarfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from rightfast.datasets import writing
from rightfast.datasets.dataset import SampleDataset
from rightfast.datasets.extents import Extents
from rightfast.datasets.formats import npy
from rightfast.datasets.listing import existing, files_of
from rightfast.datasets.raw import RawSource

WHAT = "an .npy member of a tar archive"
_BLOCK = 512


class TarDataset(SampleDataset):
    """Samples in `.npy` members of an uncompressed tar archive, or of a folder of archives.

    ``suffix`` chooses the members, where a sample has several (``".image.npy"``). Members are taken
    in the order of the archive, archives by name. Raises ValueError for archives that are
    compressed, cut off, or no archives, and for samples of unequal shape.
    """

    def __init__(self, path: str | os.PathLike[str], suffix: str = ".npy") -> None:
        found = existing(path, "a tar archive, or a folder of them,")
        paths = files_of(found, (".tar",), "tar") if found.is_dir() else [str(found)]
        self.suffix = suffix
        super().__init__(RawSource(_extents(paths, suffix)))


def write_tar(path: str | os.PathLike[str], samples: Any, shard: int | None = None) -> None:
    """Write samples as `.npy` members of one archive, or of a folder of archives.

    Args:
        path: archive, or folder, to make; must not exist.
        samples: a tensor whose first axis counts the samples, or a sequence of tensors.
        shard: samples of one archive; None for all in one.

    Raises:
        TypeError: a dtype that `.npy` has no place for (float8, complex32).
        ValueError: samples of unequal shape or dtype, none at all, a shard below 1.
        FileExistsError: ``path`` exists.
    """
    if shard is not None:
        writing.check_shard(shard)
    given = writing.Samples(samples)
    writing.needs_samples(given, path)
    head = npy.header(given.shape, given.dtype)
    with writing.appearing(path) as part:
        if shard is None:
            _archive(part, head, enumerate(given), len(given))
            return
        part.mkdir()
        numbered = enumerate(given)
        count = -(-len(given) // shard)
        for number, name in enumerate(writing.numbered(part, count, ".tar")):
            _archive(name, head, numbered, min(shard, len(given) - number * shard))


def _archive(
    path: os.PathLike[str], head: bytes, samples: Iterator[tuple[int, Any]], count: int
) -> None:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for _ in range(count):
            index, sample = next(samples)
            member = tarfile.TarInfo(f"{index:09}.npy")
            member.size = len(head) + len(sample)
            archive.addfile(member, io.BytesIO(head + sample.tobytes()))


class _Member(NamedTuple):
    start: int
    size: int


def _members(path: str, suffix: str) -> list[_Member]:
    """The places of the samples in an archive that is whole."""
    found, end = [], 0
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                end = member.offset_data + -(-member.size // _BLOCK) * _BLOCK
                if member.isreg() and not member.issparse() and member.name.endswith(suffix):
                    found.append(_Member(member.offset_data, member.size))
    except tarfile.TarError as error:
        raise ValueError(
            f"expected an uncompressed tar archive at {path}, got other data, or an archive that "
            f"is cut off ({error}); unpack .tar.gz to .tar, or write the archive anew"
        ) from None
    with open(path, "rb") as file:
        file.seek(end)
        if file.read(_BLOCK) != bytes(_BLOCK):
            raise ValueError(
                f"expected a block of zeros after the last member of {path}, got none: the archive "
                "is truncated, and samples may be missing; write it anew"
            )
    return found


def _extents(paths: list[str], suffix: str) -> Extents:
    members = [_members(path, suffix) for path in paths]
    counts = [len(found) for found in members]
    places = [member for found in members for member in found]
    files = np.repeat(np.arange(len(paths), dtype=np.int32), counts)
    if not places:
        raise ValueError(
            f"expected members that end in {suffix!r} in {paths[0]}, got none; name the ending "
            "with suffix="
        )
    starts = np.array([member.start for member in places], np.int64)
    first = npy.locate(paths[files[0]], places[0].start)
    with open(paths[files[0]], "rb") as file:
        file.seek(places[0].start)
        prefix = file.read(first.offset)
    for index, member in enumerate(places):
        if member.size != places[0].size:
            other = npy.locate(paths[files[index]], member.start)
            if other[:2] != first[:2]:
                raise ValueError(
                    f"expected samples of one shape and dtype, {first.shape} and {first.dtype} as "
                    f"the first one has, got {other.shape} and {other.dtype} for sample {index} of "
                    f"{paths[files[index]]}; pad or crop them when they are written"
                )
    return Extents(WHAT, paths, files, starts, first.shape, first.dtype, prefix, locate=npy.locate)
