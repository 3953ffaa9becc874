"""Expectation-maximisation: parameter flows become parameters.

    theta' = (1 - eta) theta + eta (F + kappa / |ch|) / (sum F + kappa)

kappa, the pseudocount, is spread over the edges of each sum node (with keep_zero_params over
those that are not 0); a node without flow keeps its parameters when kappa is 0.
"""

import math
from collections.abc import Iterable

import torch
from rightfast_kernels.circuit import reference_update as operator
from torch import Tensor

from rightfast.circuits.binding import chunks, input_slices
from rightfast.circuits.circuit import Circuit
from rightfast.circuits.forward import input_parameters
from rightfast.circuits.plan import InputFamily, Simplex

Batch = Tensor | tuple[Tensor, Tensor | None]


@torch.no_grad()
def em_step(
    circuit: Circuit,
    step_size: float = 1.0,
    pseudocount: float = 0.0,
    keep_zero_params: bool = True,
) -> None:
    """One M-step with the flows that `Circuit.backward` has added up; they stay as they are.

    ``step_size`` in (0, 1]: 1 forgets the old parameters. ``keep_zero_params``: parameters that
    are 0 stay so; otherwise the pseudocount revives them. Raises ValueError for other numbers.
    """
    if not (math.isfinite(step_size) and 0 < step_size <= 1):
        raise ValueError(f"step_size must lie in (0, 1], got {step_size}")
    if not (math.isfinite(pseudocount) and pseudocount >= 0):
        raise ValueError(f"pseudocount must be a finite number, not negative, got {pseudocount}")
    flat, flows = circuit.parameters_flat, circuit.flows
    options = (step_size, pseudocount, keep_zero_params)
    inputs = circuit.plan.inputs
    if (engine := circuit.engine()) is not None:
        engine.em(flat.detach(), flows, *options)
        inputs = tuple(one.family for one in engine.tables.others)
    else:
        for simplex in circuit.plan.simplices:
            _update_sums(flat, flows, simplex, *options)
    for family in inputs:
        _update_inputs(flat, flows, family, *options)


def _update_inputs(
    flat: Tensor,
    flows: Tensor,
    family: InputFamily,
    step_size: float,
    pseudocount: float,
    keep_zero_params: bool,
) -> None:
    dist, where = family.dist, family.statistics
    parts = input_slices(family, dist.num_parameters, flat.element_size(), flat.device)
    for groups in parts if where.stride else [slice(0, 1)]:
        own = input_parameters(family, flat, groups, dist.num_parameters)
        shape = (groups.stop - groups.start, family.nodes, dist.num_statistics)
        start = where.offset + groups.start * where.stride
        counts = flows.as_strided(shape, (where.stride, shape[2], 1), start)
        dist.update(own, counts, step_size, pseudocount, keep_zero_params)


def _update_sums(
    flat: Tensor,
    flows: Tensor,
    simplex: Simplex,
    step_size: float,
    pseudocount: float,
    keep_zero_params: bool,
) -> None:
    if simplex.segments is not None:
        part = slice(simplex.offset, simplex.offset + len(simplex.segments))
        row = torch.from_numpy(simplex.segments).to(flat.device)
        operator.segments(
            flat[part], flows[part], row, simplex.rows, step_size, pseudocount, keep_zero_params
        )
        return
    size = simplex.children
    for rows in chunks(simplex.rows, size * flat.element_size(), flat.device):
        part = slice(simplex.offset + rows.start * size, simplex.offset + rows.stop * size)
        theta, found = flat[part].view(-1, size), flows[part].view(-1, size)
        operator.rows(theta, found, step_size, pseudocount, keep_zero_params)


@torch.no_grad()
def mini_batch_em(
    circuit: Circuit,
    x: Tensor,
    *,
    step_size: float,
    pseudocount: float = 0.0,
    keep_zero_params: bool = True,
    missing_mask: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """One EM step on one batch, whose log-likelihoods [batch] are returned."""
    values: Tensor = circuit(x, missing_mask=missing_mask)
    circuit.zero_flows()
    circuit.backward(weights)
    em_step(circuit, step_size, pseudocount, keep_zero_params)
    return values


@torch.no_grad()
def full_batch_em(
    circuit: Circuit,
    batches: Iterable[Batch],
    *,
    pseudocount: float = 0.0,
    keep_zero_params: bool = True,
) -> float:
    """One EM step on all batches together: tensors, or (tensor, missing_mask or None) pairs.

    Returns the sum of the log-likelihoods under the parameters before the step. Without a
    pseudocount no step lowers it.
    """
    circuit.zero_flows()
    total, batch = 0.0, None
    for batch in batches:
        x, missing = batch if isinstance(batch, tuple) else (batch, None)
        total += float(circuit(x, missing_mask=missing).sum(dtype=torch.float64))
        circuit.backward()
    if batch is None:
        raise ValueError("full_batch_em got no batch: an iterator may be used up, give a list")
    em_step(circuit, 1.0, pseudocount, keep_zero_params)
    return total
