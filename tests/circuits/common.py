"""Small circuits of every structure, and an oracle that evaluates the node graph node by node."""

import itertools

import torch

from rightfast.circuits import (
    Bernoulli,
    Categorical,
    DiscretizedLogistic,
    Gaussian,
    compile,
    inputs,
    multiply,
    summate,
)
from rightfast.circuits.nodes import InputNodes, ProductNodes, topological
from rightfast.circuits.structures import hclt, hmm, pd, rat_spn

TOLERANCE = 1e-10
BINARY, TERNARY = Categorical(2), Categorical(3)


def dense(node, parameters):
    """Parameters of a sum as a matrix [nodes, children], 0 where there is no edge."""
    if node.edges is None:
        return parameters.view(node.num_nodes, node.num_children)
    matrix = parameters.new_zeros(node.num_nodes, node.num_children)
    return matrix.index_put((node.edges[0], node.edges[1]), parameters)


def leaf(dist, parameters, x):
    """p(x) by a formula of its own: [nodes, batch]."""
    if isinstance(dist, Categorical):
        return parameters[:, x.long()]
    if isinstance(dist, Bernoulli):
        return torch.where(x == 1, parameters, 1 - parameters)
    if isinstance(dist, Gaussian):
        mean, deviation = parameters[:, :1], parameters[:, 1:]
        return torch.distributions.Normal(mean, deviation).log_prob(x.to(parameters)).exp()
    assert isinstance(dist, DiscretizedLogistic)
    mean, scale = parameters[:, :1], parameters[:, 1:]
    upper = ((x + 0.5 - mean) / scale).sigmoid()
    lower = ((x - 0.5 - mean) / scale).sigmoid()
    upper = torch.where(x == dist.num_cats - 1, 1.0, upper)
    return upper - torch.where(x == 0, 0.0, lower)


def largest(dist, parameters):
    """The leaf's largest probability or density: [nodes, 1]."""
    if isinstance(dist, Gaussian):
        return leaf(dist, parameters, parameters[:, 0]).diagonal().unsqueeze(1)
    values = torch.arange(dist.num_categories)
    return leaf(dist, parameters, values).amax(1, keepdim=True)


def oracle(circuit, x, *, theta=None, algorithm="ll", alpha=1.0, missing=None):
    """Values of all nodes for x, not logs: {id(node): [nodes, batch]}; differentiable."""
    flat = circuit.parameters_flat.detach() if theta is None else theta
    values = {}
    for node in topological(circuit.plan.order[-1]):
        if isinstance(node, InputNodes):
            own = flat[circuit.place(node)].view(node.num_nodes, -1)
            found = leaf(node.dist, own, x[:, node.var])
            if missing is not None:
                one = largest(node.dist, own) if algorithm == "mpe" else 1.0
                found = torch.where(missing[:, node.var], one, found)
        elif isinstance(node, ProductNodes):
            found = 1.0
            for j, child in enumerate(node.children):
                part = values[id(child)]
                found = found * (part if node.edges is None else part[node.edges[:, j]])
        else:
            below = torch.cat([values[id(child)] for child in node.children])
            matrix = dense(node, flat[circuit.place(node)])
            if algorithm == "mpe":
                found = (matrix.unsqueeze(2) * below).amax(1)
            else:
                total = matrix**alpha @ below**alpha
                possible = total > 0  # the power has no derivative at 0
                found = torch.where(possible, torch.where(possible, total, 1) ** (1 / alpha), 0)
        values[id(node)] = found
    return values


def root_of(circuit, values):
    return values[id(circuit.plan.order[-1])][0].log()


def assignments(categories):
    """All of them, one a row; ``categories`` holds the number of every variable."""
    return torch.tensor(list(itertools.product(*(range(n) for n in categories))))


# The structures. Each returns (root, categories of every variable).


def ragged():
    """Sums with 1, 2, 3 and 5 children each, two of which have the same children."""
    a, b = inputs(0, 5, BINARY), inputs(1, 5, BINARY)
    edges = torch.tensor(
        [[0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 4, 4], [4, 0, 3, 0, 1, 2, *range(5), 0, 3]]
    )
    mixed = summate(multiply(a, b), num_nodes=5, edges=edges)
    lone = summate(inputs(2, 3, BINARY), num_nodes=5)
    return summate(multiply(mixed, lone), num_nodes=1), [2, 2, 2]


def not_structured():
    """The same scope split in three ways, so that no vtree serves all products."""
    a, b, c = (inputs(v, 3, TERNARY) for v in range(3))
    ab = summate(multiply(a, b), num_nodes=3)
    bc = summate(multiply(b, c), num_nodes=3)
    ac = summate(multiply(a, c), num_nodes=3)
    return summate(multiply(ab, c), multiply(a, bc), multiply(ac, b), num_nodes=1), [3, 3, 3]


def crossed():
    """Products that choose their factors, one of whose nodes nobody uses."""
    a, b = inputs(0, 2, BINARY), inputs(1, 3, BINARY)
    pairs = torch.tensor([[0, 0], [0, 1], [1, 1], [1, 0]])
    ab = summate(multiply(a, b, edges=pairs), num_nodes=4)
    c = inputs(2, 2, BINARY)
    last = multiply(c, ab, edges=torch.tensor([[0, 3], [1, 1], [0, 0], [1, 3]]))
    return summate(last, num_nodes=1), [2, 2, 2]


def nested():
    """Products of products, sums of inputs, a sum over children of different kinds."""
    a, b, c, d = (inputs(v, 2, BINARY) for v in range(4))
    flat = multiply(multiply(a, b), multiply(c, d))
    deep = multiply(multiply(summate(a, num_nodes=2), b), summate(multiply(c, d), num_nodes=2))
    inner = summate(flat, deep, num_nodes=3)
    return summate(inner, flat, num_nodes=1), [2, 2, 2, 2]


def shared():
    """One sum below several parents, and tied sums in one layer and across layers."""
    a, b, c, d = (inputs(v, 2, BINARY) for v in range(4))
    first = summate(a, num_nodes=2)
    second = first.duplicate(b, tie_params=True)
    both = multiply(first, second)
    upper = first.duplicate(both, tie_params=True)
    other = summate(both, num_nodes=2)
    c1 = summate(c, num_nodes=2)
    c2 = other.duplicate(multiply(c1), tie_params=True)
    left = multiply(upper, c2, d)
    right = multiply(other, c1, d)
    return summate(left, right, num_nodes=1), [2, 2, 2, 2]


def scrambled():
    """Three tied sums in a layer whose parameters lie in another order than their owners'."""
    leaves = [inputs(v, 2, BINARY) for v in range(3)]
    owners = [summate(leaf, num_nodes=2) for leaf in leaves]
    ties = [
        owners[i].duplicate(multiply(owners[j]), tie_params=True)
        for i, j in ((1, 0), (0, 2), (2, 1))
    ]
    by_var = sorted(ties, key=lambda node: min(node.scope))
    uneven = multiply(summate(by_var[0], num_nodes=2), *by_var[1:])
    return summate(uneven, multiply(*owners), num_nodes=1), [2, 2, 2]


def with_tree():
    return hclt(parents=[1, -1, 1, 2, 2, 4], num_latents=3, dist=BINARY), [2] * 6


def from_data():
    data = torch.randint(3, (50, 4), generator=torch.Generator().manual_seed(0))
    return hclt(data, num_latents=2, dist=TERNARY), [3] * 4


STRUCTURES = {
    "hmm": lambda: (hmm(4, 3, TERNARY), [3] * 4),
    "hmm-long": lambda: (hmm(12, 2, BINARY), [2] * 12),
    "hmm-untied": lambda: (hmm(5, 3, BINARY, homogeneous=False), [2] * 5),
    "hclt-tree": with_tree,
    "hclt-data": from_data,
    "pd": lambda: (pd((2, 3), 2, BINARY), [2] * 6),
    "pd-intervals": lambda: (pd((3, 4), 2, BINARY, split_intervals=(2, 2)), [2] * 12),
    "rat": lambda: (rat_spn(6, 2, BINARY, depth=2, num_repetitions=3), [2] * 6),
    "one-variable": lambda: (hmm(1, 4, TERNARY), [3]),
    "one-latent": lambda: (hmm(4, 1, BINARY), [2] * 4),
    "one-input": lambda: (inputs(0, 1, TERNARY), [3]),
    "one-product": lambda: (multiply(*(inputs(v, 1, BINARY) for v in range(3))), [2] * 3),
    "bernoulli": lambda: (hmm(5, 3, Bernoulli()), [2] * 5),
    "logistic": lambda: (
        hclt(parents=[-1, 0, 1], num_latents=2, dist=DiscretizedLogistic(5)),
        [5] * 3,
    ),
    "mixed-leaves": lambda: (
        hclt(parents=[-1, 0, 0], num_latents=2, dist=[BINARY, Bernoulli(), Categorical(4)]),
        [2, 2, 4],
    ),
    "ragged": ragged,
    "not-structured": not_structured,
    "crossed": crossed,
    "nested": nested,
    "shared": shared,
    "scrambled": scrambled,
}  # fmt: skip

# Half of the structures also without zeros: what these change is seen on every structure with them.
POSITIVE = ["hmm", "hclt-tree", "pd", "rat", "ragged", "not-structured", "shared"]
CASES = [(name, True) for name in STRUCTURES] + [(name, False) for name in POSITIVE]


def build(name, seed=0, dtype=torch.float64, zeros=False, share=0.35):
    """(circuit, all assignments); with ``zeros`` that share of the probabilities is 0."""
    root, categories = STRUCTURES[name]()
    circuit = compile(root, dtype=dtype, seed=seed)
    if zeros:
        zero_some(circuit, seed, share)
    return circuit, assignments(categories)


@torch.no_grad()
def zero_some(circuit, seed=0, share=0.35):
    """Sets about that share of the parameters of sums and categorical leaves to 0."""
    generator = torch.Generator().manual_seed(seed)
    for place in circuit.plan.placements:
        owner = place.owner
        own = circuit.parameters_flat[place.offset : place.offset + place.size]
        if isinstance(owner, InputNodes):
            if not isinstance(owner.dist, Categorical):
                continue
            rows = own.view(owner.num_nodes, -1)
        else:
            rows = dense(owner, own.clone())
        keep = torch.rand(rows.shape, generator=generator) > share
        keep &= rows > 0
        empty = ~keep.any(1)
        keep[empty] = rows[empty] > 0
        rows = torch.where(keep, rows, 0)
        rows = rows / rows.sum(1, keepdim=True)
        if not isinstance(owner, InputNodes) and owner.edges is not None:
            rows = rows[owner.edges[0], owner.edges[1]]
        own.copy_(rows.reshape(-1))


def assert_close(actual, expected, tolerance=TOLERANCE):
    """Equal to a tolerance; -inf only where -inf is expected; NaN nowhere."""
    assert actual.shape == expected.shape
    assert not actual.isnan().any()
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
