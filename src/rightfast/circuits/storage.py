"""A circuit in one safetensors file: its graph as JSON in the header, its tensors beside it.

The graph is a list of nodes (description.py). The version is that of this format, and is raised
when a reader of the old one would misread a file.
"""

import json
import os
import tempfile
from pathlib import Path

import torch

from rightfast.circuits.circuit import Circuit, compile
from rightfast.circuits.description import describe, rebuild

FORMAT, VERSION = "rightfast.circuit", 1


def save(circuit: Circuit, path: str | os.PathLike[str]) -> None:
    """Writes the circuit and its parameters, in their dtype.

    The file appears under its name when it is complete: whoever reads it finds the old one or the
    new one. Raises ImportError without safetensors (pip install safetensors).
    """
    from safetensors.torch import save as to_bytes

    nodes, tensors = describe(circuit.plan.order)
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
    try:
        parameters = tensors["parameters"]
        root = rebuild(json.loads(header["nodes"]), tensors)
        circuit = compile(root, device=device, dtype=parameters.dtype)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} is damaged, its graph can't be built: {error!r}") from error
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
