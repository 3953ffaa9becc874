"""The wrong moment, the wrong file, the wrong numbers: refused, or served rightly."""

import copy
import json
import pickle
import threading

import pytest
import torch

from rightfast import circuits
from rightfast.circuits import (
    Categorical,
    FreeParameters,
    Gaussian,
    compile,
    description,
    inputs,
    storage,
    summate,
)
from rightfast.circuits.structures import hclt, hmm

from .common import BINARY, assert_close, build


def gaussian(dtype=torch.float32):
    return compile(hclt(parents=[-1, 0], num_latents=2, dist=Gaussian()), dtype=dtype)


# Data


def test_categories_far_out_of_range_are_named():
    circuit, _ = build("hmm")
    for value, said in ((1e30, r"1e\+30"), (torch.inf, "inf"), (-torch.inf, "-inf")):
        with pytest.raises(ValueError, match=f"got {said} in sample 0"):
            circuit(torch.full((1, 4), value))


def test_sparse_data_is_refused():
    circuit, x = build("hmm")
    with pytest.raises(TypeError, match="to_dense"):
        circuit(x.to_sparse())


def test_nan_under_the_mask_is_no_data():
    circuit = gaussian()
    x = torch.tensor([[0.5, torch.nan], [torch.inf, 1.0]])
    mask = ~x.isfinite()
    assert_close(
        circuit(x, missing_mask=mask).detach(), circuit(x.nan_to_num(0), missing_mask=mask).detach()
    )


def test_views_of_all_kinds_are_data():
    circuit, x = build("hmm")
    strided, repeated = x.repeat(1, 2)[::3, 4:], x[5:6].expand(7, 4)
    assert torch.equal(circuit(strided).detach(), circuit(x[::3]).detach())
    assert torch.equal(circuit(repeated).detach(), circuit(x[[5] * 7]).detach())
    assert torch.equal(circuit(x.half()).detach(), circuit(x).detach())
    mask = torch.zeros(4, len(x), dtype=torch.bool).t()
    assert torch.equal(circuit(x, missing_mask=mask).detach(), circuit(x).detach())


def test_gaussian_data_far_from_zero():
    """The deviation is a ten-thousandth of the mean, and float32 has seven digits."""
    x = 1e4 + torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    single, double = gaussian(), gaussian(torch.float64)
    for _ in range(8):
        values = [circuits.full_batch_em(one, [x]) for one in (single, double)]
    assert values[0] == pytest.approx(values[1], rel=1e-3)


def test_gaussian_data_whose_squares_overflow():
    circuit = gaussian()
    x = torch.tensor([[0.1, 0.2], [1e30, -1e30], [0.3, -0.2]])
    assert circuit(x).detach().isneginf().tolist() == [False, True, False]
    circuits.mini_batch_em(circuit, x, step_size=1.0)
    assert circuit.flows.isfinite().all()
    assert circuit.parameters_flat.isfinite().all()
    assert circuit(x[::2]).isfinite().all()


def test_gaussian_flows_serve_two_steps():
    """They are relative to the parameters, and move with them."""
    circuit = compile(inputs(0, 1, Gaussian()), dtype=torch.float64)
    x = 5 + 2 * torch.randn(100, 1, generator=torch.Generator().manual_seed(0)).double()
    circuit(x)
    circuit.backward()
    circuits.em_step(circuit, 0.5)
    circuits.em_step(circuit, 1.0)
    assert_close(circuit.parameters_flat[1:].detach(), torch.stack([x.mean(), x.std(correction=0)]))


# Numbers


def test_weights_that_overflow_are_refused():
    circuit, x = build("hmm", dtype=torch.float32)
    circuit(x)
    with pytest.raises(ValueError, match="scale the weights down"):
        circuit.backward(torch.full((len(x),), 1e37))
    circuit.backward(torch.full((len(x),), 1e34))
    circuits.em_step(circuit)
    assert circuit.parameters_flat.isfinite().all()


@pytest.mark.parametrize("keep", [True, False])
def test_extreme_steps_keep_the_simplex(keep):
    for step_size, pseudocount in ((1.0, 1e30), (1.0, 1e-44), (1e-44, 0.0), (1e-8, 1e-8)):
        circuit, x = build("ragged", dtype=torch.float32, zeros=True)
        circuits.mini_batch_em(
            circuit, x, step_size=step_size, pseudocount=pseudocount, keep_zero_params=keep
        )
        assert abs(float(circuit(x).detach().double().exp().sum()) - 1) < 1e-5


# The order of calls, and other types


def test_em_without_flows_changes_nothing():
    circuit, _ = build("hmm")
    before = circuit.parameters_flat.detach().clone()
    circuits.em_step(circuit)
    assert torch.equal(circuit.parameters_flat.detach(), before)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_other_dtypes_are_refused(dtype):
    circuit, x = build("hmm")
    with pytest.raises(TypeError, match=r"call circuit\.float"):
        circuit.to(dtype)(x)


def test_moving_between_the_passes():
    circuit, x = build("hmm")
    circuit(x)
    circuit.float()
    with pytest.raises(RuntimeError, match="run the forward pass again"):
        circuit.backward()
    circuit(x)
    circuit.backward()
    assert circuit.flows.dtype == torch.float32


def test_flows_of_rows_are_a_copy():
    circuit, x = build("hmm")
    circuit(x)
    flows = circuit.backward()
    rows = flows.rows
    kept = rows.clone()
    for _ in range(3):
        circuit(x.flip(0))
        circuit.backward()
    assert torch.equal(rows, kept)
    assert torch.equal(flows.rows, kept)  # they hold their pass
    circuit(x)
    first = circuit.backward()
    circuit.backward(log_space=True)
    with pytest.raises(RuntimeError, match="overwritten"):
        _ = first.rows


def test_compiled_in_inference_mode():
    with torch.inference_mode():
        circuit = compile(hmm(4, 3, BINARY))
        x = torch.zeros(2, 4).long()
        circuit(x)
        circuits.mini_batch_em(circuit, x, step_size=0.5)
    x = x.clone()
    circuit(x).sum().backward()
    circuits.mini_batch_em(circuit, x, step_size=0.5)
    assert circuit.parameters_flat.grad.isfinite().all()


def test_another_default_dtype_and_autocast_change_nothing():
    circuit, x = build("pd", dtype=torch.float32)
    twin, _ = build("pd", dtype=torch.float32)
    expected = circuits.mini_batch_em(circuit, x, step_size=0.5, pseudocount=0.1)
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = circuits.mini_batch_em(twin, x, step_size=0.5, pseudocount=0.1)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(found, expected)
    assert torch.equal(twin.parameters_flat, circuit.parameters_flat)


def test_threads_share_a_circuit():
    circuit, x = build("hclt-tree")
    sizes = (1, 7, 40, 64)
    expected = [
        torch.autograd.grad(circuit(x[:n]).sum(), circuit.parameters_flat)[0] for n in sizes
    ]
    wrong = []

    def work(n, right):
        for _ in range(25):
            values = circuit(x[:n])
            (found,) = torch.autograd.grad(values.sum(), circuit.parameters_flat)
            if not torch.equal(found, right):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(sizes, expected)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# Copies and files


def test_a_long_chain_is_copied_pickled_and_saved(tmp_path):
    circuit = compile(hmm(500, 2, Categorical(2)))
    x = torch.randint(2, (3, 500), generator=torch.Generator().manual_seed(0))
    expected = circuit(x).detach()
    circuits.save(circuit, tmp_path / "c")
    twins = [copy.deepcopy(circuit), pickle.loads(pickle.dumps(circuit))]
    for twin in (*twins, circuits.load(tmp_path / "c")):
        assert torch.equal(twin(x).detach(), expected)
    circuits.mini_batch_em(twins[0], x, step_size=1.0)
    assert torch.equal(circuit(x).detach(), expected)  # a copy has its own
    assert circuits.sample(circuit, 2, 0).shape == (2, 500)


def test_parameters_of_another_structure_are_refused():
    """A shorter homogeneous chain has as many parameters."""
    circuit, other = (compile(hmm(n, 3, BINARY)) for n in (4, 6))
    compile(hmm(4, 3, BINARY), seed=1).load_state_dict(circuit.state_dict())
    with pytest.raises(ValueError, match="another structure"):
        other.load_state_dict(circuit.state_dict())
    free = [FreeParameters(one) for one in (circuit, other)]
    with pytest.raises(ValueError, match="another structure"):
        free[1].load_state_dict(free[0].state_dict())
    edges = [torch.tensor([[0, 0, 1], [0, 1, last]]) for last in (0, 1)]
    roots = [
        summate(summate(inputs(0, 2, BINARY), num_nodes=2, edges=e), num_nodes=1) for e in edges
    ]
    one, two = map(compile, roots)
    with pytest.raises(ValueError, match="another structure"):
        two.load_state_dict(one.state_dict())


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.9, 0.999])
def test_truncated_files_are_refused(share, tmp_path):
    path = tmp_path / "c"
    circuits.save(build("ragged")[0], path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ValueError, match="damaged"):
        circuits.load(path)


@pytest.mark.parametrize(
    "nodes",
    [
        None,
        "[{",
        "[]",
        "{}",
        '[{"kind": "sum", "children": [5], "size": 1, "owner": 0}]',
        '[{"kind": "other", "children": []}]',
        '[{"kind": "input", "children": [], "var": 0, "size": 1, "dist": "Poisson", "owner": 0,'
        ' "options": {}}]',
        '[{"kind": "input", "children": [], "var": 0, "size": 1, "dist": "Categorical", "owner": 0,'
        ' "options": {"number": 2}}]',
    ],
)
def test_graphs_that_make_no_sense_are_refused(nodes, tmp_path):
    from safetensors.torch import save_file

    header = {"format": storage.FORMAT, "version": str(storage.VERSION)}
    header |= {} if nodes is None else {"nodes": nodes}
    save_file({"parameters": torch.zeros(3)}, tmp_path / "c", header)
    with pytest.raises(ValueError, match="damaged"):
        circuits.load(tmp_path / "c")


def test_files_without_their_tensors_are_refused(tmp_path):
    from safetensors.torch import save_file

    circuit, _ = build("ragged")
    nodes, tensors = description.describe(circuit.plan.order)
    header = {"format": storage.FORMAT, "version": "1", "nodes": json.dumps(nodes)}
    flat = circuit.parameters_flat.detach()
    for held in ({**tensors}, {"parameters": flat}, tensors | {"parameters": flat.long()}):
        save_file(held, tmp_path / "c", header)
        with pytest.raises(ValueError, match="damaged"):
            circuits.load(tmp_path / "c")


def test_graphs_are_of_kernels_which_have_a_precision():
    root = hmm(2, 3, Categorical(4))
    with pytest.raises(ValueError, match="expected a precision= of"):
        compile(root, graphs=True, precision=None)
    with pytest.raises(ValueError, match="precision must be None or one of"):
        compile(root, precision="tf16")
    with pytest.raises(ValueError, match="precision must be None or one of"):
        circuits.Circuit(
            compile(root).plan, compile(root).parameters_flat.detach(), precision="float32"
        )
