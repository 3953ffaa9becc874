"""A circuit in one safetensors file: its graph as JSON in the header, its tensors beside it.

The graph is a list of nodes, children first; nodes that share parameters name their owner. The
version is that of this format, and is raised when a reader of the old one would misread a file.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rightfast.circuits.circuit import Circuit, compile
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

FORMAT, VERSION = "rightfast.circuit", 1


def save(circuit: Circuit, path: str | os.PathLike[str]) -> None:
    """Writes the circuit and its parameters, in their dtype.

    The file appears under its name when it is complete: whoever reads it finds the old one or the
    new one. Raises ImportError without safetensors (pip install safetensors).
    """
    from safetensors.torch import save as to_bytes

    nodes, tensors = _graph(circuit)
    tensors["parameters"] = circuit.parameters_flat.detach().cpu().contiguous()
    header = {"format": FORMAT, "version": str(VERSION), "nodes": json.dumps(nodes)}
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(to_bytes(tensors, header))
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def load(path: str | os.PathLike[str], *, device: torch.device | str = "cpu") -> Circuit:
    """The circuit that `save` wrote, bit for bit.

    Raises ValueError for another kind of file, or one of a later version.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            _check(header, path)
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is no safetensors file, or is damaged: {error}") from error
    parameters = tensors["parameters"]
    root = _rebuild(json.loads(header["nodes"]), tensors)
    circuit = compile(root, device=device, dtype=parameters.dtype)
    if circuit.parameters_flat.shape != parameters.shape:
        raise ValueError(
            f"{path} holds {len(parameters)} parameters, its graph needs "
            f"{len(circuit.parameters_flat)}: the file is damaged"
        )
    with torch.no_grad():
        circuit.parameters_flat.copy_(parameters)
    return circuit


def _check(header: dict[str, str], path: object) -> None:
    if header.get("format") != FORMAT:
        raise ValueError(f"{path} holds no circuit: it was not written by rightfast's save")
    if header.get("version") != str(VERSION):
        raise ValueError(
            f"{path} has version {header.get('version')} of the format, this reads {VERSION}: "
            "use the rightfast that wrote it, or a later one"
        )


def _graph(circuit: Circuit) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
    order = circuit.plan.order
    number = {id(node): i for i, node in enumerate(order)}
    # Owners that are not in the graph themselves: the first that shares theirs stands for them.
    owner: dict[int, int] = {}
    nodes: list[dict[str, Any]] = []
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


def _rebuild(nodes: list[dict[str, Any]], tensors: dict[str, Tensor]) -> CircuitNodes:
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
