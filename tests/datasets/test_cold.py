"""Cold files: what `mincore` says before and after, and what can't be cold."""

import mmap
import os
import tempfile

import pytest

from rightfast import datasets

SIZE = (1 << 20) + 100


def make(folder, name="a", size=SIZE):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(os.urandom(size))
    return path


def test_files_become_cold_and_warm(disk):
    path = make(disk)
    pages = -(-SIZE // mmap.PAGESIZE) * mmap.PAGESIZE
    assert datasets.resident_bytes(path) == pages
    assert datasets.make_cold(path) == SIZE
    assert datasets.resident_bytes(path) == 0
    with open(path, "rb") as file:
        file.read()
    assert datasets.resident_bytes([path]) == pages


def test_folders_empty_files_and_data_that_is_not_synchronised(disk):
    os.mkdir(os.path.join(disk, "below"))
    paths = [make(disk), make(disk, "below/b"), make(disk, "empty", 0)]
    assert datasets.make_cold(disk) == 2 * SIZE
    assert datasets.resident_bytes(paths) == 0


def test_pages_that_stay(disk):
    path = make(disk)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), SIZE) as view:
        assert sum(view[i] for i in range(0, SIZE, mmap.PAGESIZE)) >= 0  # mapped, so they stay
        with pytest.raises(datasets.NotCold, match="another process maps"):
            datasets.make_cold(path)


def test_memory_file_systems_are_refused():
    with (
        tempfile.NamedTemporaryFile(dir="/dev/shm") as file,
        pytest.raises(datasets.NotCold, match="on tmpfs, which is memory; put the files on a disk"),
    ):
        datasets.make_cold(file.name)


def test_a_path_that_is_not_there(disk):
    with pytest.raises(FileNotFoundError, match="nothing there"):
        datasets.make_cold(os.path.join(disk, "nowhere"))
