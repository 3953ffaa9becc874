"""Random circuits: ragged, tied, with zeros, of any shape, against the oracle."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rightfast import circuits
from rightfast.circuits import Categorical, compile, inputs, multiply, summate

from .common import assert_close, assignments, oracle, root_of, zero_some


def random_edges(rng, nodes, children):
    """Each node gets one to all of the children."""
    pairs = []
    for node in range(nodes):
        count = int(torch.randint(1, children + 1, (), generator=rng))
        picked = torch.randperm(children, generator=rng)[:count]
        pairs += [(node, int(child)) for child in picked]
    return torch.tensor(pairs).T


def random_graph(seed, variables):
    """(root, categories): nodes of random scopes joined until one covers all variables."""
    rng = torch.Generator().manual_seed(seed)

    def below(n):
        return int(torch.randint(n, (), generator=rng))

    categories = [2 + below(2) for _ in range(variables)]
    pool = [inputs(v, 1 + below(3), Categorical(n)) for v, n in enumerate(categories)]
    for _ in range(12):
        one, other = pool[below(len(pool))], pool[below(len(pool))]
        if one.scope_bits & other.scope_bits:
            if one.scope_bits != other.scope_bits:
                continue
            children = [one] if one is other else [one, other]
            total = sum(child.num_nodes for child in children)
            size = 1 + below(3)
            edges = random_edges(rng, size, total) if below(2) else None
            found = summate(*children, num_nodes=size, edges=edges)
            pool.append(found)
            twins = [n for n in pool if n.num_nodes == total and n.scope_bits != one.scope_bits]
            if twins and below(2):  # tied over other variables
                pool.append(found.duplicate(twins[below(len(twins))], tie_params=True))
        else:
            size = 1 + below(3)
            picked = [torch.randint(n.num_nodes, (size,), generator=rng) for n in (one, other)]
            pool.append(multiply(one, other, edges=torch.stack(picked, 1)))
    whole = (1 << variables) - 1
    tops = [node for node in pool if node.scope_bits == whole]
    for start in reversed(pool):
        parts, bits = [], 0
        for node in [start, *reversed(pool)]:
            if not node.scope_bits & bits:
                parts.append(node)
                bits |= node.scope_bits
        index = [torch.randint(node.num_nodes, (2,), generator=rng) for node in parts]
        tops.append(multiply(*parts, edges=torch.stack(index, 1)))
        if len(tops) >= 3:
            break
    return summate(*tops, num_nodes=1), categories


@given(
    seed=st.integers(0, 2**31),
    variables=st.integers(1, 5),
    zeros=st.booleans(),
    log_space=st.booleans(),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_random_circuits(seed, variables, zeros, log_space):
    root, categories = random_graph(seed, variables)
    circuit = compile(root, dtype=torch.float64, seed=seed % 7)
    if zeros:
        zero_some(circuit, seed)
    x = assignments(categories)
    theta = circuit.parameters_flat.detach().clone().requires_grad_()
    exact = root_of(circuit, oracle(circuit, x, theta=theta))
    found = circuit(x).detach()
    assert_close(found, exact.detach())
    assert abs(float(found.exp().sum()) - 1) < 1e-10
    best = root_of(circuit, oracle(circuit, x, algorithm="mpe"))
    assert_close(circuit(x, "mpe").detach(), best)

    possible = found.isfinite()
    circuit(x[possible])
    circuit.backward(log_space=log_space)
    (gradient,) = torch.autograd.grad(exact[possible].sum(), theta)
    size = circuit.plan.num_sum_parameters
    expected = (theta.detach() * gradient.nan_to_num(0.0))[:size]
    assert_close(circuit.flows[:size], expected)

    value = circuits.full_batch_em(circuit, [x[possible]])
    assert circuits.full_batch_em(circuit, [x[possible]]) >= value - 1e-9
    samples = circuits.sample(circuit, 20, seed)
    assert circuit(samples).isfinite().all()
