"""Files that are cut off, foreign or of other shapes, and arguments that make no sense."""

import io
import json
import os
import re
import shutil
import sys
import tarfile

import h5py
import numpy as np
import pytest
import torch
import zarr

from rightfast import datasets

from .common import COUNT, LAYOUTS, SHAPE, numbers, run_on_a_small_disk

FOLDERS = [name for name in LAYOUTS if name.endswith(("-files", "-shards")) or "zarr" in name]


def files_below(path):
    if path.is_file():
        return [path]
    found = [file for file in path.rglob("*") if file.is_file() and file.name != "zarr.json"]
    return sorted(found, key=lambda file: [int(n) for n in re.findall(r"\d+", file.name)])


def read_all(read, path):
    read(path).__getitems__(range(COUNT))


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("rest", [0, 1, 7, 0.5, -1, -100])
def test_truncated(name, rest, tmp_path):
    write, read, options = LAYOUTS[name]
    write(tmp_path / "a", numbers(), **options)
    last = files_below(tmp_path / "a")[-1]
    size = last.stat().st_size
    if "tar" in name:  # without the zeros that fill an archive up
        size = len(last.read_bytes().rstrip(b"\0"))
    keep = int(rest * size) if isinstance(rest, float) else rest % size
    if name == "zarr-zstd" and keep == 0:
        pytest.skip("the library takes an empty chunk for one that is left out")
    os.truncate(last, keep)
    # A compressed chunk is the library's to judge, and its errors are what they are.
    wanted = Exception if "zstd" in name or "gzip" in name else ValueError
    with pytest.raises(wanted) as caught:
        read_all(read, tmp_path / "a")
    if wanted is ValueError:
        assert str(last) in str(caught.value)
        assert "expected" in str(caught.value)
        assert "got" in str(caught.value)


@pytest.mark.parametrize("name", [n for n in LAYOUTS if "zarr" not in n])
@pytest.mark.parametrize("content", [b"", b"\0" * 5000, b"PK\3\4" + bytes(range(256)) * 40])
def test_foreign(name, content, tmp_path):
    write, read, options = LAYOUTS[name]
    write(tmp_path / "a", numbers(), **options)
    if "tar" in name and not any(content):
        pytest.skip("zeros are an archive without members")
    for file in (files_below(tmp_path / "a")[-1], files_below(tmp_path / "a")[0]):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="expected") as caught:
            read_all(read, tmp_path / "a")
        assert str(file) in str(caught.value)


@pytest.mark.parametrize("name", ["npy-files", "zarr-files"])
def test_longer_files_are_no_samples(name, tmp_path):
    write, read, options = LAYOUTS[name]
    write(tmp_path / "a", numbers(), **options)
    with open(files_below(tmp_path / "a")[4], "ab") as file:
        file.write(b"more")
    with pytest.raises(ValueError, match="longer"):
        read_all(read, tmp_path / "a")


@pytest.mark.parametrize("name", ["npy", "safetensors", "hdf5", "hdf5-gzip"])
@pytest.mark.parametrize(
    "other", [numbers(shape=(2, 5, 8), count=1)[0], numbers(torch.float64, count=1)[0]]
)
def test_unequal_files(name, other, tmp_path):
    write, read, options = LAYOUTS[name]
    write(tmp_path / "a", numbers(), layout="files", **options)
    write(tmp_path / "b", other[None], layout="files", **options)
    place = files_below(tmp_path / "a")[6]
    shutil.copy(files_below(tmp_path / "b")[0], place)
    assert read(tmp_path / "a").__getitems__([5, 7]).stacked.shape == (2, *SHAPE)
    with pytest.raises(ValueError, match="of one shape and dtype") as caught:
        read_all(read, tmp_path / "a")
    for said in (str(place), str(SHAPE), str(tuple(other.shape)), "sample 6"):
        assert said in str(caught.value)


@pytest.mark.parametrize("shape", [(2, 5, 8), (7, 10), (2, 5, 7)])
def test_unequal_members_of_a_tar(shape, tmp_path):
    """Another size shows when the archive is opened, another shape when the sample is read."""
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for i, size in enumerate([SHAPE, SHAPE, shape]):
            file = io.BytesIO()
            np.save(file, np.full(size, i, "f4" if i < 2 else "i4"))
            member = tarfile.TarInfo(f"{i}.npy")
            member.size = file.tell()
            file.seek(0)
            archive.addfile(member, file)
    with pytest.raises(ValueError, match="of one shape and dtype"):
        datasets.TarDataset(tmp_path / "a.tar").__getitems__(range(3))


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("broken", [torch.zeros(2, 5, 8), torch.zeros(SHAPE, dtype=torch.int32)])
def test_unequal_samples_are_not_written(name, broken, tmp_path):
    write, _, options = LAYOUTS[name]
    samples = [*numbers(), broken]
    with pytest.raises(ValueError, match=f"for sample {COUNT}"):
        write(tmp_path / "a", samples, **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", LAYOUTS)
def test_nothing_is_overwritten(name, tmp_path):
    write, _, options = LAYOUTS[name]
    (tmp_path / "a").write_text("mine")
    with pytest.raises(FileExistsError, match="remove it"):
        write(tmp_path / "a", numbers(), **options)
    assert (tmp_path / "a").read_text() == "mine"


@pytest.mark.parametrize("name", ["npy", "safetensors", "hdf5", "zarr"])
def test_no_samples_packed(name, tmp_path):
    write, read, _ = LAYOUTS[name]
    write(tmp_path / "a", numbers()[:0])
    dataset = read(tmp_path / "a")
    assert len(dataset) == 0
    assert dataset.sample_shape == SHAPE
    assert dataset.__getitems__([]).stacked.shape == (0, *SHAPE)
    for index in (0, -1):
        with pytest.raises(IndexError, match="below 0"):
            dataset[index]
    assert list(datasets.Loader(dataset, 4, shuffle=True)) == []


@pytest.mark.parametrize("name", ["npy-files", "safetensors-files", "hdf5-files", "tar"])
def test_no_samples_in_files(name, tmp_path):
    write, read, options = LAYOUTS[name]
    with pytest.raises(ValueError, match="at least one sample"):
        write(tmp_path / "a", numbers()[:0], **options)
    (tmp_path / "b").mkdir()
    with pytest.raises(ValueError, match="folder without any"):
        read(tmp_path / "b")


def test_nothing_to_take_a_shape_from(tmp_path):
    with pytest.raises(ValueError, match="at least one sample"):
        datasets.write_npy(tmp_path / "a", [])


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_path_that_is_not_there(name, tmp_path):
    with pytest.raises(FileNotFoundError, match="check the path"):
        LAYOUTS[name][1](tmp_path / "nowhere")
    with pytest.raises(TypeError, match="expected the path"):
        LAYOUTS[name][1](7)


@pytest.mark.parametrize("name", [n for n in FOLDERS if "zarr" not in n])
def test_a_file_that_has_gone(name, tmp_path):
    write, read, options = LAYOUTS[name]
    write(tmp_path / "a", numbers(), **options)
    dataset = read(tmp_path / "a")
    files_below(tmp_path / "a")[-1].unlink()
    with pytest.raises(FileNotFoundError):
        dataset.__getitems__(range(COUNT))


@pytest.mark.parametrize("samples", [7, {1: 2}.keys(), ["text"], [torch.eye(3).to_sparse()]])
def test_what_is_no_sample(samples, tmp_path):
    with pytest.raises(TypeError, match="expected sample"):
        datasets.write_npy(tmp_path / "a", samples)


def test_arguments_of_writers(tmp_path):
    with pytest.raises(ValueError, match="'packed' or 'files'"):
        datasets.write_npy(tmp_path / "a", numbers(), layout="folder")
    with pytest.raises(ValueError, match="at least 1 sample"):
        datasets.write_tar(tmp_path / "a", numbers(), shard=0)
    with pytest.raises(ValueError, match="at least 1 sample"):
        datasets.write_zarr(tmp_path / "a", numbers(), shard=0)
    for shard in (1.5, "3"):
        for write in (datasets.write_tar, datasets.write_zarr):
            with pytest.raises(TypeError, match="shard= as an integer"):
                write(tmp_path / "a", numbers(), shard=shard)
    for key in (3, "__metadata__"):
        with pytest.raises(ValueError, match="a name other than __metadata__"):
            datasets.write_safetensors(tmp_path / "a", numbers(), key=key)
    with pytest.raises(ValueError, match="without axes"):
        datasets.write_npy(tmp_path / "a", torch.tensor(1.0))
    with pytest.raises(FileNotFoundError, match="make it first"):
        datasets.write_npy(tmp_path / "no" / "such" / "a", numbers())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_breaks_off_leaves_nothing(name, tmp_path):
    """An error of the samples, Ctrl-C included, in the middle."""
    write, _, options = LAYOUTS[name]

    class Breaking(list):
        def __getitem__(self, index):
            if index == 15:
                raise KeyboardInterrupt
            return super().__getitem__(index)

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "a", Breaking(numbers()), **options)
    assert not list(tmp_path.iterdir())


FULL = """
import os, sys, torch
from rightfast import datasets as d
samples = torch.ones(64, 1 << 16)  # 16 MiB
for write in (d.write_npy, d.write_safetensors, d.write_hdf5, d.write_zarr, d.write_tar):
    for options in ({}, {"shard": 4} if write is d.write_tar else {"layout": "files"}):
        try:
            write(sys.argv[1] + "/a", samples, **options)
        except OSError as error:
            print(error.errno, os.listdir(sys.argv[1]))
"""


def test_a_disk_that_is_full_is_left_as_it_was(tmp_path):
    assert run_on_a_small_disk(FULL, tmp_path).splitlines() == ["28 []"] * 10


def test_a_missing_key(tmp_path):
    samples = numbers()
    datasets.write_hdf5(tmp_path / "a.h5", samples, key="images/x")
    with pytest.raises(ValueError, match=r"got images/x; name"):
        datasets.HDF5Dataset(tmp_path / "a.h5", key="image")
    with pytest.raises(ValueError, match=r"got images/x; name"):
        datasets.HDF5Dataset(tmp_path / "a.h5", key="images")
    import safetensors.torch

    safetensors.torch.save_file({"a": samples, "b": samples + 1}, tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match="got a, b; name"):
        datasets.SafetensorsDataset(tmp_path / "a.safetensors")
    datasets.write_tar(tmp_path / "a.tar", samples)
    with pytest.raises(ValueError, match="suffix="):
        datasets.TarDataset(tmp_path / "a.tar", suffix=".png")


@pytest.mark.parametrize(
    ("array", "error", "match"),
    [
        (np.array(["a", "b"]), TypeError, "elements that torch has"),
        (np.zeros((3, 2), ">f4"), TypeError, "other byte order"),
        (np.zeros((3, 2), "M8[s]"), TypeError, "elements that torch has"),
        (np.asfortranarray(np.zeros((3, 2, 2))), ValueError, "Fortran order"),
        (np.float32(1), ValueError, "without axes"),
    ],
)
def test_npy_that_torch_can_not_have(array, error, match, tmp_path):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(error, match=match):
        datasets.NpyDataset(tmp_path / "a.npy")


def test_npy_objects_are_not_unpickled(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}, []], object), allow_pickle=True)
    with pytest.raises(TypeError, match="elements that torch has"):
        datasets.NpyDataset(tmp_path / "a.npy")


def test_hdf5_dtypes_that_torch_lacks(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data"] = ["text", "more"]
    with pytest.raises(TypeError, match="elements that torch has"):
        datasets.HDF5Dataset(tmp_path / "a.h5")


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [4, 2], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [4, 2], "data_offsets": [-8, 24]},
        {"dtype": "F32", "shape": [4, 2]},
        {"dtype": "F32", "shape": "ab", "data_offsets": [0, 32]},
        [1, 2],
    ],
)
def test_safetensors_headers_that_lie(entry, tmp_path):
    text = json.dumps({"data": entry}).encode()
    (tmp_path / "a").write_bytes(len(text).to_bytes(8, "little") + text + bytes(32))
    with pytest.raises(ValueError, match="write the file anew"):
        datasets.SafetensorsDataset(tmp_path / "a")


def test_compressed_tar(tmp_path):
    datasets.write_tar(tmp_path / "a.tar", numbers())
    with tarfile.open(tmp_path / "b.tar", "w:gz") as archive:
        archive.add(tmp_path / "a.tar", "a.npy")
    with pytest.raises(ValueError, match=r"\.tar\.gz"):
        datasets.TarDataset(tmp_path / "b.tar")


def test_zarr_groups_and_old_versions(tmp_path):
    zarr.create_group(str(tmp_path / "group"))
    zarr.create_array(str(tmp_path / "old"), shape=(3, 2), dtype="f4", zarr_format=2)
    (tmp_path / "empty").mkdir()
    for name in ("group", "old", "empty"):
        with pytest.raises(ValueError, match="zarr array of version 3"):
            datasets.ZarrDataset(tmp_path / name)


@pytest.mark.parametrize("library", ["h5py", "zarr"])
def test_a_missing_library(library, tmp_path, monkeypatch):
    write, read, options = LAYOUTS["hdf5" if library == "h5py" else "zarr-zstd"]
    write(tmp_path / "a", numbers(), **options)
    monkeypatch.setitem(sys.modules, library, None)
    for call in (lambda: write(tmp_path / "b", numbers()), lambda: read(tmp_path / "a")):
        with pytest.raises(ImportError, match=r"pip install 'rightfast\[datasets\]'"):
            call()
    assert not (tmp_path / "b").exists()


def test_plain_zarr_needs_no_library(tmp_path, monkeypatch):
    datasets.write_zarr(tmp_path / "a", numbers())
    monkeypatch.setitem(sys.modules, "zarr", None)
    assert torch.equal(datasets.ZarrDataset(tmp_path / "a")[3], numbers()[3])
