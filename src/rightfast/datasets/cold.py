"""Files out of the page cache, so that reading them reads the device.

The cache of the device itself, and of a host below a virtual machine, is out of reach; so are the
names and sizes of files (dentries, inodes), which stay known.
"""

import ctypes
import mmap
import os
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

# f_type of statfs(2): file systems whose files are memory, so that they can't be cold.
_MEMORY = {0x01021994: "tmpfs", 0x858458F6: "ramfs", 0x958458F6: "hugetlbfs"}
_TRIES = 20


class NotCold(OSError):
    """Pages of a file stay in memory, or all of it is there by its nature."""


def make_cold(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> int:
    """Write files to their device and drop them from the page cache; returns their bytes.

    Each file is synchronised, then dropped (``posix_fadvise(DONTNEED)``), then ``mincore`` has to
    find no page of it in memory.

    Args:
        paths: files, and folders with all files below them.

    Raises:
        FileNotFoundError: a path is not there.
        NotCold: pages that stay (another process maps or writes them), or a file on tmpfs.
    """
    files = _files(paths)
    for path in files:
        _refuse_memory(path)
    for path in files:
        _drop(path)
    return sum(os.path.getsize(path) for path in files)


def resident_bytes(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> int:
    """How much of files is in the page cache, in whole pages, as ``mincore`` finds it."""
    return sum(_resident(path) for path in _files(paths))


def _files(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files: list[str] = []
    for path in map(Path, given):
        if not path.exists():
            raise FileNotFoundError(f"expected a file or folder at {path}, got nothing there")
        if path.is_dir():
            files += sorted(str(below) for below in path.rglob("*") if below.is_file())
        else:
            files.append(str(path))
    return files


def _refuse_memory(path: str) -> None:
    found = ctypes.create_string_buffer(512)
    if _libc().statfs(os.fsencode(path), found):
        raise OSError(ctypes.get_errno(), f"statfs of {path} failed")
    kind = ctypes.c_long.from_buffer(found).value
    if kind in _MEMORY:
        raise NotCold(
            f"expected a file on a device, to read it from there, got {path} on {_MEMORY[kind]}, "
            "which is memory; put the files on a disk"
        )


def _drop(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
        for attempt in range(_TRIES):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            left = _resident(path)
            if not left:
                return
            time.sleep(0.001 * 2 ** min(attempt, 6))  # pages that a read still has in hand
    finally:
        os.close(fd)
    raise NotCold(
        f"expected no page of {path} in memory after it was dropped, got {left} bytes; another "
        "process maps, writes or reads it: end that first"
    )


def _resident(path: str) -> int:
    size = os.path.getsize(path)
    if not size:
        return 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as view:
        held = np.frombuffer(view, np.uint8)
        pages = np.empty(-(-size // mmap.PAGESIZE), np.uint8)
        failed = _libc().mincore(
            ctypes.c_void_p(held.ctypes.data),
            ctypes.c_size_t(size),
            ctypes.c_void_p(pages.ctypes.data),
        )
        number = ctypes.get_errno()
        del held  # the mapping can't be closed while an array refers to it
    if failed:
        raise OSError(number, f"mincore of {path} failed: {os.strerror(number)}")
    return int((pages & 1).sum()) * mmap.PAGESIZE


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
