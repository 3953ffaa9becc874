"""Two outputs of the same inputs, element by element: bits, ulp distances, errors to float64.

The distance of two floats in ulps is how many floats of that type lie between them, counted by
mapping the bit patterns to integers in the floats' own order (Dawson 2012, "Comparing floating
point numbers"); +0 and -0 are 0 apart. torch is imported inside the functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Upper ends of the histogram's classes; the last is without end.
EDGES = (0, 1, 2, 4, 16, 256, 65536)

# What rounding an exact answer to float32 costs already; below it no ratio means anything.
ERROR_FLOOR = 3e-8


@dataclass(frozen=True)
class Comparison:
    """Of two trees of outputs, leaf by leaf.

    `identical`: every leaf bit for bit. `histogram`: upper edge in ulps (None: above the last) ->
    elements; `mismatched` counts elements that no distance describes: NaN or an infinity on one
    side alone, unequal integers or bools. `largest` in ulps. `structure`: what differs in tree,
    shape, dtype or device, empty where nothing does. `worst`: path and flat index of the largest.
    """

    identical: bool
    elements: int = 0
    mismatched: int = 0
    largest: int = 0
    histogram: Mapping[int | None, int] = field(default_factory=dict)
    structure: str = ""
    worst: str = ""

    @property
    def summary(self) -> str:
        if self.structure:
            return self.structure
        if self.identical:
            return "identical bits"
        parts = [f"<= {edge} ulp: {n}" if edge is not None else f"more: {n}"
                 for edge, n in self.histogram.items() if n]  # fmt: skip
        if self.mismatched:
            parts.append(f"mismatched: {self.mismatched}")
        return f"{', '.join(parts)}; largest {self.largest} ulp at {self.worst or 'no element'}"


def compare(base: Any, head: Any) -> Comparison:
    """Compare two outputs: tensors, numpy arrays, numbers, and tuples, lists or dicts of them."""
    parts = []
    for path, left, right in _leaves("output", base, head):
        found = f"{path}: {right}" if left is None else _leaf(path, left, right)
        if isinstance(found, str):
            return Comparison(identical=False, structure=found)
        parts.append(found)
    return _merged(parts)


def beyond_own_spread(found: Comparison, own: Sequence[Comparison]) -> bool:
    """Whether head differs from base by more than base differs from itself, run to run.

    `own`: base's runs against one another on the same inputs. A base that repeats bit for bit has
    no spread, and then any difference is beyond it.
    """
    if found.structure or any(run.structure for run in own):
        return bool(found.structure)
    if found.identical:
        return False
    if found.mismatched > max((run.mismatched for run in own), default=0):
        return True
    return found.largest > max((run.largest for run in own), default=0)


def _leaves(path: str, base: Any, head: Any) -> Iterable[tuple[str, Any, Any]]:
    """Pairs of leaves; a pair whose first is None carries the difference in structure."""
    if isinstance(base, (tuple, list)) and isinstance(head, (tuple, list)):
        if len(base) != len(head):
            yield path, None, f"{len(base)} items on base, {len(head)} on head"
            return
        for i, (left, right) in enumerate(zip(base, head, strict=True)):
            yield from _leaves(f"{path}[{i}]", left, right)
    elif isinstance(base, dict) and isinstance(head, dict):
        if set(base) != set(head):
            yield path, None, f"keys {sorted(map(str, set(base) ^ set(head)))} on one side only"
            return
        for name in base:
            yield from _leaves(f"{path}[{name!r}]", base[name], head[name])
    elif base is None or head is None:
        if base is not head:
            yield path, None, "None on one side only"
    else:
        yield path, base, head


def _leaf(path: str, base: Any, head: Any) -> Comparison | str:
    import torch

    try:
        with torch.device("cpu"):  # of numbers; a tensor stays where it is
            left, right = (_dense(torch.as_tensor(x)) for x in (base, head))
    except (TypeError, ValueError, RuntimeError):
        same = type(base) is type(head) and bool(base == head)
        return _exact(path, 1, [] if same else [0])
    if left.dtype != right.dtype or left.shape != right.shape:
        kinds = [f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in (left, right)]
        return f"{path}: {kinds[0]} on base, {kinds[1]} on head"
    if left.is_complex():
        left, right = torch.view_as_real(left), torch.view_as_real(right)
    if left.dtype not in _integers():
        return _exact(path, left.numel(), _unequal(left, right))
    return _floats(path, left, right)


def _dense(x: torch.Tensor) -> torch.Tensor:
    import torch

    x = x.detach().cpu()
    return (x if x.layout is torch.strided else x.to_dense()).contiguous()


def _integers() -> dict[torch.dtype, torch.dtype]:
    """Floating type -> integer type of its width, for the types whose ulps are counted."""
    import torch

    return {
        torch.float16: torch.int16,
        torch.bfloat16: torch.int16,
        torch.float32: torch.int32,
        torch.float64: torch.int64,
    }


def _unequal(left: torch.Tensor, right: torch.Tensor) -> list[int]:
    import torch

    # fp8 and the like have no comparison of their own: their bytes are what there is.
    if left.dtype.is_floating_point:
        left, right = left.view(torch.uint8), right.view(torch.uint8)
    return [int(i) for i in (left.reshape(-1) != right.reshape(-1)).nonzero()[:, 0]]


def _exact(path: str, elements: int, unequal: Sequence[int]) -> Comparison:
    worst = f"{path}, element {unequal[0]}" if unequal else ""
    same = elements - len(unequal)
    return Comparison(not unequal, elements, len(unequal), 0, {0: same}, "", worst)


def _floats(path: str, left: torch.Tensor, right: torch.Tensor) -> Comparison:
    import torch

    kind = _integers()[left.dtype]
    bits = [t.reshape(-1).view(kind) for t in (left, right)]
    identical = bool(torch.equal(*bits))
    a, b = left.reshape(-1), right.reshape(-1)
    both_nan = a.isnan() & b.isnan()
    equal = (a == b) | both_nan
    # An infinity is one step from the largest float by bits; as an answer it is no neighbour.
    lost = ~equal & ~(a.isfinite() & b.isfinite())
    distance = _distance(*bits).masked_fill(equal | lost, 0)
    counted = distance[~lost]
    histogram: dict[int | None, int] = {}
    below = -1
    for edge in EDGES:
        histogram[edge] = int(((counted > below) & (counted <= edge)).sum())
        below = edge
    histogram[None] = int((counted > below).sum())
    largest = int(distance.max()) if distance.numel() else 0
    missing = int(lost.sum())
    at = int(lost.nonzero()[0]) if missing else int(distance.argmax()) if largest else -1
    worst = f"{path}, element {at}: {a[at].item()!r} -> {b[at].item()!r}" if at >= 0 else ""
    return Comparison(identical, a.numel(), missing, largest, histogram, "", worst)


def _distance(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """|steps| between bit patterns, as int64, held at its maximum where it would overflow."""
    import torch

    width = torch.iinfo(left.dtype)
    # Negative floats count downwards from -0, whose pattern is the type's smallest integer.
    ordered = [torch.where(t < 0, width.min - t, t).to(torch.int64) for t in (left, right)]
    high, low = torch.maximum(*ordered), torch.minimum(*ordered)
    steps = high - low
    return torch.where(steps < 0, torch.iinfo(torch.int64).max, steps)


def _merged(parts: Sequence[Comparison]) -> Comparison:
    histogram: dict[int | None, int] = {}
    for edge in (*EDGES, None):
        histogram[edge] = sum(part.histogram.get(edge, 0) for part in parts)
    worst = max(parts, key=lambda p: (p.mismatched > 0, p.largest), default=None)
    return Comparison(
        all(part.identical for part in parts),
        sum(part.elements for part in parts),
        sum(part.mismatched for part in parts),
        max((part.largest for part in parts), default=0),
        histogram,
        "",
        worst.worst if worst else "",
    )


def error_ratio(base: float | None, head: float | None, floor: float) -> float:
    """Head's error to float64 over base's, neither taken below `floor`; both in the same measure.

    `floor`, above 0, is what rounding the exact answer to the output type costs already (half an
    epsilon for a relative error): an exact base would make one last bit on head infinitely worse.
    None is an error that is no number: infinitely bad on head alone, 1 where base has none either.
    """
    if not floor > 0:
        raise ValueError(f"floor must be above 0, got {floor}")
    sides = [math.inf if e is None or math.isnan(e) else max(e, floor) for e in (base, head)]
    if math.isinf(sides[1]):
        return 1.0 if math.isinf(sides[0]) else math.inf
    return sides[1] / sides[0]


def worst_ratio(
    base: Mapping[str, float | None], head: Mapping[str, float | None], floor: float = ERROR_FLOOR
) -> float | None:
    """The largest error ratio over the input families that both sides have; None without any."""
    return max((error_ratio(base[f], head[f], floor) for f in base if f in head), default=None)
