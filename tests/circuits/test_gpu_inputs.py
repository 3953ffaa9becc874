"""Circuits by kernels with inputs that torch computes, and with sums of block-sparse edges: against
torch in float64. Interpreted, in a process of their own, and on CUDA where there is one."""

import pytest
import torch

pytest.importorskip("triton")

from rightfast.circuits import (
    Bernoulli,
    Categorical,
    DiscretizedLogistic,
    Gaussian,
    compile,
    hclt,
    hmm,
    inputs,
    mini_batch_em,
    multiply,
    summate,
)
from rightfast.circuits.gpu import lowering

from .gpu_cases import (
    DEVICE,
    INTERPRETED,
    OPTIONS,
    again_interpreted,
    built,
    by_kernels,
    check,
    check_derivative,
    check_em,
    close,
    here,
    twin,
)

TREE = [-1, 0, 0, 1, 1]
OTHERS = [Gaussian(), Bernoulli(), DiscretizedLogistic(5), Categorical(4), Gaussian()]
CIRCUITS = {
    "tied": lambda: hmm(5, 3, Gaussian()),
    "all-kinds": lambda: hclt(parents=TREE, num_latents=3, dist=OTHERS),
    "several-of-a-kind": lambda: hclt(
        parents=TREE, num_latents=2, dist=[DiscretizedLogistic(5)] * 3 + [Gaussian()] * 2
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    by_kernels(monkeypatch, recorded=True)


def data(circuit, batch, seed=0):
    """Values of whatever kind each variable has, [batch, variables]."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, circuit.num_variables, generator=generator)
    for family in circuit.plan.inputs:
        if family.dist.num_categories is not None:
            shape = (batch, len(family.variables))
            values = torch.randint(family.dist.num_categories, shape, generator=generator)
            x[:, family.variables] = values.to(x)
    return x.to(DEVICE)


@here
@pytest.mark.parametrize(
    "name", ["tied", "all-kinds", pytest.param("several-of-a-kind", marks=pytest.mark.slow)]
)
def test_inputs_that_are_not_categorical(name):
    circuit, exact, _ = built((CIRCUITS[name](), [2]), zeros=True)
    x = data(circuit, 12)
    generator = torch.Generator().manual_seed(1)
    missing = torch.rand(x.shape, generator=generator) < 0.4
    weights = torch.rand(len(x), generator=generator)
    check(circuit, exact, x)
    check(circuit, exact, x, missing.to(DEVICE), weights.to(DEVICE))
    check_derivative(circuit, exact, x)
    check_derivative(circuit, exact, x, missing.to(DEVICE))
    check_em(circuit, exact)


@here
@pytest.mark.parametrize(
    "options",
    [OPTIONS[0], *(pytest.param(*o.values, id=o.id, marks=pytest.mark.slow) for o in OPTIONS[1:])],
)
def test_options(options):
    """Maxima, a temperature, log space."""
    circuit, exact, _ = built((CIRCUITS["all-kinds"](), [2]), zeros=True)
    x = data(circuit, 9)
    missing = torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.4
    check(circuit, exact, x, options=options)
    check(circuit, exact, x, missing.to(DEVICE), options=options)
    if options.algorithm == "mpe":
        check_derivative(circuit, exact, x, missing.to(DEVICE), algorithm="mpe")


@here
def test_what_is_no_value_gives_nan_for_its_sample_alone():
    circuit, _, _ = built((CIRCUITS["all-kinds"](), [2]))
    x = data(circuit, 6)
    with torch.no_grad():
        right = circuit(x)
        for variable, value in ((0, torch.inf), (0, torch.nan), (1, 2.0), (2, -1.0), (2, 0.5)):
            wrong = x.clone()
            wrong[3, variable] = value
            found = circuit(wrong)
            circuit.zero_flows()
            circuit.backward()
            assert found[3].isnan()
            others = [i for i in range(6) if i != 3]
            assert torch.equal(found[others], right[others])
            assert circuit.flows.isfinite().all()
            missing = torch.zeros_like(x).bool()
            missing[3, variable] = True
            assert circuit(wrong, missing_mask=missing).isfinite().all()


@here
@pytest.mark.filterwarnings("error::rightfast.runtime.NotRecorded")
def test_recorded_passes_give_the_same_bits():
    one, other = (
        compile(CIRCUITS["all-kinds"](), graphs=graphs, precision="ieee").to(DEVICE)
        for graphs in (True, False)
    )
    missing = torch.zeros(5, 5, dtype=torch.bool, device=DEVICE)
    missing[2, :3] = True
    for number in range(4):
        x = data(one, 5 if number % 2 else 8, number)
        mask = missing if number % 2 else None
        values = [mini_batch_em(c, x, step_size=0.3, missing_mask=mask) for c in (one, other)]
        assert torch.equal(*values)
        assert torch.equal(one.parameters_flat, other.parameters_flat)
    workspace = one.state.workspace
    assert workspace.forward.replays == workspace.backward.replays == 2


def blocks(pairs, size):
    """Edges of every pair (block of sums, block of children), as pyjuice's edge_ids has them."""
    pairs = torch.tensor(pairs).t()
    inside = torch.cartesian_prod(torch.arange(size), torch.arange(size))
    return (pairs[None] * size + inside[:, None]).reshape(-1, 2).t()


def block_sparse(size):
    """Two tied layers of four blocks of sums, over three of children each at most, and one of
    sums that have neighbours with other children."""
    pairs = [[0, 0, 1, 1, 1, 2, 2, 3, 3], [0, 2, 1, 2, 3, 1, 3, 1, 3]]
    leaf = [inputs(v, 4 * size, Categorical(3)) for v in range(4)]
    first = summate(leaf[0], num_nodes=4 * size, edges=blocks(pairs, size))
    second = first.duplicate(multiply(first, leaf[1]), tie_params=True)
    third = second.duplicate(multiply(second, leaf[2]))
    between = torch.tensor([[0, 0, 1, 2, 2, 3, 3, 3], [0, 5, 1, 0, 5, 2, 3, 4]])
    last = summate(multiply(third, leaf[3]), num_nodes=4, edges=between)
    return summate(last, num_nodes=1), [3] * 4


@here
@pytest.mark.parametrize("zeros", [pytest.param(False, marks=pytest.mark.slow), True])
def test_sums_of_block_sparse_edges(zeros):
    circuit, exact, x = built(block_sparse(8), zeros)
    x = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[:20]]
    missing = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.4
    check(circuit, exact, x)
    check(circuit, exact, x, missing.to(DEVICE), torch.rand(len(x)).to(DEVICE))
    check_derivative(circuit, exact, x)
    check_em(circuit, exact, steps=3)


def test_blocks_are_matrices():
    """Sums with two blocks of children, and with three; blocks that follow each other and have the
    same children are one."""
    plan = compile(block_sparse(8)[0]).plan
    tables = lowering.tables_of(plan)
    layer = [(one.layout.nodes, one.layout.children, one.groups) for one in tables.layers[0]]
    assert sorted(layer) == [(8, 16, 1), (8, 24, 1), (16, 16, 1)]
    assert all(one.layout.block >= 8 for one in tables.layers[0])
    rest = [(one.layout.nodes, one.layout.children, one.groups) for one in tables.layers[3]]
    assert sorted(rest) == [(1, 1, 1), (1, 2, 2), (1, 3, 1)]
    # Every parameter once.
    for layer in tables.layers:
        assert sum(s.layout.nodes * s.layout.children * s.groups for s in layer) in (576, 8, 4)


@here
def test_sums_of_any_edges():
    """Whatever edges there are, values and flows are those of torch."""
    generator = torch.Generator().manual_seed(0)
    a, b = inputs(0, 8, Categorical(3)), inputs(1, 8, Categorical(3))
    edges = (torch.rand(10, 8, generator=generator) < 0.3).nonzero().t()
    some = summate(multiply(a, b), num_nodes=10, edges=edges)
    root = summate(multiply(some, inputs(2, 10, Categorical(3))), num_nodes=1)
    circuit = compile(root, precision="ieee").to(DEVICE)
    x = torch.randint(3, (9, 3), generator=generator).to(DEVICE)
    exact = twin(circuit)
    check(circuit, exact, x)
    check_derivative(circuit, exact, x)
    check_em(circuit, exact)
    with torch.no_grad():
        close(circuit(x), exact(x.cpu()))


@pytest.mark.skipif(INTERPRETED, reason="runs above")
@pytest.mark.parametrize("part", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_interpreted(part):
    again_interpreted(__file__, part)
