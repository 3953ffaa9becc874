"""Flows of several processes into one: a single all-reduce of the flat flows."""

import torch
import torch.distributed as dist

from rightfast.circuits.circuit import Circuit


@torch.no_grad()
def reduce_flows(circuit: Circuit, group: dist.ProcessGroup | None = None) -> None:
    """Replaces `Circuit.flows` by their sum over all processes, before `em_step`.

    Every process must hold the same circuit and call this as often; then all take the same
    M-step. Raises RuntimeError unless torch.distributed is initialised.
    """
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError(
            "reduce_flows needs torch.distributed: call init_process_group first, or leave "
            "reduce_flows out in a single process"
        )
    dist.all_reduce(circuit.flows, group=group)
