"""Where the samples of a zarr array lie, if they are stored as plain bytes."""

import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rightfast.datasets import dtypes
from rightfast.datasets.extents import Extents

WHAT = "a chunk of a zarr array"
_EMPTY = 2**64 - 1  # offset of a chunk that a shard leaves out


def extents(path: Path, described: dict[str, Any], dtype: torch.dtype) -> Extents | None:
    """The samples as plain bytes, or None if only the library can read them."""
    grid = described.get("chunk_grid", {})
    shape = tuple(described["shape"])
    outer = tuple(grid.get("configuration", {}).get("chunk_shape", ()))
    if grid.get("name") != "regular" or outer[1:] != shape[1:] or sys.byteorder != "little":
        return None
    if described.get("storage_transformers"):
        return None
    key = _chunk_key(described.get("chunk_key_encoding", {}), len(shape))
    fill = _fill(described.get("fill_value"), shape[1:], dtype)
    if key is None or fill is None:
        return None
    count, rows = shape[0], outer[0]
    paths = [str(path / key.format(number)) for number in range(-(-count // rows))]
    files = (np.arange(count) // rows).astype(np.int32)
    inside = np.arange(count, dtype=np.int64) % rows
    codecs = described["codecs"]
    if _is_plain(codecs):
        starts = inside * len(fill)
        exact = rows == 1
    elif (index := _shard_index(codecs, outer)) is not None:
        starts = np.full(count, -1, np.int64)
        for number, shard in enumerate(paths):
            part = slice(number * rows, min(count, (number + 1) * rows))
            starts[part] = _shard_starts(shard, index, rows, len(fill))[: part.stop - part.start]
        exact = False
    else:
        return None
    return Extents(WHAT, paths, files, starts, shape[1:], dtype, exact=exact, fill=fill)


def _is_plain(codecs: list[dict[str, Any]]) -> bool:
    if len(codecs) != 1 or codecs[0].get("name") != "bytes":
        return False
    configured = codecs[0].get("configuration") or {}
    return bool(configured.get("endian", "little") == "little")


def _shard_index(codecs: list[dict[str, Any]], outer: tuple[int, ...]) -> str | None:
    """Where a shard has its index, if its chunks are plain samples."""
    if len(codecs) != 1 or codecs[0].get("name") != "sharding_indexed":
        return None
    found = codecs[0]["configuration"]
    summed = [codec.get("name") for codec in found["index_codecs"]] == ["bytes", "crc32c"]
    one_each = tuple(found["chunk_shape"]) == (1, *outer[1:])
    if not (summed and one_each and _is_plain(found["codecs"])):
        return None
    return str(found.get("index_location", "end"))


def _shard_starts(path: str, where: str, rows: int, nbytes: int) -> NDArray[np.int64]:
    """Offsets of a shard's samples; -1 for those that it leaves out, all if it is not there."""
    size = 16 * rows + 4  # of the index, with its checksum
    try:
        with open(path, "rb") as file:
            file.seek(0, 2)
            end = file.tell()
            file.seek(0 if where == "start" else max(0, end - size))
            raw = file.read(size)
    except FileNotFoundError:
        return np.full(rows, -1, np.int64)
    # The file's end is where the index is looked for, so one that is cut off has a wrong sum.
    if len(raw) != size or struct.unpack("<I", raw[-4:])[0] != _crc32c(raw[:-4]):
        raise ValueError(
            f"expected an index of {rows} chunks, with its checksum, in the shard {path}, got "
            f"other data in its {end} bytes: the file is truncated, or damaged; write it anew"
        )
    index = np.frombuffer(raw[:-4], "<u8").reshape(rows, 2)
    missing = index[:, 0] == _EMPTY
    lengths = index[~missing, 1]
    if (lengths != nbytes).any():
        raise ValueError(
            f"expected chunks of {nbytes} bytes in the shard {path}, got {lengths.max()}; write "
            "the array anew"
        )
    return np.where(missing, -1, index[:, 0].astype(np.int64))


def _crc32c(data: bytes) -> int:
    """The checksum of Castagnoli (RFC 3720), by table."""
    register = 0xFFFFFFFF
    for byte in data:
        register = _TABLE[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register ^ 0xFFFFFFFF


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def _chunk_key(encoding: dict[str, Any], axes: int) -> str | None:
    """The path of chunk (n, 0, 0, ...), with a place for n."""
    default = encoding.get("name") == "default"
    if not default and encoding.get("name") != "v2":
        return None
    configured = encoding.get("configuration") or {}
    separator = configured.get("separator", "/" if default else ".")
    parts = ["c"] if default else []
    return str(separator).join([*parts, "{}", *["0"] * (axes - 1)])


def _fill(value: Any, shape: tuple[int, ...], dtype: torch.dtype) -> bytes | None:
    """The bytes of a sample that no chunk is there for; None for fill values of rare kinds."""
    array = dtypes.stored(dtype, "zarr")
    try:
        if isinstance(value, str) and value.startswith("0x"):
            bits = int(value, 16).to_bytes(array.itemsize, "little")
            return bits * int(np.prod(shape, dtype=np.int64))
        if dtype in dtypes.CARRIED and value != 0:
            return None
        if isinstance(value, list):
            value = complex(*map(float, value))
        elif isinstance(value, str):
            value = float(value)
        return np.full(shape, value, array).tobytes()
    except (TypeError, ValueError, OverflowError):
        return None
