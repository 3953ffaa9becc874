"""Two gloo processes take the M-step that one process takes with all of the data."""

import subprocess
import sys

import pytest
import torch

from rightfast import circuits

from .common import build

WORKER = """
import sys
import torch
import torch.distributed as dist
from rightfast import circuits

rank, folder = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
root = circuits.hmm(6, 3, circuits.Categorical(2))
circuit = circuits.compile(root, dtype=torch.float64)
x = torch.load(f"{folder}/x.pt")
calls = []
reduce = dist.all_reduce
dist.all_reduce = lambda *a, **k: (calls.append(1), reduce(*a, **k))[1]
for _ in range(3):
    circuit.zero_flows()
    circuit(x[rank::2])
    circuit.backward()
    circuits.reduce_flows(circuit)
    circuits.em_step(circuit, 0.7, 0.1)
assert len(calls) == 3
torch.save(circuit.parameters_flat.detach(), f"{folder}/{rank}.pt")
dist.destroy_process_group()
"""


def test_two_processes_equal_one(tmp_path):
    x = torch.randint(2, (41, 6), generator=torch.Generator().manual_seed(0))
    torch.save(x, tmp_path / "x.pt")
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(rank), str(tmp_path)])
        for rank in (0, 1)
    ]
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0]
    root = circuits.hmm(6, 3, circuits.Categorical(2))
    alone = circuits.compile(root, dtype=torch.float64)
    for _ in range(3):
        circuits.mini_batch_em(alone, x, step_size=0.7, pseudocount=0.1)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    assert torch.equal(first, second)
    torch.testing.assert_close(first, alone.parameters_flat.detach(), rtol=1e-12, atol=1e-12)


def test_without_a_process_group():
    circuit, _ = build("hmm")
    with pytest.raises(RuntimeError, match="init_process_group"):
        circuits.reduce_flows(circuit)
