"""What a forward pass by kernels leaves, for a backward pass or a walk from the root down."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rightfast.circuits.backward import Flows
from rightfast.circuits.gpu import backward_pass, other_inputs
from rightfast.circuits.gpu.data import Data
from rightfast.circuits.gpu.descent import Walk
from rightfast.circuits.gpu.steps import Settings
from rightfast.circuits.options import Pass
from rightfast.circuits.plan import Plan

if TYPE_CHECKING:
    from rightfast.circuits.gpu.passes import Engine, Workspace


@dataclass
class State:
    """What a forward pass leaves; its buffers are its own until it is dropped."""

    engine: "Engine"
    data: Data
    options: Pass
    settings: Settings
    parameters: Tensor
    version: int
    workspace: "Workspace"
    root: Tensor
    backward_passes: int = 0

    @property
    def plan(self) -> Plan:
        """Of the circuit."""
        return self.engine.plan

    @property
    def batch(self) -> int:
        """Samples."""
        return self.data.batch

    @property
    def n(self) -> Tensor:
        """Log-values of all rows, [rows, batch]; of the constant rows nothing."""
        return self.workspace.rows(self.batch, "n")

    def log_likelihood(self) -> Tensor:
        """The root's values: [batch]."""
        return self.root.detach()

    def flows(
        self,
        root_flow: Tensor,
        options: Pass,
        statistics: Tensor | None = None,
        derivative: bool = False,
    ) -> Flows:
        """A backward pass, as `backward.run` has it."""
        if not self.batch:
            rows = self.parameters.new_zeros(self.plan.num_rows, 0)
            return Flows(rows, torch.zeros_like(self.parameters) if derivative else None)
        self.backward_passes += 1
        log_space = options.log_space
        found = self.workspace.backward(
            backward_pass.Options(
                self.settings, statistics is not None, derivative, log_space, options.temperature
            ),
            fed={
                "x": self.data.x,
                "missing": self.data.missing,
                "weights": root_flow.contiguous(),  # one that autograd has expanded
            },
            bound={"theta": self.parameters, "out": statistics, "tables": self.engine.ints},
        )
        if statistics is not None:
            written(statistics)
        for one in self.engine.tables.others:
            memory = self.workspace.memory(self.batch, True)
            given = (self.plan, self.data, self.parameters, memory, self.settings)
            if statistics is not None:
                other_inputs.add_statistics(one, *given, statistics)
            if found is not None:
                other_inputs.write_gradient(one, *given, found)
        rows = self.workspace.rows(self.batch, "logs" if log_space else "flows")
        return Flows(rows, found, self, self.backward_passes)

    def walk(self, generator: torch.Generator | None) -> Tensor:
        """What is missing, drawn from the posterior, or without a generator decoded from the maxima
        of an "mpe" pass: [batch, variables]; -1 or NaN for an impossible sample."""
        descent = self.engine.descent()
        if not self.batch:
            return torch.empty_like(self.data.x, dtype=descent.dtype)
        walk = Walk(self.batch, True, self.data.missing is not None, generator is not None)
        return self.workspace.walk(walk, descent, self.parameters, self.data, generator)

    def __del__(self) -> None:
        self.engine.give_back(self.workspace)


def written(tensor: Tensor) -> None:
    """Tells autograd, which may have kept it for a backward pass to come."""
    if not tensor.is_inference():
        torch.autograd.graph.increment_version(tensor)
