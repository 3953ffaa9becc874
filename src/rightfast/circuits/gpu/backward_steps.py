"""The launches of a backward pass and of an M-step; see steps.py."""

from collections.abc import Callable

from rightfast_kernels.circuit.categorical_triton import (
    categorical_few_flows_kernel,
    categorical_flows_kernel,
)
from rightfast_kernels.circuit.element_flows_triton import element_flows_kernel
from rightfast_kernels.circuit.em_triton import em_kernel
from rightfast_kernels.circuit.parameter_flows_triton import parameter_flows_kernel
from rightfast_kernels.circuit.product_triton import product_flows_kernel
from rightfast_kernels.circuit.quotients_triton import quotients_kernel
from rightfast_kernels.circuit.row_flows_triton import root_flow_kernel, row_flows_kernel

from rightfast.circuits.gpu import tiles
from rightfast.circuits.gpu.steps import (
    Memory,
    Settings,
    Step,
    after_theta,
    combine,
    made,
    meta_of,
    numbers_of,
    products_step,
    sizes_of,
)
from rightfast.circuits.gpu.tables import Rows, Sums, Tables
from rightfast.circuits.plan import ONE, ZERO, Plan
from rightfast.runtime import cdiv

FEW = 32  # samples whose categories are few of all
FIRST_ROW = max(ONE, ZERO) + 1
PARTIAL = 16  # tiles of samples in one sum of float32
# Bfloat16 numbers that a flow is split into where it is counted: as exact as what it came from.
PARTS = {"ieee": 3, "tf32x3": 3, "bf16x3": 2, "tf32": 2, "bf16": 1}


def downwards(
    tables: Tables,
    memory: Memory,
    of_family: Callable[[Sums], list[Step]],
    of_rows: Callable[[Rows], list[Step]],
) -> list[Step]:
    """From the root's flow to all rows': families of sums, rows that several elements have, and
    shared products, each after all that it gets its flows from."""
    steps: list[Step] = []
    layers = zip(tables.layers, tables.products, tables.shared[1:], tables.shared_products)
    assert memory.flows is not None
    for layer, products, shared, own in reversed(list(layers)):
        steps += of_rows(shared)
        for family in reversed(layer):
            steps += of_family(family)
        steps += of_rows(own)
        steps += [
            products_step(product_flows_kernel, one, memory.flows, memory) for one in products
        ]
    return steps + of_rows(tables.shared[0])


def element_flows(plan: Plan, tables: Tables, memory: Memory, settings: Settings) -> list[Step]:
    """Called with (theta,)."""
    ends = (plan.num_input_rows, plan.num_rows)

    def of_family(family: Sums) -> list[Step]:
        layout = family.layout
        numbers = numbers_of(layout, memory, settings)
        tile = tiles.elements(
            layout.nodes, layout.children, family.groups, memory.batch, settings.precision
        )
        meta = {**meta_of(layout, settings, tile), "ROWS": family.alone}
        launch = made(element_flows_kernel, **meta)
        grid = (cdiv(layout.children, tile.children), family.groups, cdiv(memory.batch, tile.batch))
        rest = (memory.n, memory.sums, memory.scaled, memory.shift, memory.flows)
        bounds = (memory.quotients, memory.kept, memory.tables, family.record, *ends)
        return [*split_up(family, memory, settings), (launch, grid, (*rest, *bounds, *numbers))]

    def of_rows(rows: Rows) -> list[Step]:
        return row_flows(rows, memory, ends)

    return downwards(tables, memory, of_family, of_rows)


def split_up(family: Sums, memory: Memory, settings: Settings) -> list[Step]:
    """Hands flows and quotients of sums that come in parts to these."""
    return [] if family.parts is None else [combine(family, family.parts, memory, settings, True)]


def row_flows(rows: Rows, memory: Memory, sums: tuple[int, int]) -> list[Step]:
    """``sums``: the rows that get quotients, too."""
    if not rows.count:
        return []
    r, b = tile_of_rows(memory)
    launch = made(row_flows_kernel, BR=r, BB=b)
    rest = (memory.flows, memory.quotients, memory.sums, memory.kept, memory.tables)
    grid = (cdiv(rows.count, r), cdiv(memory.batch, b))
    return [(after_theta(launch), grid, (*rest, rows.at, rows.count, *sums, memory.batch))]


def tile_of_rows(memory: Memory) -> tuple[int, int]:
    """Rows and samples of a tile that only goes over memory."""
    b = tiles.power(memory.batch, 64)
    return max(1, 512 // b), b


def quotients(plan: Plan, tables: Tables, memory: Memory, settings: Settings) -> list[Step]:
    """Of all sums, from flows that are there; with `Memory.logs` these are made of it first."""
    log_space = memory.logs is not None
    r, b = tile_of_rows(memory)
    launch = made(quotients_kernel, LOG=log_space, BR=r, BB=b)
    first = FIRST_ROW if log_space else plan.num_input_rows
    grid = (cdiv(plan.num_rows - first, r), cdiv(memory.batch, b))
    buffers = (memory.logs, memory.flows, memory.quotients, memory.sums)
    rest = (*buffers, first, plan.num_input_rows, plan.num_rows, memory.batch)
    steps: list[Step] = [(after_theta(launch), grid, rest)]
    for layer in tables.layers:
        for family in layer:
            steps += split_up(family, memory, settings)
    return steps


def root_flow(plan: Plan, memory: Memory) -> Step:
    """Called with (n, weights)."""
    b = tiles.power(memory.batch, 256)
    launch = made(root_flow_kernel, BB=b)
    places = (plan.root_row, plan.root_row - plan.num_input_rows)
    rest = (memory.flows, memory.quotients, memory.sums, *places, memory.batch)
    return launch, (cdiv(memory.batch, b),), rest


def parameter_flows(
    tables: Tables, memory: Memory, settings: Settings, derivative: bool
) -> list[Step]:
    """Called with (theta, out)."""
    steps: list[Step] = []
    for owners in tables.owners:
        layout = owners.layout
        numbers = numbers_of(layout, memory, settings)
        tile = tiles.parameters(
            layout.nodes, layout.children, owners.count, memory.batch, settings.precision
        )
        meta = {**meta_of(layout, settings, tile), "DERIVATIVE": derivative}
        meta["PARTIAL"] = PARTIAL if settings.precision in ("ieee", "tf32x3") else 0
        meta["FLAT"] = memory.batch <= tile.batch
        launch = made(parameter_flows_kernel, **meta)
        grid = (cdiv(layout.children, tile.children), cdiv(layout.nodes, tile.nodes), owners.count)
        buffers = (memory.n, memory.values, memory.scaled, memory.shift, memory.flows)
        rest = (*buffers, memory.quotients, memory.tables, owners.at, *numbers)
        steps.append((launch, grid, rest))
    return steps


def input_flows(
    plan: Plan, tables: Tables, memory: Memory, settings: Settings, derivative: bool
) -> list[Step]:
    """Called with (theta, out, x, missing)."""
    steps: list[Step] = []
    parts = PARTS[settings.precision]
    for family in tables.inputs:
        sizes = sizes_of(plan, family, memory)
        few = memory.batch <= FEW and family.count == family.groups
        if few and not (derivative or settings.masked):
            k = tiles.power(family.nodes, 64)
            launch = made(
                categorical_few_flows_kernel, PARTS=parts, BK=k, BB=tiles.power(memory.batch, FEW)
            )
            tall = (cdiv(family.nodes, k), family.groups)
            rest = (memory.flows, memory.tables, family.record, *sizes)
            steps.append((after_theta(launch), tall, rest))
            continue
        tile = tiles.input_flows(family.nodes, family.categories, family.count, memory.batch)
        samples = cdiv(memory.batch, tile.batch) * family.groups // family.count
        launch = made(
            categorical_flows_kernel,
            MASK=settings.masked,
            EXPECTED=settings.masked and not settings.maximum,
            DERIVATIVE=derivative,
            PARTS=parts,
            PARTIAL=PARTIAL if samples > PARTIAL else 0,
            BK=tile.nodes,
            BC=tile.children,
            BB=tile.batch,
            num_warps=tile.warps,
            num_stages=tile.stages,
        )
        columns = cdiv(family.categories, tile.children)
        grid = (columns, cdiv(family.nodes, tile.nodes), family.count)
        rest = (memory.flows, memory.tables, family.owners, *sizes)
        steps.append((launch, grid, rest))
    return steps


def em(plan: Plan, keep_zero_params: bool) -> list[Step]:
    """Called with (theta, flows), and with (eta, kappa) at the end."""
    steps: list[Step] = []
    for simplex in plan.simplices:
        parts = (simplex.rows, simplex.offset, simplex.offset, simplex.children)
        steps.append(_em(*parts, keep_zero_params))
    for family in plan.inputs:
        categories = family.dist.num_parameters
        owners = family.groups if family.parameters.stride else 1
        size = family.nodes * categories
        strides = {family.parameters.stride, family.statistics.stride}
        count = 1 if strides <= {0, size} else owners
        for g in range(count):
            at = family.parameters.offset + g * family.parameters.stride
            counts = family.statistics.offset + g * family.statistics.stride
            rows = owners * family.nodes // count
            steps.append(_em(rows, at, counts, categories, keep_zero_params))
    return steps


def _em(rows: int, at: int, counts: int, size: int, keep: bool) -> Step:
    c = tiles.power(size, 1024)
    r = max(1, 1024 // c)
    launch = made(em_kernel, C=size, KEEP=keep, BR=r, BC=c)
    return launch, (cdiv(rows, r),), (at, counts, rows)
