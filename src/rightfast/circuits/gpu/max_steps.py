"""The launches of passes in which sums are maxima ("mpe"); see steps.py."""

from functools import lru_cache
from typing import Any

from rightfast_kernels.circuit.max_flows_triton import (
    max_combine_flows_kernel,
    max_element_flows_kernel,
    max_parameter_flows_kernel,
)
from rightfast_kernels.circuit.max_triton import max_combine_fwd_kernel, max_fwd_kernel
from rightfast_kernels.circuit.mode_triton import mode_flows_kernel, mode_fwd_kernel
from rightfast_kernels.circuit.product_triton import product_fwd_kernel
from torch import Tensor

from rightfast.circuits.gpu import backward_steps, steps, tiles
from rightfast.circuits.gpu.steps import Memory, Settings, Step, after_theta, made
from rightfast.circuits.gpu.tables import Rows, Sums, Tables
from rightfast.circuits.plan import Plan
from rightfast.runtime import cdiv

VOLUME = 4096  # of a tile of three dimensions: 32 numbers a thread
LEAST_TILE = 64
NO_SUMS = (0, 0)  # none gets a quotient


@lru_cache(maxsize=4096)
def tile(first: int, second: int, programs: int, lanes: int) -> tuple[int, int, int]:
    """What a program has of two axes, and lanes of the one that it goes over: smaller tiles where
    there would be fewer programs than run at once, with more lanes instead."""
    x, y = tiles.power(first, 16, 1), tiles.power(second, 32, 1)
    while x * y > LEAST_TILE and cdiv(first, x) * cdiv(second, y) * programs < tiles.SMS:
        x, y = (x // 2, y) if x >= y else (x, y // 2)
    return x, y, tiles.power(lanes, VOLUME // (x * y), 1)


def inputs(plan: Plan, tables: Tables, memory: Memory, settings: Settings) -> list[Step]:
    """Called with (theta, x, missing)."""
    found = steps.inputs(plan, tables, memory, settings)
    if not settings.masked:
        return found
    for family in tables.inputs:
        k, c = tiles.power(family.nodes, 16, 1), tiles.power(family.categories, 128)
        launch = made(mode_fwd_kernel, BK=k, BC=c, BB=tiles.power(memory.batch, 128))
        grid = (cdiv(family.nodes, k), family.groups)
        sizes = steps.sizes_of(plan, family, memory)
        rest = (memory.n, memory.tables, family.record, *sizes)
        found.append((_after_data(launch), grid, rest))
    return found


def input_flows(
    plan: Plan, tables: Tables, memory: Memory, settings: Settings, derivative: bool
) -> list[Step]:
    """Called with (theta, out, x, missing)."""
    found = backward_steps.input_flows(plan, tables, memory, settings, derivative)
    if not settings.masked:
        return found
    for family in tables.inputs:
        k, c = tiles.power(family.nodes, 16, 1), tiles.power(family.categories, 128)
        launch = made(
            mode_flows_kernel,
            DERIVATIVE=derivative,
            PARTIAL=backward_steps.PARTIAL,
            BK=k,
            BC=c,
            BB=tiles.power(memory.batch, 128),
        )
        grid = (cdiv(family.nodes, k), family.count)
        sizes = steps.sizes_of(plan, family, memory)
        rest = (memory.flows, memory.tables, family.owners, *sizes)
        found.append((_after_data(launch, 2), grid, rest))
    return found


def sums(plan: Plan, tables: Tables, memory: Memory) -> list[Step]:
    """Called with (theta,)."""
    found: list[Step] = []
    for layer, products in zip(tables.layers, tables.products):
        found += [
            steps.products_step(product_fwd_kernel, groups, memory.n, memory) for groups in products
        ]
        for family in layer:
            found.append(_maxima(family, memory))
            if family.parts is not None:
                found.append(_combine(plan, family, memory, False))
    return found


def _maxima(family: Sums, memory: Memory) -> Step:
    layout = family.layout
    n, b, c = tile(layout.nodes, memory.batch, family.groups, layout.children)
    launch = made(
        max_fwd_kernel,
        W=layout.block,
        FACTORS=layout.factors,
        ALIGN=layout.align,
        BN=n,
        BC=c,
        BB=b,
    )
    grid = (cdiv(layout.nodes, n), family.groups, cdiv(memory.batch, b))
    rest = (memory.n, memory.chosen, memory.tables, family.record, memory.batch)
    return launch, grid, (*rest, layout.nodes, layout.children, layout.step)


def _combine(plan: Plan, family: Sums, memory: Memory, back: bool) -> Step:
    parts, layout = family.parts, family.layout
    assert parts is not None
    n, b = tiles.power(layout.nodes, 16, 1), tiles.power(memory.batch, 32)
    kernel = max_combine_flows_kernel if back else max_combine_fwd_kernel
    buffers = (memory.chosen, memory.flows) if back else (memory.n, memory.chosen)
    launch = made(kernel, P=parts.count, BN=n, BB=b)
    grid = (cdiv(layout.nodes, n), parts.groups, cdiv(memory.batch, b))
    numbers = (plan.num_input_rows, memory.batch, layout.nodes, layout.children)
    return after_theta(launch), grid, (*buffers, memory.tables, parts.record, *numbers)


def element_flows(plan: Plan, tables: Tables, memory: Memory) -> list[Step]:
    """Called with (theta,)."""

    def of_family(family: Sums) -> list[Step]:
        layout = family.layout
        c, b, n = tile(layout.children, memory.batch, family.groups, layout.nodes)
        launch = made(
            max_element_flows_kernel,
            W=layout.block,
            FACTORS=layout.factors,
            ROWS=family.alone,
            BN=n,
            BC=c,
            BB=b,
        )
        grid = (cdiv(layout.children, c), family.groups, cdiv(memory.batch, b))
        buffers = (memory.chosen, memory.flows, memory.kept, memory.tables)
        rest = (*buffers, family.record, memory.batch, layout.nodes, layout.children)
        one: list[Step] = [(after_theta(launch), grid, rest)]
        return one if family.parts is None else [_combine(plan, family, memory, True), *one]

    def of_rows(rows: Rows) -> list[Step]:
        return backward_steps.row_flows(rows, memory, NO_SUMS)

    return backward_steps.downwards(tables, memory, of_family, of_rows)


def parameter_flows(tables: Tables, memory: Memory, derivative: bool) -> list[Step]:
    """Called with (theta, out)."""
    found: list[Step] = []
    for owners in tables.owners:
        layout = owners.layout
        c, n, b = tile(layout.children, layout.nodes, owners.count, memory.batch)
        launch = made(
            max_parameter_flows_kernel,
            ALIGN=layout.align,
            DERIVATIVE=derivative,
            PARTIAL=backward_steps.PARTIAL,
            BN=n,
            BC=c,
            BB=b,
        )
        grid = (cdiv(layout.children, c), cdiv(layout.nodes, n), owners.count)
        buffers = (memory.chosen, memory.flows, memory.tables, owners.at)
        sizes = (layout.nodes, layout.children, layout.step)
        found.append((launch, grid, (*buffers, memory.batch, *sizes)))
    return found


def _after_data(launch: Any, kept: int = 1) -> Any:
    """For a kernel that takes what is missing but no data, in a list of such that do; ``kept``
    tensors come before the data."""

    def run(grid: tuple[int, ...], *tensors: Tensor) -> None:
        launch(grid, *tensors[:kept], *tensors[kept + 1 :])

    return run
