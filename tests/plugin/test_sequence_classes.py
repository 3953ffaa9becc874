"""The classes of silent error: small faulty objects, caught by a sequence, missed by single calls.

Every object is right when it is called once. `docs/sequences.md` has the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from pytest_rightfast import CallLog, act, call, put, sizes, swap, toggled
from pytest_rightfast.schedules import as_schedules
from pytest_rightfast.sequence import Plan, first_wrong, replayed

A, B = torch.arange(6.0) + 1, torch.arange(6.0) * 3 - 4


@dataclass
class Class:
    """A class of error: the faulty object, the right one, and the steps that tell them apart."""

    number: int
    name: str
    faulty: Any
    right: Any
    steps: Any
    options: dict[str, Any] = field(default_factory=dict)
    shows: str = "output"


class Double:
    """What most of the objects below should do."""

    def __call__(self, x, scale=2.0, hook=None, out=None):
        if hook:
            hook(scale)
        return torch.mul(x, scale, out=out)


class KeyedByIdentity(Double):
    """1: the plan is found by `id(x)`, and holds the memory that x had."""

    def __init__(self):
        self.plans = {}

    def __call__(self, x):
        return self.plans.setdefault(id(x), x.detach()) * 2.0


class Flows:
    def __init__(self):
        self.flows, self.calls = torch.zeros(6), 0

    def __call__(self, x):
        self.calls += 1
        for _ in range(self.runs()):
            self.flows += x
        return x * 2.0

    def runs(self):
        return 1


class WarmUpHasEffects(Flows):
    """2: the second call records, and warms up with the real flows before."""

    def runs(self):
        return 3 if self.calls == 2 else 1


class TunesOnTheRealBuffer(Flows):
    """22: the third call tries another candidate, which accumulates, too."""

    def runs(self):
        return 2 if self.calls == 3 else 1


class OptionNotInKey(Double):
    """3: recorded by shape alone; the scale of the recording stays."""

    def __init__(self):
        self.plans = {}

    def __call__(self, x, scale=2.0, hook=None, out=None):
        scale = self.plans.setdefault(x.shape, scale)
        return super().__call__(x, scale, hook, out)


class EffectFrozen(Double):
    """4: the callback runs while the pass is recorded, not when it is replayed."""

    def __init__(self):
        self.recorded = set()

    def __call__(self, x, scale=2.0, hook=None, out=None):
        hook = None if x.shape in self.recorded else hook
        self.recorded.add(x.shape)
        return super().__call__(x, scale, hook, out)


class BoundaryWrong(Double):
    """5: the input is part of the recording, in place of being fed."""

    def __init__(self):
        self.inputs = {}

    def __call__(self, x):
        return self.inputs.setdefault(x.shape, x.clone()) * 2.0


class Square:
    """Has a backward pass of its own, which belongs to the latest forward pass."""

    def __call__(self, x, log=False):
        self.log, self.x = log, x
        return x.abs().log() if log else x * x

    def backward(self):
        return 1 / self.x if self.log else 2 * self.x


class SetOnMiss(Square):
    """6: what backward reads is set only when a plan is made."""

    def __init__(self):
        self.plans = set()

    def __call__(self, x, log=False):
        if x.shape not in self.plans:
            self.plans.add(x.shape)
            self.batch = x.shape[0]
        self.full = x
        return x * x

    def backward(self):
        return 2 * self.full[: self.batch]


class LeftByAnother(Square):
    """7: a replay does not bring back the state that its own recording left for backward."""

    def __init__(self):
        self.plans = set()

    def __call__(self, x, log=False):
        if log in self.plans:
            return x.abs().log() if log else x * x
        self.plans.add(log)
        return super().__call__(x, log)


class Scaled:
    """A recording needs a table; `evict` forgets the recordings."""

    def __call__(self, x, power=1):
        return x * 2.0**power

    def evict(self):
        """Nothing is kept."""


class FreedWhileBaked(Scaled):
    """8: an evicted plan's block goes back to the pool, but the plan is still replayed."""

    def __init__(self):
        self.pool, self.plans = [torch.empty(1)], {}

    def __call__(self, x, power=1):
        if power not in self.plans:
            self.plans[power] = (self.pool.pop() if self.pool else torch.empty(1)).fill_(2.0**power)
        return x * self.plans[power]

    def evict(self):
        self.pool.extend(self.plans.values())


class Structured:
    partial = False

    def __call__(self, x):
        return x * (3.0 if self.partial else 2.0)


class StructureNotInKey(Structured):
    """9: `partial` changes what is recorded, and is not in the key."""

    def __init__(self):
        self.plans = {}

    def __call__(self, x):
        return x * self.plans.setdefault(x.shape, 3.0 if self.partial else 2.0)


class Weighted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6))

    def forward(self, x):
        return x * self.weight


class StaleAfterMove(Weighted):
    """10: the weight is flattened once; a move gives the module another one."""

    flat = None

    def forward(self, x):
        if self.flat is None:
            self.flat = self.weight.detach()
        return x * self.flat


class Summed:
    """Adds pieces of four into a buffer."""

    def __call__(self, x):
        total = x.new_zeros(x.shape[0])
        total.index_add_(0, torch.arange(x.shape[0]) % 4, x)
        return total


class NotZeroedWhenCut:
    """11: the buffer is zeroed when it is made, not when it is cut anew."""

    def __init__(self):
        self.backing, self.size = torch.zeros(0), 0

    def __call__(self, x):
        n = x.shape[0]
        if n > len(self.backing):
            self.backing = x.new_zeros(n)
        elif n == self.size:
            self.backing.zero_()
        self.size = n
        return self.backing[:n].index_add_(0, torch.arange(n) % 4, x).clone()


class OnlyGrows(Double):
    """12: the buffer of the largest call stays for good."""

    def __init__(self):
        self.buffer, self.need = torch.empty(0), 0

    def __call__(self, x):
        self.need = x.numel()
        if self.need > self.buffer.numel():
            self.buffer = torch.empty(self.need)
        return super().__call__(x)


class Unbounded(Double):
    """13: a plan for each address."""

    def __init__(self):
        self.plans = {}

    def __call__(self, x):
        self.plans[x.data_ptr()] = x.shape
        return super().__call__(x)


class TriesAgain(Double):
    """15, 17: a recording that failed, or was made, is tried at every call."""

    attempts = 0

    def __call__(self, x):
        self.attempts += 1
        return super().__call__(x)


class UnsafeContext(Double):
    """16: a replay fills a static tensor and loses the caller's autograd graph."""

    seen = False

    def __call__(self, x):
        y = super().__call__(x)
        y, self.seen = (y.detach() if self.seen else y), True
        return y


class StaleSignature(Double):
    """23: the first call's dtype is bound into the launcher."""

    dtype = None

    def __call__(self, x):
        self.dtype = self.dtype or x.dtype
        return super().__call__(x.to(self.dtype))


class Creeping(Double):
    """24: every call leaves one more thing for the next call to do."""

    def __init__(self):
        self.hooks, self.host_calls = [], 0

    def __call__(self, x):
        self.host_calls = sum(hook() for hook in self.hooks)
        self.hooks.append(lambda: 1)
        return super().__call__(x)


class StaticOutput(Double):
    """26: every result is the same buffer."""

    def __init__(self):
        self.static = torch.empty(6)

    def __call__(self, x):
        return self.static.copy_(x * 2.0)


G = A.clone().requires_grad_()
FLOWS = {"stateful": True, "state": ("flows",)}
CLASSES = [
    Class(1, "identity as key", KeyedByIdentity, Double, [call(A), swap(A, B), call(A)]),
    Class(2, "warm-up has effects", WarmUpHasEffects, Flows, [call(A)] * 3, FLOWS, "state"),
    Class(
        3,
        "option not in key",
        OptionNotInKey,
        Double,
        toggled(
            Double.__call__,
            lambda **o: call(A, **o),
            {"scale": [3.0], "hook": [CallLog()], "out": [torch.empty(6)]},
        ),
    ),
    Class(4, "effect frozen", EffectFrozen, Double, [call(A, hook=CallLog())] * 2, {}, "arguments"),
    Class(5, "boundary of the key", BoundaryWrong, Double, [call(A), call(B)]),
    Class(
        6,
        "set on a miss only",
        SetOnMiss,
        Square,
        [call(A), call(A[:3]), call(A), call.backward()],
    ),
    Class(
        7,
        "left by another call",
        LeftByAnother,
        Square,
        [call(A, log=True), call(A), call(A, log=True), call.backward()],
    ),
    Class(
        8,
        "lifetime",
        FreedWhileBaked,
        Scaled,
        [call(A, power=1), call.evict(), call(A, power=2), call(A, power=1)],
    ),
    Class(
        9,
        "structure not in key",
        StructureNotInKey,
        Structured,
        [put(partial=True), call(A), put(partial=False), call(A)],
    ),
    Class(
        10,
        "stale after a move",
        StaleAfterMove,
        Weighted,
        [call(A), call.bfloat16(), call(A.bfloat16())],
    ),
    Class(
        11,
        "buffer cut anew",
        NotZeroedWhenCut,
        Summed,
        sizes(lambda n: call(torch.arange(1.0, n + 1)), (32, 16, 40, 8)),
    ),
    Class(
        12,
        "memory only grows",
        OnlyGrows,
        Double,
        [call(torch.ones(n)) for n in (16, 4096, 16)],
        {"check": lambda made: made.buffer.numel() <= 4 * made.need},
        "check",
    ),
    Class(
        13,
        "unbounded cache",
        Unbounded,
        Double,
        sizes(lambda n: call(torch.ones(n)), range(1, 9), length=40),
        {"check": lambda made: len(made.plans) <= 2 * 8},
        "check",
    ),
    Class(
        15,
        "tries again",
        TriesAgain,
        Double,
        [call(A)] * 3,
        {"check": lambda made: made.attempts <= 1 or f"{made.attempts} recordings"},
        "check",
    ),
    Class(16, "unsafe context", UnsafeContext, Double, [call(G), call(G), call.backward()]),
    Class(23, "stale signature", StaleSignature, Double, [call(A), call(A.double())]),
    Class(
        24,
        "host overhead creeps",
        Creeping,
        Double,
        [call(A)] * 4,
        {"check": lambda made: made.host_calls == 0},
        "check",
    ),
    Class(22, "tunes on real data", TunesOnTheRealBuffer, Flows, [call(A)] * 3, FLOWS, "state"),
    Class(26, "earlier result changed", StaticOutput, Double, [call(A), call(B)]),
]


@pytest.mark.parametrize("one", CLASSES, ids=lambda one: f"{one.number}-{one.name}")
def test_caught_by_the_sequence_and_missed_by_single_calls(one):
    plan = Plan(one.faulty, one.right, **one.options)
    schedules = [list(enumerate(schedule.steps)) for schedule in as_schedules(one.steps)]
    caught = [wrong for numbered in schedules if (wrong := first_wrong(plan, numbered))]
    assert caught
    assert caught[0].what.where.startswith(one.shows)
    for numbered in schedules:
        for place in range(len(numbered)):
            alone = [numbered[i] for i in replayed(numbered, place)]
            assert first_wrong(plan, [*alone, numbered[place]]) is None


@pytest.mark.parametrize("one", CLASSES, ids=lambda one: f"{one.number}-{one.name}")
def test_the_right_object_passes_the_same_steps(one):
    options = {key: value for key, value in one.options.items() if key != "check"}
    plan = Plan(one.right, one.right, **options)
    for schedule in as_schedules(one.steps):
        assert first_wrong(plan, list(enumerate(schedule.steps))) is None


def test_an_option_written_later_is_covered_without_being_listed():
    """3: the schedules come from the signature, so a new option makes a new schedule."""

    class More(Double):
        def __call__(self, x, scale=2.0, negate: bool = False):
            return x * (-scale if negate else scale)

    class Faulty(More):
        def __init__(self):
            self.plans = {}

        def __call__(self, x, scale=2.0, negate: bool = False):
            return super().__call__(x, scale, self.plans.setdefault((x.shape, scale), negate))

    found = toggled(More.__call__, lambda **o: call(A, **o), {"scale": [3.0]})
    plan = Plan(Faulty, More)
    wrong = [s.name for s in found if first_wrong(plan, list(enumerate(s.steps)))]
    assert wrong == ["negate: False, True, False"]


def test_eviction_and_churn_by_act():
    """8: `act` does what no method does."""

    class Faulty(Scaled):
        def __init__(self):
            self.table = torch.full((1,), 2.0)

        def __call__(self, x, power=1):
            return x * self.table

    def churn(made):
        if hasattr(made, "table"):
            made.table.fill_(9.0)

    steps = list(enumerate([call(A), act(churn), call(A)]))
    wrong = first_wrong(Plan(Faulty, Scaled), steps)
    assert wrong is not None
    assert wrong.number == 2
