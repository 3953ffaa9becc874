"""Sampling: order, loops, what is kept, resets. No assertion depends on how long anything takes."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from pytest_rightfast import stopwatch
from pytest_rightfast.clock_cpu import Budget, Sampler, Target, Timing


def measure(target: Target, budget: Budget, seed: int = 0) -> Timing:
    return Sampler(target, budget, seed).block()


class Clock:
    """A clock that only moves when a call says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0
        monkeypatch.setattr(stopwatch.time, "perf_counter_ns", lambda: self.now)
        monkeypatch.setattr(stopwatch, "switches", lambda: (0, 0))

    def takes(self, *seconds: float) -> Any:
        """A call of these durations in turn, the last one for ever."""
        left = list(seconds)

        def call() -> str:
            self.now += round((left.pop(0) if len(left) > 1 else left[0]) * 1e9)
            return "answer"

        return call


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def keep(which: int, returned: Any) -> tuple[int, Any]:
    return which, returned


def test_samples_are_seconds_a_call_in_order(clock):
    call = clock.takes(*[0.5] * 2, 0.01, 0.02, 0.03, 0.04, 0.05)
    taken = measure(Target([call], keep), Budget(1e-9, 5))
    assert taken.samples == pytest.approx([0.01, 0.02, 0.03, 0.04, 0.05])
    assert taken.loops == 1
    assert taken.first_call == 0.5
    assert taken.warmup_calls == 2


def test_short_calls_are_looped(clock):
    taken = measure(Target([clock.takes(1e-6)], keep), Budget(0.01, 5))
    assert taken.loops == 100
    assert taken.samples == pytest.approx([1e-6] * len(taken.samples))
    assert len(taken.samples) == 100


def test_rounds_follow_the_budget(clock):
    assert len(measure(Target([clock.takes(0.01)], keep), Budget(1.0, 5)).samples) == 100
    assert len(measure(Target([clock.takes(0.01)], keep), Budget(0.001, 7)).samples) == 7
    assert len(measure(Target([clock.takes(1e-4)], keep), Budget(100.0, 5)).samples) == 1000


def test_warms_up_until_steady(clock):
    falling = [1e-3 * (1 - i / 60) for i in range(50)]
    taken = measure(Target([clock.takes(*falling, 1e-4)], keep), Budget(1.0, 5))
    assert taken.steady
    assert taken.warmup_calls > 50
    assert taken.samples == pytest.approx([1e-4] * len(taken.samples))


def test_a_slow_first_call_does_not_eat_the_rounds(clock):
    taken = measure(Target([clock.takes(1.5, 1e-5)], keep), Budget(0.1, 5))
    assert taken.first_call == 1.5
    assert len(taken.samples) == 1000
    assert max(taken.samples) < 1e-4


def test_inputs_take_turns(clock):
    turns = []
    calls = [lambda which=which: turns.append(which) or clock.takes(0.01)() for which in (0, 1)]
    taken = measure(Target(calls, keep), Budget(0.06, 6))
    assert turns[-6:] == [0, 1, 0, 1, 0, 1]
    assert {which for which, _ in taken.kept} <= {0, 1}


def test_inputs_take_turns_between_blocks(clock):
    """Of a slow case, whose blocks are one sample each."""
    turns = []
    calls = [lambda which=which: turns.append(which) or clock.takes(0.01)() for which in (0, 1)]
    sampler = Sampler(Target(calls, keep), Budget(0.01, 1))
    turns.clear()
    kept = [sampler.block(Budget(0.001, 1)).kept[0][0] for _ in range(4)]
    assert turns == kept == [0, 1, 0, 1]


def test_kept_answers_are_drawn_beforehand(clock):
    """Never the same ones for all seeds, and copied before the next call."""
    copies = []

    def copy(which, returned):
        copies.append(clock.now)
        return which, returned

    chosen = set()
    for seed in range(5):
        copies.clear()
        start = clock.now
        taken = measure(Target([clock.takes(0.01)], copy), Budget(0.2, 5), seed=seed)
        assert len(taken.kept) == Budget.kept
        assert [answer for _, answer in taken.kept] == ["answer"] * 3
        chosen.add(tuple(now - start for now in copies))
    assert len(chosen) == 5


def test_consumed_inputs_are_reset_outside_the_clock(clock):
    fresh = [False] * 4
    log = []

    def consume(which):
        assert fresh[which], "called twice without a reset"
        fresh[which] = False
        clock.now += 1000
        log.append(which)
        return which

    def reset():
        clock.now += 10**9
        fresh[:] = [True] * 4

    reset()
    calls = [lambda which=which: consume(which) for which in range(4)]
    taken = measure(Target(calls, keep, reset), Budget(1e-5, 5))
    assert taken.loops == 4
    assert taken.samples == pytest.approx([1e-6] * len(taken.samples))
    assert log[-4:] == [0, 1, 2, 3]
    assert all(which == 3 for which, _ in taken.kept)


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_is_off_and_restored(clock, enabled):
    seen = []

    def call():
        seen.append(gc.isenabled())
        clock.now += 10**7

    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        measure(Target([call], keep), Budget(0.01, 3))
        assert gc.isenabled() is enabled
        with pytest.raises(ZeroDivisionError):
            measure(Target([lambda: 1 / 0], keep), Budget(0.01, 3))
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
    assert seen
    assert not any(seen)


class TestLead:
    """A block's first calls are slow after another process had the core."""

    def block(self, clock, cold, budget):
        """One block after `cold` seconds calls, of a sampler that was warm before."""
        warm = clock.takes(1e-3)
        times = iter(())

        def call():
            try:
                clock.now += round(next(times) * 1e9)
            except StopIteration:
                warm()

        sampler = Sampler(Target([call], keep), Budget(0.1, 1))
        times = iter(cold)
        return sampler.block(budget)

    def test_slow_calls_are_thrown_away(self, clock):
        taken = self.block(clock, [2e-3, 1.5e-3, 1.2e-3], Budget(0.004, 1, lead=0.004))
        assert taken.samples == pytest.approx([1e-3] * 4)

    def test_at_least_eight_calls(self, clock):
        taken = self.block(clock, [2e-3] * 8, Budget(0.004, 1, lead=0.004))
        assert taken.samples == pytest.approx([1e-3] * 4)

    def test_slow_calls_are_not_led_in_for_ever(self, clock):
        taken = self.block(clock, [0.01] * 3, Budget(0.004, 1, lead=0.004))
        assert taken.samples == pytest.approx([0.01, 1e-3, 1e-3, 1e-3])

    def test_without_lead_every_call_counts(self, clock):
        taken = self.block(clock, [2e-3], Budget(0.004, 1))
        assert taken.samples == pytest.approx([2e-3, 1e-3, 1e-3, 1e-3])
