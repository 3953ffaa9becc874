"""A node graph as plain data, for files and to tell structures from each other.

A list of nodes, children first; nodes that share parameters name their owner. Edges are tensors.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rightfast.circuits.leaves import BY_NAME
from rightfast.circuits.nodes import (
    CircuitNodes,
    InputNodes,
    ProductNodes,
    SumNodes,
    inputs,
    multiply,
    summate,
)

Description = list[dict[str, Any]]


def describe(order: Sequence[CircuitNodes]) -> tuple[Description, dict[str, Tensor]]:
    """Of all nodes, children first; and the tensors that belong to it."""
    number = {id(node): i for i, node in enumerate(order)}
    # Owners that are not in the graph themselves: the first that shares theirs stands for them.
    owner: dict[int, int] = {}
    nodes: Description = []
    tensors: dict[str, Tensor] = {}
    for i, node in enumerate(order):
        found: dict[str, Any] = {"children": [number[id(child)] for child in node.children]}
        if isinstance(node, InputNodes):
            kind = type(node.dist).__name__
            found |= {"kind": "input", "var": node.var, "size": node.num_nodes}
            found |= {"dist": kind, "options": dict(vars(node.dist))}
        elif isinstance(node, SumNodes):
            found |= {"kind": "sum", "size": node.num_nodes}
        else:
            found |= {"kind": "product"}
        if isinstance(node, (InputNodes, SumNodes)):
            found["owner"] = owner.setdefault(id(node.source), i)
        if isinstance(node, (ProductNodes, SumNodes)) and node.edges is not None:
            tensors[f"edges.{i}"] = node.edges.clone()  # may be those of other nodes too
            found["edges"] = True
        nodes.append(found)
    return nodes, tensors


def rebuild(nodes: Description, tensors: Mapping[str, Tensor]) -> CircuitNodes:
    """The root of the graph that was described."""
    built: list[CircuitNodes] = []
    for i, found in enumerate(nodes):
        children = [built[j] for j in found["children"]]
        edges = tensors[f"edges.{i}"] if found.get("edges") else None
        node: CircuitNodes
        if found["kind"] == "input":
            dist = BY_NAME[found["dist"]](**found["options"])
            node = inputs(found["var"], found["size"], dist)
        elif found["kind"] == "sum":
            node = summate(*children, num_nodes=found["size"], edges=edges)
        else:
            node = multiply(*children, edges=edges)
        if isinstance(node, (InputNodes, SumNodes)) and found["owner"] != i:
            tied = built[found["owner"]]
            assert isinstance(tied, (InputNodes, SumNodes))
            node.source = tied.source
        built.append(node)
    return built[-1]


def fingerprint(order: Sequence[CircuitNodes]) -> Tensor:
    """32 bytes, uint8: equal for graphs whose parameters mean the same."""
    nodes, tensors = describe(order)
    found = hashlib.sha256(json.dumps(nodes).encode())
    for key in sorted(tensors):
        found.update(tensors[key].numpy().tobytes())
    return torch.tensor(list(found.digest()), dtype=torch.uint8)
