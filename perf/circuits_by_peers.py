"""The circuits of check_circuits.py as two peers have them: cirkit and SPFlow, both optional.

    pip install libcirkit spflow

`cirkit` and `spflow` take a compiled circuit of categorical inputs, products node by node and dense
sums, and build it again from the peer's own layers, with the same parameters. Neither can share
parameters between variables and learn them by EM, so `untied` is what an HMM is compared as: every
step has its own copy of the tables, on both sides.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from rightfast import circuits
from rightfast.circuits.nodes import InputNodes, ProductNodes


@dataclass(frozen=True)
class Side:
    """One implementation of a circuit; all four take data [batch, variables].

    `forward` gives log-likelihoods [batch]; `step` their mean's gradient by every parameter, too;
    `em` is one whole EM step, in place; `learned` gives log-likelihoods after it. `parameters` are
    those that `em` changes.
    """

    forward: Callable
    step: Callable
    em: Callable
    learned: Callable
    parameters: list[torch.Tensor]


def translate(circuit, inputs, multiply, summate):
    """The root, built from the leaves: ``inputs(node, theta)``, ``multiply(children)``,
    ``summate(child, theta)``."""
    made = {}
    for node in circuit.plan.order:
        below = [made[id(child)] for child in node.children]
        if isinstance(node, ProductNodes):
            made[id(node)] = multiply(below) if len(below) > 1 else below[0]
            continue
        theta = circuit.parameters_flat.detach()[circuit.place(node)].view(node.num_nodes, -1)
        of_input = isinstance(node, InputNodes)
        made[id(node)] = inputs(node, theta) if of_input else summate(*below, theta)
    return made[id(circuit.plan.order[-1])]


def untied(circuit):
    """The same circuit of ours without shared parameters: each node has a copy."""
    root = translate(
        circuit,
        lambda node, theta: circuits.inputs(node.var, len(theta), node.dist).set_parameters(theta),
        lambda below: circuits.multiply(*below),
        lambda below, theta: circuits.summate(below, num_nodes=len(theta)).set_parameters(theta),
    )
    return circuits.compile(root)


def cirkit(circuit):
    """cirkit: folded and optimised; the tables themselves are its parameters, as its EM asks."""
    from cirkit.backend.torch.em_optimizer import EM

    model, learner = compiled_by_cirkit(circuit), compiled_by_cirkit(circuit)
    parameters, optimizer = list(model.parameters()), EM(learner, lr=1.0, pseudocount=0.0)

    def step(x):
        value = model(x).mean()
        return value.detach(), torch.autograd.grad(value, parameters)

    def em(x):
        value = learner(x).sum()
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        return value.detach()

    return Side(
        lambda x: model(x).flatten(),
        step,
        em,
        lambda x: learner(x).flatten(),
        list(learner.parameters()),
    )


def compiled_by_cirkit(circuit):
    from cirkit.pipeline import PipelineContext
    from cirkit.symbolic.circuit import Circuit
    from cirkit.symbolic.initializers import ConstantTensorInitializer
    from cirkit.symbolic.layers import CategoricalLayer, HadamardLayer, SumLayer
    from cirkit.symbolic.parameters import Parameter, TensorParameter
    from cirkit.utils.scope import Scope

    layers, children = [], {}

    def add(layer, below=()):
        layers.append(layer)
        if below:
            children[layer] = below
        return layer

    def table(theta):
        start = ConstantTensorInitializer(theta.numpy())
        return Parameter.from_input(TensorParameter(*theta.shape, initializer=start))

    def inputs(node, theta):
        nodes, categories = theta.shape
        kept = table(theta)
        scope = Scope([node.var])
        return add(CategoricalLayer(scope, nodes, num_categories=categories, probs=kept))

    root = translate(
        circuit,
        inputs,
        lambda below: add(HadamardLayer(below[0].num_output_units, len(below)), below),
        lambda below, theta: add(SumLayer(*reversed(theta.shape), weight=table(theta)), [below]),
    )
    context = PipelineContext(backend="torch", semiring="lse-sum", fold=True, optimize=True)
    return context.compile(Circuit(layers, children, [root]))


def spflow(circuit):
    """SPFlow: a module a node, as its own HCLT is built."""
    from spflow.learn.expectation_maximization import expectation_maximization
    from spflow.meta import Scope
    from spflow.modules.leaves import Categorical
    from spflow.modules.products import ElementwiseProduct
    from spflow.modules.sums import Sum

    def inputs(node, theta):
        nodes, categories = theta.shape
        leaf = Categorical(Scope([node.var]), out_channels=nodes, K=categories)
        leaf.probs = theta.view(leaf.probs.shape)
        return leaf

    model = translate(
        circuit,
        inputs,
        lambda below: ElementwiseProduct(inputs=below),
        lambda below, theta: Sum(inputs=below, weights=theta.t().contiguous()),
    )
    parameters = list(model.parameters())

    def forward(x):
        return model.log_likelihood(x.float()).flatten()

    def step(x):
        value = forward(x).mean()
        return value.detach(), torch.autograd.grad(value, parameters)

    def em(x):
        for parameter in parameters:
            parameter.grad = None
        return expectation_maximization(model, x.float(), max_steps=1)

    return Side(forward, step, em, forward, parameters)
