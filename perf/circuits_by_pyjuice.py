"""The circuits of check_circuits_gpu.py as pyjuice has them; optional: pip install pyjuice.

`Pyjuice(circuit, block_size)` builds a compiled circuit of categorical inputs again from the peer's
own nodes, tied where ours are, with the same parameters. Block sizes are those that the peer's own
structures choose.
"""

import contextlib
import io

from rightfast.circuits.nodes import InputNodes, ProductNodes


class Pyjuice:
    """One circuit of the peer: `step` is a forward and a backward pass with parameter flows."""

    def __init__(self, circuit, block_size):
        import pyjuice

        self.nodes = {}
        # Owners of parameters first, where they have no children: others are made from them.
        leaves = [node for node in circuit.plan.order if isinstance(node, InputNodes)]
        for node in [*sorted(leaves, key=lambda leaf: leaf.tied), *circuit.plan.order]:
            if id(node) in self.nodes:
                continue
            theta = None
            if not isinstance(node, ProductNodes):
                theta = circuit.parameters_flat.detach()[circuit.place(node)].cpu().float()
            self.nodes[id(node)] = self._node(pyjuice, node, theta, block_size)
        self.root = self.nodes[id(circuit.plan.order[-1])]
        with contextlib.redirect_stdout(io.StringIO()):  # it prints its progress
            self.model = pyjuice.compile(self.root, verbose=False).to(circuit.device)

    def _node(self, pyjuice, node, theta, block_size):
        below = [self.nodes[id(child)] for child in node.children]
        if isinstance(node, ProductNodes):
            edges = {} if node.edges is None else {"edge_ids": node.edges, "sparse_edges": True}
            return pyjuice.multiply(*below, **edges)
        block = min(block_size, node.num_nodes)
        tied = self.nodes[id(node.source)] if node.tied else None
        if isinstance(node, InputNodes):
            if tied is not None:
                return tied.duplicate(node.var, tie_params=True)
            dist = pyjuice.nodes.distributions.Categorical(num_cats=node.dist.num_categories)
            blocks = node.num_nodes // block
            made = pyjuice.inputs(node.var, num_node_blocks=blocks, dist=dist, block_size=block)
            made.set_params(theta.reshape(-1).clone(), normalize=False)
            return made
        if tied is not None:
            return tied.duplicate(*below, tie_params=True)
        made = pyjuice.summate(*below, num_node_blocks=node.num_nodes // block, block_size=block)
        made.set_params(theta.view(node.num_nodes, -1).clone(), normalize=False)
        return made

    def step(self, x, graphs):
        """Log-likelihoods [batch]; flows are added up in the model."""
        options = {"record_cudagraph": True} if graphs else {"apply_cudagraph": False}
        values = self.model(x, **options)
        self.model.backward(x, flows_memory=1.0, allow_modify_flows=False, **options)
        return values.view(-1)

    def flows_off(self, circuit, exact):
        """Error of the sums' flows since `forget`, relative to the norm of ``exact``."""
        self.model.update_param_flows()
        off = total = 0.0
        for node in circuit.plan.order:
            if isinstance(node, InputNodes | ProductNodes) or node.tied:
                continue
            right = exact[circuit.place(node)].cpu().double()
            found = self.nodes[id(node)].get_param_flows(as_matrix=True).reshape(-1).double()
            off += float((found - right).square().sum())
            total += float(right.square().sum())
        return (off / total) ** 0.5

    def forget(self):
        """Sets flows to 0."""
        self.model.init_param_flows(flows_memory=0.0)
