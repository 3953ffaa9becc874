"""The tape: it does again what was done, on the same memory, and leaves no trace of the capture."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from rightfast.runtime import NotRecordable, Tape, opaque


def captured(body, known=(), fed=()):
    result, recording = Tape().capture(body, list(known), list(fed))
    return result, recording


def test_a_capture_has_no_effect_and_a_replay_has():
    x, y = torch.arange(4.0), torch.zeros(4)
    result, recording = captured(lambda: y.add_(x * 2.0) + 1.0, [y], [x])
    assert not y.any()
    assert result.isnan().all()
    recording.replay()
    recording.replay()
    assert torch.equal(y, 4.0 * x)
    assert torch.equal(result, 4.0 * x + 1.0)


def test_values_are_read_where_they_were():
    x = torch.ones(3)
    result, recording = captured(lambda: x.view(3, 1).expand(3, 2).sum(1), [], [x])
    for value in (1.0, 5.0):
        x.fill_(value)
        recording.replay()
        assert torch.equal(result, torch.full((3,), 2 * value))


def test_numbers_in_the_code_are_baked_in():
    x = torch.ones(2)
    result, recording = captured(lambda: x * torch.tensor(3.0) + torch.tensor([1.0, 2.0]), [x])
    recording.replay()
    assert result.tolist() == [4.0, 5.0]


def test_several_results_lists_and_conjugates():
    x = torch.tensor([1.0 + 2.0j, 3.0 - 1.0j])

    def body():
        one, two = x.conj().unbind()
        values, places = torch.stack([one, two]).imag.sort()
        return values, places, torch.cat([values, values])

    result, recording = captured(body, [x])
    recording.replay()
    for got, right in zip(result, body()):
        assert torch.equal(got, right)


def test_random_numbers_are_drawn_at_each_replay_and_not_by_a_capture():
    own = torch.Generator().manual_seed(3)
    before, mine = torch.get_rng_state(), own.get_state()
    result, recording = captured(lambda: torch.rand(3) + torch.rand(3, generator=own))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(own.get_state(), mine)
    recording.replay()
    first = result.clone()
    torch.set_rng_state(before)
    own.set_state(mine)
    assert torch.equal(first, torch.rand(3) + torch.rand(3, generator=own))
    recording.replay()
    assert not torch.equal(first, result)


def test_memory_that_it_does_not_own_is_not_kept():
    known = [torch.ones(3)]
    _, recording = captured(lambda: known[0] + 1.0, known)
    recording.replay()
    known.clear()
    with pytest.raises(RuntimeError, match="memory that was freed"):
        recording.replay()


def test_what_is_made_and_freed_in_the_pass_is_its_own():
    x = torch.ones(1000)
    result, recording = captured(lambda: ((x + 1.0) * 2.0).sum() * 3.0, [x])
    churn = [torch.full((1000,), 7.0) for _ in range(5)]
    recording.replay()
    assert result == 12000.0
    assert all((block == 7.0).all() for block in churn)


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x.sum().item(),
        lambda x: x.tolist(),
        lambda x: x.numpy(),
        lambda x: torch.unique(x),
        lambda x: x[x > 1.0],
        lambda x: torch.allclose(x, x),
        lambda x: x.to("meta"),
        lambda x: x + torch.ones(3, device="meta"),
    ],
    ids=["item", "tolist", "numpy", "unique", "mask", "allclose", "to", "elsewhere"],
)
def test_what_waits_for_a_value(body):
    x = torch.ones(3)
    with pytest.raises(NotRecordable) as why:
        captured(lambda: body(x), [x])
    assert why.value.kind == "host"


def test_an_index_by_number_is_none_of_these():
    x, places = torch.arange(4.0), torch.tensor([2, 0])
    result, recording = captured(lambda: x[places], [x, places])
    places.copy_(torch.tensor([1, 3]))
    recording.replay()
    assert result.tolist() == [1.0, 3.0]


def test_a_failed_capture_has_no_effect():
    y = torch.zeros(2)
    with pytest.raises(NotRecordable):
        captured(lambda: y.add_(1.0).sum().item(), [y])
    assert not y.any()


def by_numpy(x, out, power):
    """Past the dispatcher, as a kernel."""
    out.numpy()[:] = x.numpy() ** power


def test_opaque_work():
    x, out = torch.arange(3.0), torch.zeros(3)

    def body():
        opaque(by_numpy, x, out, power=2)
        return out + 1.0

    result, recording = captured(body, [x, out])
    assert not out.any()
    x.add_(1.0)
    recording.replay()
    assert out.tolist() == [1.0, 4.0, 9.0]
    assert result.tolist() == [2.0, 5.0, 10.0]
    assert torch.equal(body(), result)


def test_opaque_work_on_memory_that_is_not_declared():
    x, out = torch.arange(3.0), torch.zeros(3)
    with pytest.raises(
        NotRecordable, match=r"by_numpy uses a tensor of shape \(3,\) that is neither"
    ):
        captured(lambda: opaque(by_numpy, x, out, 2), [x])


def test_opaque_work_that_writes_to_what_is_fed():
    x = torch.arange(3.0)
    with pytest.raises(NotRecordable, match="writes to a tensor that is fed"):
        captured(lambda: opaque(by_numpy, x, x, 2), [], [x])
    assert x.tolist() == [0.0, 1.0, 2.0]


TRITON = """
from dataclasses import dataclass
import torch, triton, triton.language as tl
from rightfast.runtime import Buffers, CudaGraphs, Graphs, Tape, cdiv, launchable, opaque

@triton.jit
def scaled(x, out, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) * scale, at < n)

@dataclass(frozen=True)
class Options:
    scale: float = 2.0

buffers = Buffers()
launch = launchable(scaled, BLOCK=64)

def run(options, x):
    out = buffers.get("out", x.shape, x.dtype, x.device)
    grid = (cdiv(x.numel(), 64),)
    WAY
    return out + 1.0

device, backend = DEVICE
graphs = Graphs(run, record=True, buffers=buffers, backend=backend)
for seed, scale in enumerate((2.0, 2.0, 3.0, 2.0, 3.0)):
    x = torch.arange(100.0, device=device) + seed
    assert torch.equal(graphs(Options(scale), fed={"x": x}), x * scale + 1.0), seed
assert (graphs.recordings, graphs.replays) == (2, 3)
"""


@pytest.mark.parametrize(
    "way",
    [
        "opaque(scaled[grid], x, out, x.numel(), options.scale, BLOCK=64)",
        "launch(grid, x, out, x.numel(), options.scale)",
    ],
    ids=["opaque", "launchable"],
)
@pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param(
            "cuda",
            marks=[
                pytest.mark.gpu,
                pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
            ],
        ),
    ],
)
def test_a_triton_kernel(device, way, tmp_path):
    """Interpreted on the CPU, which Triton decides when it is imported."""
    pytest.importorskip("triton")
    backend = '"cuda", CudaGraphs()' if device == "cuda" else '"cpu", Tape()'
    script = tmp_path / "scaled.py"
    script.write_text(TRITON.replace("DEVICE", backend).replace("WAY", way))
    interpret = {"TRITON_INTERPRET": "1"} if device == "cpu" else {}
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, **interpret, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
