"""A layer of products: e[p] = sum_j n[rows_j[p]], and flows back to those rows.

Rows are a view of the buffer where they lie in one stretch, else an index; a factor that only the
first elements have covers only these.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rows:
    """``size`` rows of a buffer [R, B]: a ``view`` of it, or an ``index`` into it.

    ``write``: a backward pass may overwrite them.
    """

    size: int
    view: Tensor | None = None
    index: Tensor | None = None
    write: bool = False


def forward(n: Tensor, factors: Sequence[Rows], scratch: Tensor, out: Tensor) -> None:
    """``out`` [P, B] = the sum of the rows of ``n`` [R, B]; ``scratch`` is as large as ``out``."""
    first, *others = factors
    if first.view is None:
        assert first.index is not None
        torch.index_select(n, 0, first.index, out=out)
    elif not others:
        out.copy_(first.view)
    else:
        second = others.pop(0)
        addend = _rows(n, second, scratch)
        if second.size == first.size:
            torch.add(first.view, addend, out=out)
        else:
            torch.add(first.view[: second.size], addend, out=out[: second.size])
            out[second.size :].copy_(first.view[second.size :])
    for rows in others:
        out[: rows.size].add_(_rows(n, rows, scratch))


def _rows(n: Tensor, rows: Rows, scratch: Tensor) -> Tensor:
    if rows.view is not None:
        return rows.view
    assert rows.index is not None
    part = scratch[: rows.size]
    torch.index_select(n, 0, rows.index, out=part)
    return part


def backward(flows: Tensor, factors: Sequence[Rows], out: Tensor) -> None:
    """Adds flows [P, B] to the rows of ``out`` [R, B] that they came from, or overwrites these."""
    size = len(flows)
    for rows in factors:
        part = flows if rows.size == size else flows[: rows.size]
        if rows.view is None:
            assert rows.index is not None
            out.index_add_(0, rows.index, part)
        elif rows.write:
            rows.view.copy_(part)
        else:
            rows.view.add_(part)


def backward_log(flows: Tensor, factors: Sequence[Rows], out: Tensor) -> None:
    """The same in log space: logaddexp of log flows into ``out``, which starts at -inf."""
    for rows in factors:
        part = flows[: rows.size]
        if rows.view is not None:
            torch.logaddexp(rows.view, part, out=rows.view)
            continue
        assert rows.index is not None
        # Rows may be named several times: their largest flow is taken out first.
        index = rows.index.unsqueeze(1).expand_as(part)
        largest = torch.full_like(out, -torch.inf).scatter_reduce_(0, index, part, "amax")
        base = largest.clamp(min=torch.finfo(out.dtype).min)
        total = torch.zeros_like(out).index_add_(0, rows.index, (part - base[rows.index]).exp())
        torch.logaddexp(out, total.log() + base, out=out)
