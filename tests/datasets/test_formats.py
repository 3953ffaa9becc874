"""Every format and layout gives back what was written, and what other programs write."""

import tarfile

import h5py
import numpy as np
import pytest
import safetensors.torch
import torch
import zarr

from rightfast import datasets

from .common import COUNT, LAYOUTS, SHAPE, numbers, same

EVERYWHERE = [
    torch.bool,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
]
SOME = {
    torch.complex128: ("npy", "tar", "hdf5", "zarr"),
    torch.float8_e4m3fn: ("safetensors", "hdf5", "zarr"),
    torch.float8_e5m2: ("safetensors", "hdf5", "zarr"),
    torch.complex32: ("hdf5", "zarr"),
}


def holds(name, dtype):
    return dtype in EVERYWHERE or name.split("-")[0] in SOME[dtype]


@pytest.mark.parametrize("dtype", [*EVERYWHERE, *SOME], ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("name", LAYOUTS)
def test_round_trip(name, dtype, tmp_path):
    write, read, options = LAYOUTS[name]
    samples = numbers(dtype)
    if not holds(name, dtype):
        with pytest.raises(TypeError, match="expected a dtype that"):
            write(tmp_path / "samples", samples, **options)
        assert not list(tmp_path.iterdir())
        return
    write(tmp_path / "samples", samples, **options)
    dataset = read(tmp_path / "samples")
    assert (len(dataset), dataset.sample_shape, dataset.dtype) == (COUNT, SHAPE, dtype)
    order = torch.randperm(COUNT).tolist()
    assert same(dataset.__getitems__(order).stacked, samples[order])
    assert all(same(dataset[i], samples[i]) for i in (0, 7, COUNT - 1))
    assert not [path for path in tmp_path.iterdir() if path.name != "samples"]


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (1000,)])
@pytest.mark.parametrize("name", [n for n in LAYOUTS if "gzip" not in n and "zstd" not in n])
def test_shapes(name, shape, tmp_path):
    write, read, options = LAYOUTS[name]
    if name.startswith("zarr") and 0 in shape:
        pytest.skip("zarr has no chunks without elements")
    samples = numbers(shape=shape)
    write(tmp_path / "samples", samples, **options)
    dataset = read(tmp_path / "samples")
    assert dataset.sample_shape == shape
    assert same(dataset.__getitems__([5, 0, 22]).stacked, samples[[5, 0, 22]])
    assert same(dataset[4], samples[4])


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_dataset_is_written_as_samples(name, tmp_path):
    write, read, options = LAYOUTS[name]
    samples = numbers()
    datasets.write_npy(tmp_path / "first.npy", [samples[i].mT for i in range(COUNT)])
    write(tmp_path / "second", datasets.NpyDataset(tmp_path / "first.npy"), **options)
    assert same(read(tmp_path / "second").__getitems__(range(COUNT)).stacked, samples.mT)


def test_numpy_reads_and_writes_npy(tmp_path):
    samples = numbers(torch.int16)
    datasets.write_npy(tmp_path / "ours.npy", samples)
    assert (np.load(tmp_path / "ours.npy") == samples.numpy()).all()
    np.save(tmp_path / "theirs.npy", samples.numpy())
    assert (tmp_path / "theirs.npy").read_bytes() == (tmp_path / "ours.npy").read_bytes()
    with open(tmp_path / "two.npy", "wb") as file:
        np.lib.format.write_array(file, samples.numpy(), version=(2, 0))
    assert same(datasets.NpyDataset(tmp_path / "two.npy")[3], samples[3])


def test_headers_of_different_writers_in_one_folder(tmp_path):
    samples = numbers()
    for i in range(4):
        with open(tmp_path / f"{i}.npy", "wb") as file:
            version = (1, 0) if i % 2 else (2, 0)
            np.lib.format.write_array(file, samples[i].numpy(), version=version)
    dataset = datasets.NpyDataset(tmp_path)
    assert same(dataset.__getitems__([3, 2, 1, 0]).stacked, samples[[3, 2, 1, 0]])


def test_the_safetensors_library_reads_and_writes(tmp_path):
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        samples = numbers(dtype)
        ours, theirs = tmp_path / f"ours-{dtype}", tmp_path / f"theirs-{dtype}"
        datasets.write_safetensors(ours, samples, key="x")
        assert same(safetensors.torch.load_file(ours)["x"], samples)
        safetensors.torch.save_file({"a": samples[:3] * 1, "b": samples}, theirs)
        assert same(datasets.SafetensorsDataset(theirs, key="b")[20], samples[20])
        only = datasets.SafetensorsDataset(ours)  # one tensor needs no name
        assert len(only) == COUNT


def test_h5py_reads_what_is_written(tmp_path):
    samples = numbers(torch.complex64)
    datasets.write_hdf5(tmp_path / "ours.h5", samples, key="deep/er")
    with h5py.File(tmp_path / "ours.h5") as file:
        assert (file["deep/er"][:] == samples.numpy()).all()
    assert same(datasets.HDF5Dataset(tmp_path / "ours.h5", key="deep/er")[1], samples[1])


@pytest.mark.parametrize(
    ("options", "raw"),
    [
        ({}, True),
        ({"chunks": (1, *SHAPE)}, True),
        ({"chunks": (4, *SHAPE)}, True),
        ({"chunks": (4, 1, 5, 7)}, False),
        ({"chunks": (1, *SHAPE), "compression": "lzf"}, False),
        ({"chunks": (1, *SHAPE), "fletcher32": True}, False),
        ({"dtype": ">f4"}, False),
        ({"chunks": (4, *SHAPE), "maxshape": (None, *SHAPE)}, True),
    ],
)
def test_hdf5_of_other_writers(options, raw, tmp_path):
    samples = numbers()
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("data", data=samples.numpy(), **options)
    dataset = datasets.HDF5Dataset(tmp_path / "a.h5")
    assert dataset.raw is raw
    order = torch.randperm(COUNT).tolist()
    assert same(dataset.__getitems__(order).stacked, samples[order])


def test_hdf5_chunks_that_were_never_written_are_filled(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("data", (6, 3), "f4", chunks=(2, 3), fillvalue=2.5)
        made[2:4] = 7
    dataset = datasets.HDF5Dataset(tmp_path / "a.h5")
    assert dataset.raw
    wanted = torch.tensor([2.5, 2.5, 7, 7, 2.5, 2.5])[:, None].expand(6, 3)
    assert same(dataset.__getitems__(range(6)).stacked, wanted)


@pytest.mark.parametrize(
    ("options", "raw"),
    [
        ({"chunks": (1, *SHAPE), "compressors": None}, True),
        ({"chunks": (5, *SHAPE), "compressors": None}, True),
        ({"chunks": (1, *SHAPE), "shards": (6, *SHAPE), "compressors": None}, True),
        ({"chunks": (2, *SHAPE), "shards": (6, *SHAPE), "compressors": None}, False),
        ({"chunks": (1, *SHAPE), "shards": (6, *SHAPE)}, False),
        ({"chunks": (4, 1, 5, 7), "compressors": None}, False),
        ({"chunks": (4, *SHAPE)}, False),
        ({"chunks": (1, *SHAPE), "compressors": None, "separator": "."}, True),
    ],
)
def test_zarr_of_other_writers(options, raw, tmp_path):
    samples = numbers()
    options = dict(options)
    if separator := options.pop("separator", None):
        options["chunk_key_encoding"] = {"name": "default", "separator": separator}
    made = zarr.create_array(
        str(tmp_path / "a"), shape=samples.shape, dtype="float32", zarr_format=3, **options
    )
    made[:] = samples.numpy()
    dataset = datasets.ZarrDataset(tmp_path / "a")
    assert dataset.raw is raw
    order = torch.randperm(COUNT).tolist()
    assert same(dataset.__getitems__(order).stacked, samples[order])


@pytest.mark.parametrize("shards", [None, (4, 3)])
@pytest.mark.parametrize("fill", [0, 2.5, float("nan"), float("-inf")])
def test_zarr_chunks_that_are_left_out_are_filled(fill, shards, tmp_path):
    made = zarr.create_array(
        str(tmp_path / "a"),
        shape=(10, 3),
        chunks=(1, 3),
        shards=shards,
        dtype="float32",
        compressors=None,
        fill_value=fill,
    )
    made[5] = 7
    dataset = datasets.ZarrDataset(tmp_path / "a")
    assert dataset.raw
    wanted = torch.full((10, 3), fill)
    wanted[5] = 7
    got = dataset.__getitems__(range(10)).stacked
    assert torch.equal(got.nan_to_num(99), wanted.nan_to_num(99))


def test_zarr_library_reads_what_is_written(tmp_path):
    samples = numbers(torch.int32)
    for layout in ("packed", "files"):
        datasets.write_zarr(tmp_path / layout, samples, layout=layout)
        assert (zarr.open_array(str(tmp_path / layout))[:] == samples.numpy()).all()


def test_members_of_a_tar_are_chosen_by_their_ending(tmp_path):
    images, masks = numbers(), numbers(torch.bool, shape=(4,))
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        for i in range(COUNT):
            for end, array in ((".image.npy", images[i]), (".mask.npy", masks[i])):
                np.save(tmp_path / "one.npy", array.numpy())
                archive.add(tmp_path / "one.npy", f"{i}" * 70 + end)  # longer than a header has
            archive.add(__file__, f"{i}.txt")
    assert same(datasets.TarDataset(tmp_path / "a.tar", suffix=".image.npy")[9], images[9])
    assert same(datasets.TarDataset(tmp_path / "a.tar", suffix=".mask.npy")[9], masks[9])


def test_shards_of_a_tar_hold_the_samples_in_order(tmp_path):
    datasets.write_tar(tmp_path / "a", numbers(), shard=10)
    sizes = []
    for path in sorted((tmp_path / "a").iterdir()):
        with tarfile.open(path) as archive:
            sizes.append(len(archive.getnames()))
    assert sizes == [10, 10, 3]
