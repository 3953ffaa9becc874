"""How a sequence compares, holds, replays and reports. The fresh object is always the right one."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field

import pytest
import torch

import pytest_rightfast
from pytest_rightfast import CallLog, CaseError, Unsupported, act, call, put, swap
from pytest_rightfast.compare import Tolerance
from pytest_rightfast.poison import poisoned
from pytest_rightfast.schedules import Schedule
from pytest_rightfast.sequence import Plan, first_wrong, verify

X, Y = torch.arange(4.0) + 1, torch.arange(4.0) - 7


def double(x):
    return x * 2.0


def made(function):
    """`make` for an object whose call is `function(object, ...)`."""
    return type("Made", (), {"__call__": function})


def wrong_of(make, fresh, steps, **options):
    return first_wrong(Plan(make, fresh, **options), list(enumerate(steps)))


RIGHT = made(lambda self, x: x * 2.0)


def test_values_are_compared_exactly_unless_asked():
    near = made(lambda self, x: x * (2.0 + 2**-20))
    assert wrong_of(near, RIGHT, [call(X)]).what.where == "output"
    assert wrong_of(near, RIGHT, [call(X)], tolerance=Tolerance()) is None


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (lambda x: x.double() * 2, "dtype"),
        (lambda x: (x * 2)[:3], "shape"),
        (lambda x: [x * 2], "sequence"),
        (lambda x: x * torch.nan, "nan"),
        (lambda x: None, "None"),
    ],
)
def test_outputs_differ(output, says):
    wrong = wrong_of(made(lambda self, x: output(x)), RIGHT, [call(X)])
    assert says in wrong.what.what


def test_device_is_compared():
    here, there = (made(lambda self, d=d: torch.empty(0, device=d)) for d in ("cpu", "meta"))
    assert "expected on cpu, got on meta" in wrong_of(there, here, [call()]).what.what


def test_arguments_are_compared_after_the_step():
    assert wrong_of(made(lambda self, x: x.mul_(2.0)), RIGHT, [call(X)]).what.where.startswith(
        "arguments"
    )
    assert torch.equal(X, torch.arange(4.0) + 1)  # the caller's own tensors are never touched


def test_an_argument_of_an_earlier_step_is_watched():
    class Writes:
        earlier = None

        def __call__(self, x):
            if self.earlier is not None:
                self.earlier.zero_()
            self.earlier = x
            return x * 2.0

    assert "arguments" in wrong_of(Writes, RIGHT, [call(X), call(Y), call(X)]).what.where
    wrong = wrong_of(Writes, RIGHT, [call(X), call(Y)])
    assert "arguments" in wrong.what.where
    assert "step 0" in wrong.what.where


def test_held_results_are_watched_and_may_be_excused():
    class Static:
        def __init__(self):
            self.out = torch.empty(4)

        def __call__(self, x):
            return torch.mul(x, 2.0, out=self.out)

    wrong = wrong_of(Static, RIGHT, [call(X), call(Y)])
    assert (wrong.number, wrong.what.where) == (1, "output of step 0")
    assert wrong_of(Static, RIGHT, [call(X), call(Y)], hold=False) is None


def test_results_that_are_state_or_shared_arguments_may_change():
    class Adds:
        def __init__(self):
            self.total = torch.zeros(4)

        def __call__(self, x, out):
            self.total += x
            return self.total, out.add_(x)

    out = torch.zeros(4)
    steps = [call(X, out), call(Y, out)]
    assert wrong_of(Adds, Adds, steps, stateful=True, state=["total"]) is None
    assert "output[0] of step 0" in wrong_of(Adds, Adds, steps, stateful=True).what.where


def test_results_are_also_dropped_at_once():
    """A fault that shows only when an earlier result is gone."""

    class Weak:
        earlier = None

        def __call__(self, x):
            gone = self.earlier is not None and self.earlier() is None
            out = x * (3.0 if gone else 2.0)
            self.earlier = weakref.ref(out)
            return out

    assert wrong_of(Weak, RIGHT, [call(X), call(Y)]).number == 1
    x = X.clone().requires_grad_()  # the latest output is kept for backward, until the next call
    assert wrong_of(Weak, RIGHT, [call(x), call(x), call.backward()]).number == 1


class Watches:
    """Wrong as soon as what it was given, or returned, in an earlier call is gone."""

    def __init__(self, fails=False):
        self.earlier, self.fails = None, fails

    def __call__(self, x):
        gone = self.earlier is not None and self.earlier() is None
        self.earlier, first = weakref.ref(x), self.earlier is None
        if first and self.fails:
            raise ValueError("no")
        return x * (3.0 if gone else 2.0)


def test_arguments_of_one_step_are_dropped_after_it():
    assert wrong_of(Watches, RIGHT, [call(X), call(Y)], hold=False).number == 1
    assert wrong_of(Watches, RIGHT, [call(X), call(X)], hold=False) is None


def test_what_was_raised_keeps_nothing_alive():
    class Right(Watches):
        def __call__(self, x):
            super().__call__(x)
            return x * 2.0

    steps = [call(X).raising(ValueError), call(Y)]
    fresh = lambda: Right(fails=True)  # noqa: E731
    make = lambda: Watches(fails=True)  # noqa: E731
    wrong = wrong_of(make, fresh, steps, stateful=True, hold=False)
    assert wrong.number == 1


def test_memory_is_poisoned_while_a_step_runs():
    seen = []
    unwritten = made(lambda self: seen.append(torch.empty(4096, dtype=torch.uint8).unique()))
    with poisoned():
        poison = torch.empty(4096, dtype=torch.uint8).unique()
    assert wrong_of(unwritten, made(lambda self: None), [call()], hold=False) is None
    assert len(poison) == 1
    assert torch.equal(seen[0], poison)


def test_what_is_raised_is_compared():
    def refuse(self, x):
        raise ValueError("no")

    wrong = wrong_of(made(refuse), RIGHT, [call(X)])
    assert "raised ValueError('no'); a fresh object returns" in wrong.what.what
    steps = [call(X).raising(ValueError)]
    assert wrong_of(made(refuse), made(refuse), steps) is None
    assert "returned; a fresh object raises" in wrong_of(RIGHT, made(refuse), steps).what.what


def test_a_step_that_no_object_can_do_is_an_error_of_the_case():
    with pytest.raises(CaseError, match=r"step 1 .*\n.*call\.typo\(\) to return"):
        wrong_of(RIGHT, RIGHT, [call(X), call.typo()])
    with pytest.raises(CaseError, match="it returned"):
        wrong_of(RIGHT, RIGHT, [call(X).raising(ValueError)])


def test_unsupported_passes_through():
    def cannot(self, x):
        raise Unsupported("no such size")

    with pytest.raises(Unsupported, match="no such size"):
        wrong_of(made(cannot), RIGHT, [call(X)])


class Batch(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(x)


def test_the_state_of_a_module_is_compared():
    class Forgets(Batch):
        def forward(self, x):
            out = self.norm(x)
            self.norm.reset_running_stats()
            return out

    steps = [call(torch.randn(3, 4)), call(torch.randn(5, 4))]
    wrong = wrong_of(Forgets, Batch, steps, stateful=True)
    assert wrong.what.where.startswith("state['norm.")
    assert wrong_of(Batch, Batch, steps, stateful=True) is None


def test_a_stateful_object_said_to_be_stateless_is_found_out():
    steps = [call(torch.randn(3, 4)), call(torch.randn(5, 4))]
    assert wrong_of(Batch, Batch, steps).what.where.startswith("state")


def test_state_that_only_the_object_has_is_its_own_but_none_may_lack():
    class More(Batch):
        def __init__(self):
            super().__init__()
            self.register_buffer("workspace", torch.empty(3))

    steps = [call(torch.randn(3, 4))]
    assert wrong_of(More, Batch, steps) is None
    assert wrong_of(Batch, More, steps).what.where == "state"


def test_random_numbers_are_the_same_on_every_object():
    dropout = made(lambda self, x: torch.nn.functional.dropout(x, 0.5))
    assert wrong_of(dropout, dropout, [call(torch.ones(64))] * 3) is None
    weights = lambda: torch.nn.Linear(4, 4)  # noqa: E731
    assert wrong_of(weights, weights, [call(X)]) is None


def test_arguments_that_steps_change_are_carried_to_the_next_fresh_object():
    adds = made(lambda self, out, x: out.add_(x) * 1.0)
    block = torch.zeros(8)
    left, right = block[:4], block[:4].view(2, 2)  # two tensors on one memory
    assert wrong_of(adds, adds, [call(left, X), call(right, Y.view(2, 2)), call(left, X)]) is None


def test_shared_tensors_keep_identity_and_views_keep_their_memory():
    class Identity:
        def __init__(self):
            self.seen = []

        def __call__(self, x):
            self.seen.append(x)
            return [one is self.seen[0] for one in self.seen], [
                one.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
                for one in self.seen
            ]

    block = torch.zeros(8)
    seen = []

    class Shows(Identity):
        def __call__(self, x):
            seen.append(super().__call__(x))
            return x * 1.0

    a, b = block[:4], block[4:]
    wrong_of(Shows, made(lambda self, x: x * 1.0), [call(a), call(a), call(b)], hold=False)
    assert seen[-1] == ([True, True, False], [True, True, True])


def test_backward_is_autograd_from_the_latest_call_with_a_cotangent_that_is_not_ones():
    class SumOfColumns(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2.0

        @staticmethod
        def backward(ctx, g):
            return g.mean().expand(4) * 2.0  # right for a cotangent of ones

    x = X.clone().requires_grad_()
    steps = [call(x), call.backward()]
    assert wrong_of(made(lambda self, x: SumOfColumns.apply(x)), RIGHT, steps).number == 1
    assert wrong_of(RIGHT, RIGHT, [call(x), call(Y), call(x), call.backward()]) is None


def test_arguments_that_nothing_changed_keep_their_autograd_version():
    x, square = X.clone().requires_grad_(), made(lambda self, x: x * x)
    assert wrong_of(square, square, [call(x), call(x), call.backward()]) is None


def test_an_object_that_returns_itself():
    @dataclass
    class Chains:
        hidden: int = field(default=0, init=False)

        def set(self):
            return self

    assert wrong_of(Chains, Chains, [call.set()]) is None
    assert wrong_of(Chains, type("Copies", (), {"set": lambda self: 1}), [call.set()])


def test_backward_needs_a_graph_and_an_output():
    for steps in ([call(X), call.backward()], [call.backward()]):
        with pytest.raises(CaseError, match="RuntimeError"):
            wrong_of(RIGHT, RIGHT, steps)


def test_gradients_of_parameters_are_named():
    class Linear(torch.nn.Linear):
        def __init__(self):
            super().__init__(4, 3)

    class Detached(Linear):
        def forward(self, x):
            return torch.nn.functional.linear(x, self.weight, self.bias.detach())

    wrong = wrong_of(Detached, Linear, [call(X), call.backward()])
    assert wrong.what.where == "output[\"['object'].bias\"]"


def test_put_swap_and_lasting_steps_are_replayed_and_others_not():
    class Switch:
        scale, on = 2.0, False

        def __init__(self):
            self.table = torch.ones(4)

        def enable(self):
            self.on = True

        def __call__(self, x):
            return x * self.scale * self.table * (1 + self.on)

    steps = [put(scale=3.0), swap("table"), call.enable().lasting(), call(X)]
    assert wrong_of(Switch, Switch, steps) is None
    assert wrong_of(Switch, Switch, [call.enable(), call(X)]).number == 1
    assert wrong_of(Switch, Switch, [call.enable(), call(X)], stateful=True) is None


def test_swap_gives_new_memory_and_new_values_to_the_same_tensor():
    seen = []

    class Watch:
        def __call__(self, x):
            seen.append((id(x), x.data_ptr(), x.clone()))
            return x * 1.0

    plain = made(lambda self, x: x * 1.0)
    held = torch.randn(64)
    assert wrong_of(Watch, plain, [call(held), swap(held), call(held)], hold=False) is None
    (id0, _, old), (id1, _, new) = seen
    assert id0 == id1
    assert not torch.equal(old, new)
    seen.clear()
    steps = [call(held), swap(held, torch.ones(3)), call(held)]
    assert wrong_of(Watch, plain, steps, hold=False) is None
    assert seen[1][2].tolist() == [1, 1, 1]


def test_swap_reaches_a_parameter_by_name():
    class Cached(torch.nn.Linear):
        def __init__(self):
            super().__init__(4, 4)
            self.cached = self.weight.detach()

        def forward(self, x):
            return torch.nn.functional.linear(x, self.cached, self.bias)

    right = lambda: torch.nn.Linear(4, 4)  # noqa: E731
    assert wrong_of(Cached, right, [call(X), swap("weight"), call(X)]).number == 2
    with pytest.raises(CaseError, match="names no tensor"):
        wrong_of(right, right, [swap("in_features")])
    with pytest.raises(CaseError, match="needs a tensor"):
        swap(3)


def test_check_after_every_step():
    class Grows:
        def __init__(self):
            self.cache = []

        def __call__(self, x):
            self.cache.append(x)
            return x * 2.0

    steps = [call(X)] * 4
    wrong = wrong_of(Grows, RIGHT, steps, check=lambda made: len(made.cache) < 3)
    assert (wrong.number, wrong.what.where, wrong.what.what) == (2, "check", "returned False")
    wrong = wrong_of(Grows, RIGHT, steps, check=lambda made: f"{len(made.cache)} kept")
    assert wrong.what.what == "1 kept"
    assert wrong_of(Grows, RIGHT, steps, check=lambda made: None) is None


def test_callbacks_are_compared_step_by_step():
    late = made(lambda self, x, hook: [hook(x), x * 2.0][1])
    never = made(lambda self, x, hook: x * 2.0)
    assert wrong_of(late, late, [call(X, CallLog()), call(Y, CallLog())]) is None
    log = CallLog()
    assert wrong_of(late, late, [call(X, log), call(Y, log)]) is None
    assert log.log == []
    assert wrong_of(never, late, [call(X, CallLog())]).what.where.startswith("arguments")


def test_what_cannot_be_copied_is_an_error():
    with pytest.raises(CaseError, match="cannot be copied"):
        wrong_of(RIGHT, RIGHT, [call(X.clone().requires_grad_() * 2)])


class Remembers:
    """Wrong at shape (3,) after scale 2 was used on it."""

    def __init__(self):
        self.scales = {}

    def __call__(self, x, scale=1.0):
        return x * self.scales.setdefault(x.shape, scale)


def scaled(x, scale=1.0):
    return x * scale


def test_the_report_is_minimal_and_can_be_pasted():
    a, b = torch.tensor([1.0, 2.0, 3.0]), torch.randn(5, 5)
    steps = (call(b), call(a, scale=2.0), call(b), call(b), call(a), call(b))
    plan = Plan(Remembers, lambda: scaled)
    text = verify(plan, [Schedule("fine", (call(b),)), Schedule("mixed", steps)])
    head, minimal, *pasted = text.split("\n")
    assert head.startswith("step 4 of schedule 'mixed': output: 3 of 3 elements are wrong")
    assert minimal == "minimal failing schedule, 2 of 6 steps:"
    assert pasted[0] == "t0 = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float32)"
    assert [line.split(",  #")[0] for line in pasted[2:4]] == [
        "    call(t0, scale=2.0)",
        "    call(t0)",
    ]
    scope = {"torch": torch, **vars(pytest_rightfast)}
    exec("\n".join(pasted), scope)
    assert first_wrong(plan, list(enumerate(scope["steps"]))).number == 1


def test_a_shrunk_schedule_stays_possible():
    """Without its call a backward pass is no schedule: it does not count as failing."""

    class Stale:
        def __init__(self):
            self.seen = 0

        def __call__(self, x):
            self.seen += 1
            return x * 2.0 if self.seen < 3 else x.detach() + x

    x = X.clone().requires_grad_()
    steps = tuple([call(x), call.backward()] * 3)
    text = verify(Plan(Stale, RIGHT), [Schedule("", steps)])
    assert "minimal failing schedule, 4 of 6 steps" in text
    assert "RuntimeError" not in text


def test_steps_show_as_they_are_written():
    steps = [
        call(1, [2, (3,)], key="v"),
        call.method(a={"b": 1}),
        call.backward(),
        call.backward().needing(2),
        call.enable().lasting(),
        call.to("cpu"),
        put(flag=True),
        swap("weight"),
        call().raising(ValueError),
    ]
    assert [repr(step) for step in steps] == [
        "call(1, [2, (3,)], key='v')",
        "call.method(a={'b': 1})",
        "call.backward()",
        "call.backward().needing(2)",
        "call.enable().lasting()",
        "call.to('cpu')",
        "put(flag=True)",
        "swap('weight')",
        "call().raising(ValueError)",
    ]
    assert repr(act(double, 1)) == "act(double, 1)"
    assert repr(call(X)) == "call(<float32 [4]>)"
