"""Saving and loading: the same circuit, whole files only, versions."""

import json

import pytest
import torch

from rightfast import circuits
from rightfast.circuits import Gaussian, description, storage
from rightfast.circuits.structures import hclt

from .common import STRUCTURES, build

safetensors = pytest.importorskip("safetensors")


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_round_trip(name, dtype, tmp_path):
    circuit, x = build(name, dtype=dtype, zeros=True)
    path = tmp_path / "circuit.safetensors"
    circuits.save(circuit, path)
    again = circuits.load(path)
    assert again.dtype == dtype
    assert torch.equal(again.parameters_flat, circuit.parameters_flat)
    assert torch.equal(again(x), circuit(x))
    for one in (circuit, again):
        circuits.mini_batch_em(one, x, step_size=0.5)
    assert torch.equal(again.parameters_flat, circuit.parameters_flat)  # ties are ties still
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_options_of_leaves_are_kept(tmp_path):
    circuit = circuits.compile(hclt(parents=[-1, 0], num_latents=2, dist=Gaussian(min_std=0.5)))
    circuits.save(circuit, tmp_path / "c")
    assert circuits.load(tmp_path / "c").plan.inputs[0].dist == Gaussian(min_std=0.5)


def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch):
    circuit, _ = build("hmm")
    path = tmp_path / "c"
    circuits.save(circuit, path)
    before = path.read_bytes()

    def stop(handle):
        raise KeyboardInterrupt

    monkeypatch.setattr(storage.os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        circuits.save(build("pd")[0], path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_foreign_and_damaged_files_are_refused(tmp_path):
    from safetensors.torch import save_file

    path = tmp_path / "c"
    save_file({"parameters": torch.zeros(3)}, path)
    with pytest.raises(ValueError, match="holds no circuit"):
        circuits.load(path)
    save_file({"parameters": torch.zeros(3)}, path, {"format": storage.FORMAT, "version": "99"})
    with pytest.raises(ValueError, match="version 99"):
        circuits.load(path)
    path.write_bytes(b"not at all")
    with pytest.raises(ValueError, match="damaged"):
        circuits.load(path)
    circuit, _ = build("hmm")
    nodes, tensors = description.describe(circuit.plan.order)
    header = {"format": storage.FORMAT, "version": "1", "nodes": json.dumps(nodes)}
    save_file(tensors | {"parameters": torch.zeros(3)}, path, header)
    with pytest.raises(ValueError, match="3 parameters"):
        circuits.load(path)
    with pytest.raises(FileNotFoundError):
        circuits.load(tmp_path / "nothing")
