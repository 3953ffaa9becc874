"""A small circuit-like object with two passes, plain and on the runtime, and how both are compared.

`Plain` is what is right: torch out of place, nothing kept but what backward needs. `Fast` does the
same arithmetic in the same order, in buffers, under `Graphs`.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from pytest_rightfast.schedules import as_schedules
from pytest_rightfast.sequence import Plan, verify
from rightfast.runtime import Buffers, Graphs, NotRecorded

WIDTH = 6
STATE = ("hidden", "totals", "rows", "log")


@dataclass(frozen=True)
class Clip:
    low: float = -3.0
    high: float = 3.0


@dataclass(frozen=True)
class Options:
    """Whatever is added here is covered by the test of class 3, or asks for a second value."""

    log: bool = False
    scale: float = 2.0
    power: int = 1
    reduce: Literal["sum", "max"] = "sum"
    partial: tuple[int, ...] = ()
    clip: Clip = Clip()
    noise: bool = False
    hook: Callable[[float], object] | None = None


# Second values for options that have no obvious one.
VALUES = {
    "scale": [-1.5],
    "power": [2],
    "partial": [(0,), (0, 2)],
    "clip": [Clip(high=0.5)],
}


class Plain(torch.nn.Module):
    """`reduce(clip((x weight scale) ** power + mask))`; adds to `flows`; has a `backward`."""

    partial: tuple[int, ...] = ()
    before = None  # is called in each pass: a host sync, another thread

    def __init__(self, device: str = "cpu") -> None:
        super().__init__()
        self.register_buffer("weight", torch.linspace(-1.0, 2.0, WIDTH, device=device))
        self.flows = torch.zeros(WIDTH, device=device)
        self.plan: torch.Tensor | None = None
        self.hidden, self.rows, self.log = torch.zeros(0, WIDTH, device=device), 0, False
        self.totals = torch.zeros(0, 1, device=device)

    def table(self) -> torch.Tensor:
        """A plan that is made when it is needed, and may be evicted."""
        if self.plan is None:
            self.plan = torch.full((WIDTH,), 0.5, device=self.flows.device)
        return self.plan

    def evict(self) -> None:
        self.plan = None

    @torch.no_grad()
    def forward(self, x, mask=None, out=None, **options):
        options = Options(**{"partial": self.partial, **options})
        hidden = (x * self.weight * options.scale).contiguous()
        for _ in range(options.power - 1):
            hidden = hidden * hidden
        for column in options.partial:
            hidden[:, column] = 1.0
        if mask is not None:
            hidden = hidden + mask
        if options.noise:
            hidden = hidden + torch.randn_like(hidden)
        if self.before is not None:
            self.before(hidden)
        if options.hook is not None:
            options.hook(options.scale)
        hidden = hidden.clamp(options.clip.low, options.clip.high) * self.table()
        # Four more rows, of zeros, as a padded table has.
        padded = torch.cat([hidden, hidden.new_zeros(4, WIDTH)])
        self.flows += padded.sum(0)
        self.hidden, self.rows, self.log = hidden, len(x), options.log
        self.totals = hidden.sum(1, keepdim=True)
        y = hidden.sum(1) if options.reduce == "sum" else hidden.amax(1)
        y = y.abs().log() if options.log else y
        return y if out is None else out.copy_(y)

    @torch.no_grad()
    def backward(self):
        """Belongs to the latest forward pass."""
        gradient = self.hidden * self.weight.to(self.hidden.dtype)
        gradient = (gradient + self.totals) / self.rows
        return gradient.exp() if self.log else gradient


@dataclass(frozen=True)
class BackwardOptions:
    rows: int
    log: bool


class Fast(Plain):
    """The same on the runtime."""

    def __init__(self, backend, record: bool | None = None, most: int = 128) -> None:
        super().__init__(backend.device)
        self.buffers = Buffers()
        self.runs = 0  # counted apart from the object, by `count`
        common = {"record": record, "buffers": self.buffers, "backend": backend, "most": most}
        self.forwards = Graphs(self._forward, state=STATE, **common)
        self.backwards = Graphs(self._backward, **common)

    @torch.no_grad()
    def forward(self, x, mask=None, out=None, **options):
        return self.forwards(
            Options(**{"partial": self.partial, **options}),
            fed={"x": x, "mask": mask},
            bound={
                "weight": self.weight,
                "table": self.table(),
                "flows": self.flows,
                "out": out,
            },
        )

    @torch.no_grad()
    def backward(self):
        return self.backwards(
            BackwardOptions(self.rows, self.log),
            bound={"hidden": self.hidden, "totals": self.totals, "weight": self.weight},
        )

    def _forward(self, options, x, mask, weight, table, flows, out):
        RUNS.append(id(self))
        rows, dtype = len(x), torch.result_type(x, weight)
        padded = self.buffers.get("padded", (rows + 4, WIDTH), dtype, x.device)
        hidden = padded[:rows]
        torch.mul(x, weight, out=hidden)
        hidden.mul_(options.scale)
        for _ in range(options.power - 1):
            hidden.mul_(hidden)
        for column in options.partial:
            hidden[:, column] = 1.0
        if mask is not None:
            hidden.add_(mask)
        if options.noise:
            hidden.add_(torch.randn_like(hidden))
        if self.before is not None:
            self.before(hidden)
        if options.hook is not None:
            options.hook(options.scale)
        hidden.clamp_(options.clip.low, options.clip.high).mul_(table)
        total = self.buffers.get("total", (WIDTH,), dtype, x.device)
        flows.add_(torch.sum(padded, 0, out=total))
        self.hidden, self.rows, self.log = hidden, rows, options.log
        self.totals = hidden.sum(1, keepdim=True)  # memory of the recording, not of the buffers
        y = self.buffers.get("y", (rows,), dtype, x.device)
        torch.sum(hidden, 1, out=y) if options.reduce == "sum" else torch.amax(hidden, 1, out=y)
        if options.log:
            y.abs_().log_()
        return y if out is None else out.copy_(y)

    def _backward(self, options, hidden, totals, weight):
        gradient = hidden * weight.to(hidden.dtype)
        gradient = (gradient + totals) / options.rows
        return gradient.exp() if options.log else gradient


RUNS: list[int] = []  # one entry a run of a forward pass in Python


def rows(n: int, seed: int = 0, device: torch.device | str | None = None) -> torch.Tensor:
    """Evidence."""
    generator = torch.Generator("cpu").manual_seed(1000 * seed + n)
    drawn = torch.randn(n, WIDTH, generator=generator, device="cpu")
    return drawn.to(device or torch.get_default_device())


class Made:
    """What `check` makes, for a look at it afterwards."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self.objects = make, []

    def __call__(self) -> Any:
        self.objects.append(self._make())
        return self.objects[-1]

    @property
    def replays(self) -> int:
        return sum(one.forwards.replays + one.backwards.replays for one in self.objects)


def on_device(schedules, device):
    """The same schedules, their tensors moved; what several steps name is one tensor still."""
    moved: dict[int, torch.Tensor] = {}

    def there(value):
        if not isinstance(value, torch.Tensor):
            return value
        return moved.setdefault(id(value), value.to(device))

    def step(one):
        kwargs = {name: there(value) for name, value in one.kwargs.items()}
        return replace(one, args=tuple(map(there, one.args)), kwargs=kwargs)

    return [replace(one, steps=tuple(map(step, one.steps))) for one in schedules]


def compare(
    backend,
    steps,
    *,
    move=True,
    check=None,
    setup=lambda made: None,
    recorded=True,
    hold=True,
    **options,
):
    """Run steps on a `Fast` and on a `Plain` that does them, too; return the objects made.

    Args:
        recorded: whether something must have been replayed, and no reason against it given; None
            if some of the steps can be recorded.
        move: whether the tensors of the steps go to the backend's device.
    """

    def make():
        made = Fast(backend, **options)
        setup(made)
        return made

    def fresh():
        made = Plain(backend.device)
        setup(made)
        return made

    made = Made(make)
    state = ("flows", *STATE)
    plan = Plan(made, fresh, stateful=True, state=state, check=check, hold=hold)
    schedules = as_schedules(steps)
    if move:
        schedules = on_device(schedules, backend.device)
    with warnings.catch_warnings() if recorded else contextlib.nullcontext():
        if recorded:
            warnings.simplefilter("error", NotRecorded)
        report = verify(plan, schedules)
    assert report is None, report
    assert recorded is None or (made.replays > 0) == recorded
    return made.objects


def reasons(found):
    """How many reasons were given against recording."""
    return sum(one.category is NotRecorded for one in found)
