"""From the root down by kernels: samples, and what the maxima of an "mpe" pass come from.

A `Descent` numbers the slots: groups of sums, groups of shared products, inputs. See
rightfast_kernels.circuit.topdown_triton.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rightfast_kernels.circuit.sampling_triton import categorical_sample_kernel
from rightfast_kernels.circuit.topdown_triton import hand_on_kernel, select_kernel
from torch import Tensor

from rightfast.circuits.gpu import tiles
from rightfast.circuits.gpu.other_inputs import parameters, table_of, variables_of
from rightfast.circuits.gpu.steps import Step, made
from rightfast.circuits.gpu.tables import Groups, Inputs, Others, Sums, Tables
from rightfast.circuits.plan import Plan
from rightfast.runtime import cdiv


@dataclass(frozen=True)
class Walk:
    """Options: how many samples; whether there is evidence (else everything is missing), and a
    mask; whether children are drawn, or those of the maxima."""

    batch: int
    given: bool
    masked: bool
    draw: bool


class Descent:
    """The slots of a plan, and the launches over them."""

    def __init__(self, plan: Plan, tables: Tables, device: torch.device) -> None:
        self.plan, self.tables = plan, tables
        self.slots = 0
        self._at: dict[int, int] = {}  # the first slot of a family, by the place of its record
        self._places = np.zeros((tables.rows, 2), dtype=np.int32)
        for layer, products in zip(tables.layers, tables.products):
            for sums in layer:
                self._number(sums.record, self._rows(sums), sums.layout.nodes)
            for one in products:
                rows = tables.ints[one.record :: 8][: one.count]
                self._number(one.record, rows, one.size)
        for inputs in tables.inputs:
            rows = tables.ints[inputs.record :: 4][: inputs.groups]
            self._number(inputs.record, rows, inputs.nodes)
        for other in tables.others:
            family = other.family
            firsts = family.start + family.nodes * np.arange(family.groups)
            self._number(other.variables, firsts, family.nodes)
        present = torch.zeros(plan.num_variables, dtype=torch.bool)
        for family in plan.inputs:
            present[torch.from_numpy(family.variables)] = True
        with torch.inference_mode(False):
            self.places = torch.from_numpy(self._places).to(device)
            self.present = present.to(device)
        discrete = all(family.dist.num_categories is not None for family in plan.inputs)
        self.dtype = torch.int64 if discrete else torch.float64
        self.nothing = -1 if discrete else torch.nan
        """What an impossible sample has for values."""

    def _rows(self, sums: Sums) -> NDArray[np.int32]:
        """The first row of each group."""
        if sums.parts is not None:
            return self.tables.ints[sums.parts.record :: 4][: sums.parts.groups]
        return self.tables.ints[sums.record :: 8][: sums.groups]

    def _number(self, record: int, rows: NDArray[np.integer[Any]], nodes: int) -> None:
        self._at[record] = self.slots
        inside = rows[:, None] + np.arange(nodes)
        self._places[inside, 0] = self.slots + np.arange(len(rows))[:, None]
        self._places[inside, 1] = 1 + np.arange(nodes)
        self.slots += len(rows)

    def start(
        self, walk: Walk, n: Tensor | None, selected: Tensor, x: Tensor | None,
        missing: Tensor | None, present: Tensor,
    ) -> Tensor:  # fmt: skip
        """Only the root is visited, where it is possible; the values [batch, variables] so far."""
        selected.zero_()
        root = selected[int(self._places[self.plan.root_row, 0])]
        shape = (walk.batch, self.plan.num_variables)
        out = torch.full(shape, self.nothing, dtype=self.dtype, device=selected.device)
        if n is None or x is None:
            root.fill_(1)
            return out
        # False for NaN, which data that is none has.
        possible = n[self.plan.root_row] > -torch.inf
        root.copy_(possible)
        known = possible.unsqueeze(1) & present
        if missing is not None:
            known = known & ~missing
        return torch.where(known, x.to(self.dtype), out)

    def sums(self, walk: Walk) -> list[Step]:
        """Called with (theta, n, selected, seed, tables, places)."""
        steps: list[Step] = []
        for layer, products in zip(reversed(self.tables.layers), reversed(self.tables.products)):
            steps += [self._select(sums, walk) for sums in reversed(layer)]
            steps += [self._hand_on(one, walk) for one in products]
        return steps

    def inputs(self, walk: Walk) -> list[Step]:
        """Called with (theta, selected, missing, seed, out, tables)."""
        return [self._table(one, self._at[one.record], walk) for one in self.tables.inputs]

    def _select(self, sums: Sums, walk: Walk) -> Step:
        layout = sums.layout
        c, b = tiles.walk(layout.children, walk.batch)
        launch = made(
            select_kernel,
            W=layout.block,
            FACTORS=layout.factors,
            GIVEN=walk.given,
            DRAW=walk.draw,
            P=1 if sums.parts is None else sums.parts.count,
            BC=c,
            BB=b,
        )
        groups = sums.groups if sums.parts is None else sums.parts.groups
        numbers = (walk.batch, layout.children, layout.step)
        grid = (groups, cdiv(walk.batch, b))
        return launch, grid, (sums.record, self._at[sums.record], *numbers)

    def _hand_on(self, groups: Groups, walk: Walk) -> Step:
        b = tiles.power(walk.batch, 128)
        launch = made(hand_on_kernel, W=groups.block, BB=b)

        def run(
            grid: tuple[int, ...], theta: Tensor, n: Tensor, selected: Tensor, seed: Tensor,
            tables: Tensor, places: Tensor, *rest: int,
        ) -> None:  # fmt: skip
            launch(grid, selected, tables, places, *rest)

        numbers = (groups.record, self._at[groups.record], walk.batch, groups.size)
        return run, (groups.count, cdiv(walk.batch, b)), numbers

    def _table(self, inputs: Inputs, slot: int, walk: Walk) -> Step:
        c, b = tiles.walk(inputs.categories, walk.batch)
        launch = made(categorical_sample_kernel, MASK=walk.masked, DRAW=walk.draw, BC=c, BB=b)
        numbers = (walk.batch, self.plan.num_variables, inputs.categories)
        return launch, (inputs.groups, cdiv(walk.batch, b)), (inputs.record, slot, *numbers)

    def other(
        self, one: Others, walk: Walk, theta: Tensor, selected: Tensor, missing: Tensor | None,
        seed: Tensor, generator: torch.Generator | None, out: Tensor, tables: Tensor,
    ) -> None:  # fmt: skip
        """The values of a family of inputs that are not categorical."""
        slot = self._at[one.variables]
        if one.table is not None:
            launch, grid, rest = self._table(one.table, slot, walk)
            launch(grid, table_of(one.family, theta), selected, missing, seed, out, tables, *rest)
            return
        place = selected[slot : slot + one.family.groups]
        own = parameters(one.family, theta)
        node = (place.long() - 1).clamp_(min=0).unsqueeze(-1)
        own = own.gather(1, node.expand(*place.shape, own.shape[2]))
        dist = one.family.dist
        if generator is None:
            values = dist.mode(own)
        else:
            values = dist.sample(own.flatten(0, 1), generator).view(place.shape)
        variables = variables_of(one, tables)
        visited = place > 0
        if missing is not None:
            visited &= missing.index_select(1, variables).t()
        # Of the inputs of a variable a sample visits one, so that all others add 0.
        shape = (len(self.present), walk.batch)
        found = out.new_zeros(shape).index_add_(
            0, variables, torch.where(visited, values, 0).to(out.dtype)
        )
        drawn = out.new_zeros(shape).index_add_(0, variables, visited.to(out.dtype))
        torch.where(drawn.t() > 0, found.t(), out, out=out)
