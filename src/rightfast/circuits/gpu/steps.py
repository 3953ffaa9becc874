"""Passes as lists of launches, worked out once for a batch size: grids, tiles and numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rightfast_kernels.circuit.categorical_triton import (
    categorical_fwd_kernel,
)
from rightfast_kernels.circuit.combine_triton import combine_flows_kernel, combine_fwd_kernel
from rightfast_kernels.circuit.elements_triton import elements_fwd_kernel
from rightfast_kernels.circuit.product_triton import product_fwd_kernel
from rightfast_kernels.circuit.sum_triton import sum_fwd_kernel
from torch import Tensor

from rightfast.circuits.gpu import tiles
from rightfast.circuits.gpu.tables import Groups, Inputs, Layout, Parts, Sums, Tables
from rightfast.circuits.plan import Plan
from rightfast.runtime import cdiv, launchable

# A launch, its grid, and its arguments after those that are other tensors at every pass.
Step = tuple[Callable[..., Any], tuple[int, ...], tuple[Any, ...]]


@lru_cache(maxsize=4096)
def launch_of(kernel: Any, meta: tuple[tuple[str, Any], ...]) -> Any:
    """Made once for each set of meta-parameters."""
    return launchable(kernel, **dict(meta))


def made(kernel: Any, **meta: Any) -> Any:
    """A launch with these meta-parameters."""
    return launch_of(kernel, tuple(sorted(meta.items())))


@dataclass(frozen=True)
class Settings:
    """What kernels are compiled for besides shapes. ``maximum``: sums are maxima."""

    precision: str = "ieee"
    alpha: float = 1.0
    masked: bool = False
    maximum: bool = False

    @property
    def power(self) -> bool:
        """Whether theta and E are raised to a power."""
        return self.alpha != 1


@dataclass(frozen=True)
class Memory:
    """The buffers of a pass, [rows, batch]; flows, quotients and kept for a backward pass only.

    ``values`` are those of sums: n itself, but for sums of a temperature. ``chosen``: the children
    that maxima came from. ``logs``: flows in log space.
    """

    batch: int
    n: Tensor
    values: Tensor
    sums: Tensor
    scaled: Tensor
    shift: Tensor
    tables: Tensor
    flows: Tensor | None = None
    quotients: Tensor | None = None
    kept: Tensor | None = None
    chosen: Tensor | None = None
    logs: Tensor | None = None


def meta_of(layout: Layout, settings: Settings, tile: tiles.Tile) -> dict[str, Any]:
    return {
        "W": layout.block,
        "FACTORS": layout.factors,
        "ALIGN": layout.align,
        "POWER": settings.power,
        "PRECISION": settings.precision,
        "KEPT": layout.kept,
        "BN": tile.nodes,
        "BC": tile.children,
        "BB": tile.batch,
        "num_warps": tile.warps,
        "num_stages": tile.stages,
    }


def numbers_of(layout: Layout, memory: Memory, settings: Settings) -> tuple[Any, ...]:
    return memory.batch, settings.alpha, layout.nodes, layout.children, layout.step


def inputs(plan: Plan, tables: Tables, memory: Memory, settings: Settings) -> list[Step]:
    """Called with (theta, x, missing)."""
    steps: list[Step] = []
    for family in tables.inputs:
        tile = tiles.inputs(family.nodes, memory.batch)
        launch = made(
            categorical_fwd_kernel,
            MASK=settings.masked,
            BK=tile.nodes,
            BB=tile.batch,
            num_warps=tile.warps,
        )
        grid = (cdiv(family.nodes, tile.nodes), family.groups, cdiv(memory.batch, tile.batch))
        rest = (memory.n, memory.tables, family.record, *sizes_of(plan, family, memory))
        steps.append((launch, grid, rest))
    return steps


def sizes_of(plan: Plan, family: Inputs, memory: Memory) -> tuple[int, ...]:
    return memory.batch, plan.num_variables, family.nodes, family.categories


def sums(tables: Tables, memory: Memory, settings: Settings) -> list[Step]:
    """Called with (theta,)."""
    steps: list[Step] = []
    for layer, products in zip(tables.layers, tables.products):
        steps += [
            products_step(product_fwd_kernel, groups, memory.n, memory) for groups in products
        ]
        for family in layer:
            steps.append(_elements(family, memory, settings))
            steps.append(_sums(family, memory, settings))
            if family.parts is not None:
                steps.append(combine(family, family.parts, memory, settings, False))
    return steps


def tempered(tables: Tables, memory: Memory, settings: Settings) -> list[Step]:
    """Sums for a temperature, settings.alpha = 1/T, of all layers; no sum is made of them. Called
    with (theta,)."""
    steps: list[Step] = []
    for layer in tables.layers:
        for family in layer:
            if family.layout.kept:
                steps.append(_elements(family, memory, settings))
            steps.append(_sums(family, memory, settings))
            if family.parts is not None:
                steps.append(combine(family, family.parts, memory, settings, False))
    return steps


def _elements(family: Sums, memory: Memory, settings: Settings) -> Step:
    layout = family.layout
    c, b, warps = tiles.scaled(layout.children, family.groups, memory.batch)
    launch = made(
        elements_fwd_kernel,
        W=layout.block,
        FACTORS=layout.factors,
        POWER=settings.power,
        KEPT=layout.kept,
        WHOLE=c >= layout.children,
        BC=c,
        BB=b,
        num_warps=warps,
    )
    rest = (memory.n, memory.scaled, memory.shift, memory.tables, family.record, memory.batch)
    grid = (family.groups, cdiv(memory.batch, b))
    return after_theta(launch), grid, (*rest, settings.alpha, layout.children)


def _sums(family: Sums, memory: Memory, settings: Settings) -> Step:
    layout = family.layout
    tile = tiles.sums(
        layout.nodes, layout.children, family.groups, memory.batch, settings.precision
    )
    launch = made(sum_fwd_kernel, **meta_of(layout, settings, tile))
    grid = (cdiv(layout.nodes, tile.nodes), family.groups, cdiv(memory.batch, tile.batch))
    buffers = (memory.n, memory.values, memory.sums, memory.scaled, memory.shift, memory.tables)
    return launch, grid, (*buffers, family.record, *numbers_of(layout, memory, settings))


def combine(family: Sums, parts: Parts, memory: Memory, settings: Settings, back: bool) -> Step:
    nodes, b = tiles.power(family.layout.nodes, 16, 1), tiles.power(memory.batch, 32)
    launch = made(
        combine_flows_kernel if back else combine_fwd_kernel, P=parts.count, BN=nodes, BB=b
    )
    grid = (cdiv(family.layout.nodes, nodes), parts.groups, cdiv(memory.batch, b))
    below = (memory.flows, memory.quotients) if back else ()
    buffers = (memory.values, memory.sums, memory.shift, *below)
    numbers = (parts.record, memory.batch, settings.alpha, family.layout.nodes)
    return after_theta(launch), grid, (*buffers, memory.tables, *numbers)


def products_step(kernel: Any, groups: Groups, buffer: Tensor, memory: Memory) -> Step:
    c, b = tiles.power(groups.size, 32, 1), tiles.power(memory.batch, 32)
    launch = after_theta(made(kernel, W=groups.block, BC=c, BB=b))
    grid = (cdiv(groups.size, c), groups.count, cdiv(memory.batch, b))
    return launch, grid, (buffer, memory.tables, groups.record, memory.batch, groups.size)


def after_theta(launch: Any) -> Any:
    """For a kernel that takes no parameters, in a list of such that do."""

    def run(grid: tuple[int, ...], theta: Tensor, *rest: Any) -> None:
        launch(grid, *rest)

    return run
