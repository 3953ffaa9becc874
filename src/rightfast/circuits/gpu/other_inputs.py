"""Inputs that are not categorical: torch computes their values and statistics, from the rows of the
kernels and to these, outside of what is recorded.

Where the statistics are the flows of categories, kernels count them, since torch would do so by
atomic additions.
"""

import torch
from torch import Tensor

from rightfast.circuits.forward import input_parameters
from rightfast.circuits.gpu import backward_steps
from rightfast.circuits.gpu.data import Data
from rightfast.circuits.gpu.steps import Memory, Settings
from rightfast.circuits.gpu.tables import Others
from rightfast.circuits.leaves.base import fold_shared
from rightfast.circuits.plan import InputFamily, Plan


def write(one: Others, data: Data, theta: Tensor, memory: Memory, maximum: bool) -> None:
    """Log-values of a family, to its rows: NaN for what is no value; for what is missing 0, or the
    leaf's maximum where sums are maxima."""
    family = one.family
    values, missing, wrong = _read(one, data, memory)
    out, own = _rows(memory.n, family), parameters(family, theta)
    family.dist.log_prob(own, values, out)
    out.masked_fill_(wrong.unsqueeze(1), torch.nan)
    if missing is not None:
        gone = missing.unsqueeze(1)
        if maximum:
            torch.where(gone, family.dist.log_mode(own).unsqueeze(-1), out, out=out)
        else:
            out.masked_fill_(gone, 0.0)


def add_statistics(
    one: Others, plan: Plan, data: Data, theta: Tensor, memory: Memory, settings: Settings,
    out: Tensor,
) -> None:  # fmt: skip
    """Adds a family's statistics to ``out``, which is flat."""
    where, shape = one.family.statistics, _owners(one.family, one.family.dist.num_statistics)
    part = out.as_strided(shape, (where.stride, shape[2], 1), out.storage_offset() + where.offset)
    part += _statistics(one, plan, data, theta, memory, settings)


def write_gradient(
    one: Others, plan: Plan, data: Data, theta: Tensor, memory: Memory, settings: Settings,
    out: Tensor,
) -> None:  # fmt: skip
    """Writes the derivative by a family's parameters to its part of ``out``, which is flat."""
    family = one.family
    statistics = _statistics(one, plan, data, theta, memory, settings)
    groups = len(statistics)
    part = input_parameters(family, out, slice(0, groups), family.dist.num_parameters)
    family.dist.gradient(parameters(family, theta)[:groups], statistics, part)


def parameters(family: InputFamily, theta: Tensor) -> Tensor:
    """Those of all groups: [G, K, P]."""
    return input_parameters(family, theta, slice(0, family.groups), family.dist.num_parameters)


def variables_of(one: Others, tables: Tensor) -> Tensor:
    """[G], on the device."""
    return tables[one.variables : one.variables + one.family.groups]


def table_of(family: InputFamily, theta: Tensor) -> Tensor:
    """Probabilities of the categories [G or 1, K, C], as the kernels find them."""
    own = parameters(family, theta)
    return family.dist.probabilities(own if family.parameters.stride else own[:1]).contiguous()


def _statistics(
    one: Others, plan: Plan, data: Data, theta: Tensor, memory: Memory, settings: Settings
) -> Tensor:
    """Of this pass: [G or 1, K, S]."""
    family = one.family
    assert memory.flows is not None
    counts = theta.new_zeros(_owners(family, family.dist.num_statistics))
    flows, own = _rows(memory.flows, family), parameters(family, theta)
    if one.table is not None and family.dist.counts_categories:
        table = table_of(family, theta) if settings.masked else counts
        launch, grid, rest = backward_steps.table_flows(plan, one.table, memory, settings, False)
        launch(grid, table, counts, data.x, data.missing, *rest)
        if settings.masked and settings.maximum:
            _, missing, _ = _read(one, data, memory)
            assert missing is not None
            _add_missing(family, own, flows, missing, counts, True)
        return counts
    values, missing, _ = _read(one, data, memory)
    if missing is not None:
        _add_missing(family, own, flows, missing, counts, settings.maximum)
        flows = flows.masked_fill(missing.unsqueeze(1), 0.0)
    family.dist.accumulate(own, values, flows, counts)
    return counts


def _add_missing(
    family: InputFamily, own: Tensor, flows: Tensor, missing: Tensor, counts: Tensor, maximum: bool
) -> None:
    """A missing value counts as its expectation, or as its most likely value."""
    dist = family.dist
    share = dist.statistics_of_mode(own).to(flows.dtype) if maximum else dist.expected(own)
    found = (flows * missing.unsqueeze(1)).sum(-1, keepdim=True) * share
    counts += found.sum(0, keepdim=True) if fold_shared(flows, counts) else found


def _owners(family: InputFamily, size: int) -> tuple[int, int, int]:
    return family.groups if family.parameters.stride else 1, family.nodes, size


def _rows(buffer: Tensor, family: InputFamily) -> Tensor:
    rows = buffer[family.start : family.start + family.groups * family.nodes]
    return rows.view(family.groups, family.nodes, -1)


def _read(one: Others, data: Data, memory: Memory) -> tuple[Tensor, Tensor | None, Tensor]:
    """(values [G, B], what is missing, what is no value of the variable, which became 0)."""
    dist, variables = one.family.dist, variables_of(one, memory.tables)
    x = data.x.index_select(1, variables).t()
    if dist.num_categories is None:
        values = x.to(memory.n.dtype)
        wrong = ~values.isfinite()
    else:
        values = x.to(torch.int64)
        wrong = (values != x) | (values < 0) | (values >= dist.num_categories)
    missing = data.missing
    if missing is not None:
        missing = missing.index_select(1, variables).t()
    return values.masked_fill(wrong, 0), missing, wrong
