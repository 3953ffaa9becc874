"""The launches of a backward pass in log space, where `Memory.flows` are logs; see steps.py."""

from functools import lru_cache

from rightfast_kernels.circuit.log_flows_triton import (
    log_element_flows_kernel,
    log_root_flow_kernel,
    log_row_flows_kernel,
)

from rightfast.circuits.gpu import tiles
from rightfast.circuits.gpu.backward_steps import downwards, split_up, tile_of_rows
from rightfast.circuits.gpu.steps import Memory, Settings, Step, after_theta, made, numbers_of
from rightfast.circuits.gpu.tables import Rows, Sums, Tables
from rightfast.circuits.plan import Plan
from rightfast.runtime import cdiv


@lru_cache(maxsize=4096)
def tile_of(nodes: int, children: int, groups: int, batch: int, precision: str) -> tiles.Tile:
    """Smaller ones than those of linear flows, so that no register spills: logarithms take more."""
    c, b = tiles.power(children, 64), tiles.power(batch, 32)
    while c > 16 and cdiv(children, c) * cdiv(batch, b) * groups < tiles.SMS:
        c //= 2
    n = tiles.power(nodes, 16 if precision == "ieee" else 32)
    return tiles.Tile(n, c, b, 8 if c * b >= 1024 else 4, 2)


def root_flow(plan: Plan, memory: Memory) -> Step:
    """Called with (n, weights)."""
    b = tiles.power(memory.batch, 256)
    launch = made(log_root_flow_kernel, BB=b)
    return launch, (cdiv(memory.batch, b),), (memory.flows, plan.root_row, memory.batch)


def element_flows(tables: Tables, memory: Memory, settings: Settings) -> list[Step]:
    """Called with (theta,). Quotients of sums in parts mean nothing after it."""

    def of_family(family: Sums) -> list[Step]:
        layout = family.layout
        tile = tile_of(
            layout.nodes, layout.children, family.groups, memory.batch, settings.precision
        )
        launch = made(
            log_element_flows_kernel,
            W=layout.block,
            FACTORS=layout.factors,
            ALIGN=layout.align,
            POWER=settings.power,
            PRECISION=settings.precision,
            ROWS=family.alone,
            BN=tile.nodes,
            BC=tile.children,
            BB=tile.batch,
            num_warps=tile.warps,
            num_stages=tile.stages,
        )
        grid = (cdiv(layout.children, tile.children), family.groups, cdiv(memory.batch, tile.batch))
        buffers = (memory.n, memory.flows, memory.kept, memory.tables, family.record)
        numbers = numbers_of(layout, memory, settings)
        return [*split_up(family, memory, settings), (launch, grid, (*buffers, *numbers))]

    def of_rows(rows: Rows) -> list[Step]:
        if not rows.count:
            return []
        r, b = tile_of_rows(memory)
        launch = made(log_row_flows_kernel, BR=r, BB=b)
        grid = (cdiv(rows.count, r), cdiv(memory.batch, b))
        rest = (memory.flows, memory.kept, memory.tables, rows.at, rows.count, memory.batch)
        return [(after_theta(launch), grid, rest)]

    return downwards(tables, memory, of_family, of_rows)
