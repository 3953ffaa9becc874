"""Classes 22 and 23 as sequences: one launcher, one tuner, and fresh ones beside each step."""

from __future__ import annotations

import pytest
import torch

from pytest_rightfast import call, drawn, put, swap, toggled
from pytest_rightfast.schedules import Schedule, as_schedules
from pytest_rightfast.sequence import Plan, verify
from rightfast.runtime import best_of, choices, forget_choices, launchable

from . import triton_fakes
from .launch_cases import meta_kernel


class Launched:
    """What reaches the C launcher: the kernel that was found, the numbers, and which tensors."""

    warps = 4

    def __init__(self, driver, launch):
        self.driver, self.launch = driver, launch

    def __call__(self, a, FIRST=8, b=16, SECOND=None, num_warps=None):
        warps = num_warps or self.warps
        options = {} if warps == 4 else {"num_warps": warps}  # 4 is Triton's own
        compiled = self.launch((1,), a, FIRST=FIRST, b=b, SECOND=SECOND, **options)
        source = compiled.src
        found = self.driver.launches[-1]
        tensors = {x.data_ptr(): name for name, x in (("a", a), ("b", b)) if torch.is_tensor(x)}
        values = [
            (kind, tensors[int.from_bytes(data, "little")] if kind.startswith("*") else data)
            for kind, data in found["given"]
        ]
        kernel = source.signature, source.constants, source.attrs
        return repr((kernel, values, found["grid"], found["flags"]))


VALUES = {
    "FIRST": [True, 16],
    "b": [1, 17, 2**31, None, True, 0.5],
    "SECOND": [1, True],
    "num_warps": [8],
}


def test_23_a_launcher_beside_triton(recording):
    triton_fakes.prepare(meta_kernel, recording)
    memory = torch.zeros(64)
    a, odd, half = memory[:8], memory[1:9], torch.zeros(8, dtype=torch.bfloat16)

    def by_triton(grid, *given, **meta):
        return meta_kernel[grid](*given, **meta)

    schedules = [
        *toggled(Launched.__call__, lambda **options: call(a, **options), VALUES),
        Schedule(
            "pointers", (call(a), call(odd), call(a), call(half), call(a), call(None), call(a))
        ),
        Schedule(
            "memory", (call(a), swap(a), call(a), put(warps=8), call(a), put(warps=4), call(a))
        ),
        *drawn(
            [
                call(a),
                call(odd),
                call(half),
                call(a, b=1),
                call(a, b=17),
                call(3, b=a),
                call(a, b=odd),
            ],
            length=12,
            count=3,
            seed=0,
        ),
    ]
    plan = Plan(
        lambda: Launched(recording, launchable(meta_kernel)),
        lambda: Launched(recording, by_triton),
    )
    report = verify(plan, as_schedules(schedules))
    assert report is None, report


class Accumulator:
    """Adds into a buffer of its own, by the way that a tuner picks, or by the first one."""

    def __init__(self, tuned):
        self.tuned = tuned
        self.total = torch.zeros(8)

    def __call__(self, x):
        ways = {"whole": self.whole, "halves": self.halves, "wrong": self.wrong}
        way = self.whole
        if self.tuned:
            way = best_of(ways, (x, self.total), key=("add", x.dtype), writes=[1], runs=2)
        way(x, self.total)
        return self.total.clone()

    @staticmethod
    def whole(x, out):
        out += x

    @staticmethod
    def halves(x, out):
        out[:4] += x[:4]
        out[4:] += x[4:]

    @staticmethod
    def wrong(x, out):
        out[:4] += x[:4]


@pytest.mark.filterwarnings("ignore:best_of. candidate:RuntimeWarning")
def test_22_a_tuner_has_no_effects():
    x = torch.linspace(1, 2, 8)

    def tuned():
        forget_choices()
        return Accumulator(True)

    steps = [call(x), call(x), swap(x), call(x), call(x.double()), call(x)]
    plan = Plan(tuned, lambda: Accumulator(False), stateful=True, state=("total",))
    report = verify(plan, as_schedules(steps))
    assert report is None, report
    assert [set(choice.refused) for choice in choices()] == [{"wrong"}, {"wrong"}]
    forget_choices()
