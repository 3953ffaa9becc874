"""Log-likelihoods of any compiled circuit of categorical inputs, node by node, in float64: what
perf/test_circuits.py judges by."""

import torch

from rightfast.circuits.nodes import InputNodes, ProductNodes

from .circuits_by_hand import log_matmul


def log_likelihood(circuit, x, flat=None):
    """[batch], differentiable by ``flat``, the parameters; by default the circuit's own."""
    flat = circuit.parameters_flat.double().detach() if flat is None else flat
    values = {}
    for node in circuit.plan.order:
        below = [values[id(child)] for child in node.children]
        if isinstance(node, ProductNodes):
            if node.edges is not None:
                below = [part[index] for part, index in zip(below, node.edges.unbind(1))]
            values[id(node)] = sum(below)
            continue
        theta = flat[circuit.place(node)].view(node.num_nodes, -1)
        if isinstance(node, InputNodes):
            values[id(node)] = theta[:, x[:, node.var]].log()
        else:
            values[id(node)] = log_matmul(theta, torch.cat(below))
    return values[id(circuit.plan.order[-1])][0]
