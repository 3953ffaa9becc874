"""A launch in a pass that is recorded: seen without being wrapped, replayed on the same memory."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from rightfast.runtime import Graphs, NotRecordable, NotRecorded, Tape, launchable, opaque

from . import triton_fakes
from .launch_cases import pair_kernel, scale_kernel, triton


@dataclass(frozen=True)
class Options:
    blocks: int = 2


@pytest.fixture
def launch(recording):
    triton_fakes.prepare(scale_kernel, recording)
    return launchable(scale_kernel, BLOCK=64)


@pytest.fixture
def interpreted(monkeypatch):
    from triton import knobs

    monkeypatch.setattr(knobs.runtime, "interpret", True)
    launch = launchable(triton.jit(scale_kernel.fn), BLOCK=16)
    assert not launch.direct
    return launch


def told(recording):
    # A replay may launch in C what was captured through Triton: the kernel is given the same.
    return [{**one, "raw": None, "values": None} for one in recording.launches]


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("form", ["tuple", "list", "function"])
def test_a_replay_launches_what_the_capture_launched(recording, launch, form, wrapped):
    def run(options, x, y):
        grid = {
            "tuple": (options.blocks,),
            "list": [options.blocks],
            "function": lambda known: (options.blocks, known["BLOCK"], known["n"]),
        }[form]
        if wrapped:
            opaque(launch, grid, x, y, 8)
        else:
            launch(grid, x, y, 8)
        launch(grid, y, y, 17, num_warps=8)

    y = torch.zeros(8)
    graphs = Graphs(run, record=True, backend=Tape())
    graphs(Options(), fed={"x": torch.ones(8)}, bound={"y": y})
    assert (graphs.recordings, len(recording.launches)) == (1, 4)  # for real, and captured
    captured = told(recording)[2:]
    for _ in range(2):
        graphs(Options(), fed={"x": torch.ones(8)}, bound={"y": y})
        assert told(recording)[4:] == captured
        del recording.launches[4:]
    assert graphs.replays == 2
    graphs(Options(3), fed={"x": torch.ones(8)}, bound={"y": y})
    assert [one["grid"][0] for one in told(recording)[4:]] == [3] * 4


def test_interpreted(interpreted):
    def run(options, x, y):
        n = 16 * options.blocks  # known["n"] is an array, which not every NumPy takes for a number
        interpreted(lambda known: (n // known["BLOCK"],), x, y, n)
        return y + 1.0

    graphs = Graphs(run, record=True, backend=Tape())
    y = torch.zeros(40)
    for seed, blocks in enumerate((2, 2, 1, 2, 1)):
        x = torch.arange(40.0) + seed
        right = y.clone()
        right[: 16 * blocks] = 2 * x[: 16 * blocks]
        result = graphs(Options(blocks), fed={"x": x}, bound={"y": y})
        assert torch.equal(y, right)
        assert torch.equal(result, right + 1.0)
    assert (graphs.recordings, graphs.replays) == (2, 3)


class TestRefused:
    """What a replay would do wrongly is not recorded, and the eager answer is right."""

    def test_memory_that_is_not_declared(self, interpreted):
        hidden = torch.arange(16.0)
        graphs = Graphs(
            lambda options, y: interpreted((1,), hidden, y, 16), record=True, backend=Tape()
        )
        y = torch.zeros(16)
        with pytest.warns(NotRecorded, match=r"scale_kernel uses a tensor of shape \(16,\)"):
            graphs(Options(), bound={"y": y})
        hidden = hidden + 1.0
        graphs(Options(), bound={"y": y})
        assert torch.equal(y, 2 * hidden)
        assert graphs.recordings == 0

    def test_memory_within_an_object_of_tritons(self, launch):
        from triton.tools.tensor_descriptor import TensorDescriptor

        x, y = torch.zeros(8, 8), torch.zeros(8)
        hidden = TensorDescriptor.from_tensor(x, [4, 4])
        with pytest.raises(NotRecordable, match=r"scale_kernel uses a tensor of shape \(8, 8\)"):
            Tape().capture(lambda: launch((1,), hidden, y, 8), [y], [])

    def test_a_write_to_what_is_fed(self, interpreted):
        x = torch.arange(16.0)
        graphs = Graphs(lambda options, x: interpreted((1,), x, x, 16), record=True, backend=Tape())
        with pytest.warns(NotRecorded, match="writes to a tensor that is fed"):
            graphs(Options(), fed={"x": x})
        assert torch.equal(x, 2 * torch.arange(16.0))

    def test_a_grid_that_reads_a_value(self, launch):
        x, y = torch.ones(16), torch.zeros(16)
        with pytest.raises(NotRecordable, match="reads a value on the host"):
            Tape().capture(lambda: launch(lambda _: (int(x.sum()),), x, y, 16), [y], [x])

    def test_the_same_of_an_interpreted_kernel(self, interpreted):
        self.test_a_grid_that_reads_a_value(interpreted)


def test_other_launches_stay_direct(recording, monkeypatch):
    """After a capture, and after one that failed."""
    triton_fakes.prepare(pair_kernel, recording)
    launch = launchable(pair_kernel)
    x = torch.zeros(8)

    def broken():
        launch((1,), x, 2)
        raise RuntimeError

    Tape().capture(lambda: launch((1,), x, 2), [x], [])
    with pytest.raises(RuntimeError):
        Tape().capture(broken, [x], [])
    monkeypatch.setattr(pair_kernel, "run", None)
    before = len(recording.launches)
    launch((1,), x, 2)
    assert len(recording.launches) == before + 1
