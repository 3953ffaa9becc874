"""The bar for `rightfast.circuits`: two circuits written by hand in plain torch.

What somebody writes who needs one model and no library: a product of matrices after the maximum is
taken out, one for each step of a chain, or for all nodes of a level of a tree; gradients and flows
by autograd. `from_circuit` takes the parameters of a compiled circuit, so that both compute the
same numbers.
"""

from dataclasses import dataclass

import torch

from rightfast.circuits.nodes import InputNodes, SumNodes


def log_matmul(theta, e):
    """log(theta exp(e)): theta [..., N, C], e [..., C, B]."""
    largest = e.amax(-2, keepdim=True)
    return (theta @ (e - largest).exp()).log() + largest


@dataclass
class HMM:
    """Tied: start [1, K], transition [K, K], emission [K, categories]."""

    start: torch.Tensor
    transition: torch.Tensor
    emission: torch.Tensor

    @classmethod
    def from_circuit(cls, circuit):
        found = owned(circuit)
        start, transition = sorted((s for s, _ in found[SumNodes]), key=len)
        return cls(start, transition, found[InputNodes][0][0])

    @property
    def parameters(self):
        return [self.start, self.transition, self.emission]

    def log_likelihood(self, x):
        picked = self.emission.log()[:, x.t()]  # [K, time, B]
        state = picked[:, -1]
        for t in reversed(range(x.shape[1] - 1)):
            state = log_matmul(self.transition, state) + picked[:, t]
        return log_matmul(self.start, state)[0]


@dataclass
class HCLT:
    """emission [V, K, categories], and one table [nodes, K, K] a level of the tree, root apart."""

    root: torch.Tensor
    levels: list[torch.Tensor]
    emission: torch.Tensor
    nodes: list[torch.Tensor]
    parents: list[torch.Tensor]

    @classmethod
    def from_circuit(cls, circuit, parents):
        found = owned(circuit)
        depth = [0] * len(parents)
        for v in from_root(parents):
            depth[v] = depth[parents[v]] + 1 if parents[v] >= 0 else 0
        by_level = [
            [v for v in range(len(parents)) if depth[v] == d] for d in range(max(depth) + 1)
        ]
        place = {v: i for level in by_level for i, v in enumerate(level)}
        emission = {node.var: values for values, node in found[InputNodes]}
        table = {}
        for values, node in found[SumNodes]:
            table[variable_of(node)] = values
        return cls(
            table[by_level[0][0]],
            [torch.stack([table[v] for v in level]) for level in by_level[1:]],
            torch.stack([emission[v] for v in range(len(parents))]),
            [torch.tensor(level) for level in by_level],
            [torch.tensor([place[parents[v]] for v in level]) for level in by_level[1:]],
        )

    @property
    def parameters(self):
        return [self.root, *self.levels, self.emission]

    def log_likelihood(self, x):
        index = x.t()[:, None].expand(-1, self.emission.shape[1], -1)
        picked = self.emission.gather(2, index).log()  # [V, K, B]
        below = 0
        for level in reversed(range(1, len(self.nodes))):
            message = log_matmul(self.levels[level - 1], picked[self.nodes[level]] + below)
            shape = (len(self.nodes[level - 1]), *message.shape[1:])
            below = message.new_zeros(shape).index_add(0, self.parents[level - 1], message)
        return log_matmul(self.root, picked[self.nodes[0]] + below)[0, 0]


def step(model, x):
    """Mean log-likelihood and its gradient by every parameter."""
    for parameter in model.parameters:
        parameter.requires_grad_()
    value = model.log_likelihood(x).mean()
    return value.detach(), torch.autograd.grad(value, model.parameters)


def em(model, x):
    """One full EM step on a batch, in place: flows are theta times the gradient."""
    for parameter in model.parameters:
        parameter.requires_grad_()
    value = model.log_likelihood(x).sum()
    gradients = torch.autograd.grad(value, model.parameters)
    with torch.no_grad():
        for parameter, gradient in zip(model.parameters, gradients):
            flows = parameter * gradient
            total = flows.sum(-1, keepdim=True)
            parameter.copy_(torch.where(total > 0, flows / total, parameter))
    return value.detach()


def owned(circuit):
    """By kind of node: (parameters, node) of all that own some."""
    found = {InputNodes: [], SumNodes: []}
    flat = circuit.parameters_flat.detach()
    for place in circuit.plan.placements:
        values = flat[place.offset : place.offset + place.size].view(place.owner.num_nodes, -1)
        found[type(place.owner)].append((values.clone(), place.owner))
    return found


def variable_of(node):
    """The variable whose latent states the sums mix: that of the input below them."""
    return next(child.var for child in node.children[0].children if isinstance(child, InputNodes))


def from_root(parents):
    order = [parents.index(-1)]
    for v in order:
        order += [u for u, parent in enumerate(parents) if parent == v]
    return order


def random_tree(num_variables, seed=0):
    """A random recursive tree: each variable's parent is one of those before it."""
    generator = torch.Generator().manual_seed(seed)
    later = range(1, num_variables)
    return [-1, *(int(torch.randint(v, (), generator=generator)) for v in later)]
