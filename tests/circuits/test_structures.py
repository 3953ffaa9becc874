"""Structures: their trees, their sizes, and what they refuse."""

import itertools

import numpy as np
import pytest
import torch

from rightfast import circuits
from rightfast.circuits import Categorical
from rightfast.circuits.nodes import InputNodes
from rightfast.circuits.structures import chow_liu

from .common import assignments

BINARY = Categorical(2)


def information(a, b):
    """Mutual information by its definition, counts as they are."""
    joint = np.histogram2d(a, b, bins=(a.max() + 1, b.max() + 1))[0] / len(a)
    product = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    inside = joint > 0
    return float((joint[inside] * np.log(joint[inside] / product[inside])).sum())


def test_mutual_information():
    data = torch.randint(3, (80, 4), generator=torch.Generator().manual_seed(0))
    data[:, 2] = (data[:, 0] + (data[:, 1] == 0)) % 3
    found = chow_liu.mutual_information(data, 0.0)
    for a, b in itertools.combinations(range(4), 2):
        assert abs(found[a, b] - information(data[:, a].numpy(), data[:, b].numpy())) < 1e-6


def test_the_tree_has_the_largest_total_of_all_trees():
    generator = np.random.default_rng(0)
    weights = generator.random((5, 5))
    weights = weights + weights.T
    pairs = list(itertools.combinations(range(5), 2))

    def joined(edges):
        group = list(range(5))
        for a, b in edges:
            group = [group[a] if g == group[b] else g for g in group]
        return len(set(group)) == 1

    trees = [edges for edges in itertools.combinations(pairs, 4) if joined(edges)]
    best = max(sum(weights[e] for e in edges) for edges in trees)
    found = chow_liu.spanning_tree(weights)
    assert joined(found)
    assert abs(sum(weights[e] for e in found) - best) < 1e-12


def test_a_chain_is_found_and_rooted_at_its_middle():
    generator = torch.Generator().manual_seed(0)
    columns = [torch.randint(4, (4000,), generator=generator)]
    for _ in range(6):
        noise = torch.rand(4000, generator=generator) < 0.1
        fresh = torch.randint(4, (4000,), generator=generator)
        columns.append(torch.where(noise, fresh, columns[-1]))
    assert circuits.chow_liu_tree(torch.stack(columns, 1)) == [1, 2, 3, -1, 3, 4, 5]


def test_large_values_are_binned():
    values = torch.tensor([[0.0, 5], [10.0, 5], [5.0, 5], [9.9, 5]])
    assert chow_liu.binned(values, 2).tolist() == [[0, 0], [1, 0], [1, 0], [1, 0]]
    assert chow_liu.binned(torch.tensor([[0], [255]]), 16).tolist() == [[0], [15]]
    assert chow_liu.binned(torch.tensor([[3], [7]]), 16).tolist() == [[3], [7]]


def test_pd_has_all_boxes():
    circuit = circuits.compile(circuits.pd((4, 4), 2, BINARY, split_intervals=2))
    sums = [n for n in circuit.plan.order if isinstance(n, circuits.nodes.SumNodes)]
    assert len(sums) == 9  # 3 x 3 stretches of two cells an axis
    uneven = circuits.compile(circuits.pd((5, 3), 1, BINARY, split_intervals=(2, 3)))
    assert uneven.num_variables == 15
    x = torch.zeros(1, 15).long()
    assert float(circuits.marginal(uneven, x, torch.ones_like(x).bool())) == pytest.approx(0)


def total(root):
    """Of the probabilities of all assignments of binary variables."""
    circuit = circuits.compile(root, dtype=torch.float64)
    return float(circuit(assignments([2] * circuit.num_variables)).exp().sum().detach())


def edges_of(root):
    """Children of each inner sum, smaller scopes first, by its scope."""
    nodes = circuits.nodes.topological(root)
    sums = [n for n in nodes if isinstance(n, circuits.nodes.SumNodes) and n is not root]
    return {tuple(sorted(n.scope)): n.num_children for n in sums}


def test_pd_with_some_of_the_cuts():
    whole = edges_of(circuits.pd((3, 3), 2, BINARY))
    assert edges_of(circuits.pd((3, 3), 2, BINARY, max_cuts=4)) == whole
    for most in (1, 2):
        root = circuits.pd((3, 3), 2, BINARY, max_cuts=most)
        found = edges_of(root)
        assert found == {scope: min(2 * most, whole[scope]) for scope in found}
        assert root.num_children == 4 * 2  # all cuts
        assert total(root) == pytest.approx(1)

    def scopes(seed):
        root = circuits.pd((4, 4), 2, BINARY, max_cuts=1, seed=seed)
        return [n.scope for n in circuits.nodes.topological(root)]

    assert scopes(0) == scopes(0)
    assert scopes(0) != scopes(1)


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("products", ["outer", "hadamard"])
def test_rat_spn_by_its_products_and_inputs(products, share):
    kind = {"products": products, "share_inputs": share}
    root = circuits.rat_spn(8, 3, BINARY, depth=2, num_repetitions=2, **kind)
    leaves = [n for n in circuits.nodes.topological(root) if isinstance(n, InputNodes)]
    assert len(leaves) == 8 * (1 if share else 2)
    children = {len(scope): count for scope, count in edges_of(root).items()}
    assert children == ({4: 9} if products == "outer" else {2: 3, 4: 3})
    for variables, depth in ((1, 2), (3, 5), (8, 2), (4, 0)):
        assert total(circuits.rat_spn(variables, 3, BINARY, depth=depth, **kind)) == pytest.approx(
            1
        )


def test_rat_spn_is_decided_by_its_seed():
    def scopes(seed):
        root = circuits.rat_spn(9, 2, BINARY, depth=2, num_repetitions=2, seed=seed)
        return [n.scope for n in circuits.nodes.topological(root)]

    assert scopes(0) == scopes(0)
    assert scopes(0) != scopes(1)
    assert circuits.compile(circuits.rat_spn(2, 3, BINARY, depth=5)).num_variables == 2


def test_homogeneous_models_share_their_tables():
    tied = circuits.compile(circuits.hmm(10, 4, BINARY))
    assert tied.plan.num_parameters == 4 * 4 + 4 + 4 * 2
    loose = circuits.compile(circuits.hmm(10, 4, BINARY, homogeneous=False))
    assert loose.plan.num_parameters == 9 * 16 + 4 + 10 * 8


def test_no_loop_over_nodes_is_left():
    """A layer of equal sums is one family; an untied model's table is read without copying."""
    tree = [-1, *([0] * 40)]
    circuit = circuits.compile(circuits.hclt(parents=tree, num_latents=4, dist=BINARY))
    assert [len(layer) for layer in circuit.plan.layers] == [1, 1]
    assert circuit.plan.sums[0].groups == 40
    assert all(family.parameters.index is None for family in circuit.plan.sums)
    assert len(circuit.plan.inputs) == 1


def test_distributions_of_their_own():
    dists = [Categorical(2), Categorical(5)]
    root = circuits.hclt(parents=[-1, 0], num_latents=2, dist=dists)
    leaves = {n.var: n.dist for n in circuits.nodes.topological(root) if isinstance(n, InputNodes)}
    assert leaves == dict(enumerate(dists))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: circuits.hmm(0, 2, BINARY), "seq_length must be at least 1"),
        (lambda: circuits.hclt(num_latents=2, dist=BINARY), "give one"),
        (lambda: circuits.hclt(parents=[-1, -1], num_latents=2, dist=BINARY), "one root"),
        (lambda: circuits.hclt(parents=[1, 0], num_latents=2, dist=BINARY), "one root"),
        (lambda: circuits.hclt(parents=[-1, 2, 1], num_latents=2, dist=BINARY), "circle"),
        (lambda: circuits.hclt(parents=[-1, 5], num_latents=2, dist=BINARY), "got 5"),
        (lambda: circuits.hclt(parents=[-1], num_latents=2, dist=[BINARY] * 2), "got 2"),
        (lambda: circuits.pd((), 2, BINARY), "at least one axis"),
        (lambda: circuits.pd((2, 2), 2, BINARY, split_intervals=(1,)), "2 numbers"),
        (lambda: circuits.pd((2, 2), 2, BINARY, max_cuts=0), "max_cuts must be at least 1"),
        (lambda: circuits.pd((2, 2), 2, BINARY, seed=-1), "seed must be at least 0"),
        (lambda: circuits.rat_spn(4, 2, BINARY, products="all"), "products must be 'outer' or"),
        (lambda: circuits.rat_spn(4, 2, BINARY, depth=-1), "depth must be at least 0"),
        (lambda: circuits.chow_liu_tree(torch.zeros(0, 3)), "not empty"),
        (lambda: circuits.chow_liu_tree(torch.tensor([[torch.nan]])), "finite"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_seed_that_would_give_another_circuit_each_time():
    with pytest.raises(TypeError, match="seed must be an int, got NoneType"):
        circuits.pd((3, 3), 2, BINARY, max_cuts=1, seed=None)
