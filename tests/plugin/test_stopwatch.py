"""Foreign work on the same core does not count; what the call itself waits for does."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from pytest_rightfast import stopwatch


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Scripted: nanoseconds of both clocks, and the two kinds of context switches."""
    now = {"wall": 0, "process": 0, "waited": 0, "preempted": 0}
    monkeypatch.setattr(stopwatch.time, "perf_counter_ns", lambda: now["wall"])
    monkeypatch.setattr(stopwatch.time, "process_time_ns", lambda: now["process"])
    monkeypatch.setattr(stopwatch, "switches", lambda: (now["waited"], now["preempted"]))
    monkeypatch.setattr(stopwatch, "children", lambda: False)
    return now


@pytest.mark.parametrize(
    ("waited", "preempted", "seconds"),
    [
        (0, 0, 0.009),  # the core was its own all the time
        (0, 2, 0.004),  # taken away twice, and nothing else happened
        (1, 0, 0.009),  # it waited for a lock or a file: that is its own time
        (1, 2, 0.009),  # both: how much of it was foreign is not known
    ],
)
def test_which_clock_is_believed(clocks, waited, preempted, seconds):
    begun = stopwatch.start()
    clocks.update(wall=9_000_000, process=4_000_000, waited=waited, preempted=preempted)
    assert stopwatch.stop(begun) == seconds


def test_never_more_than_the_wall_clock(clocks):
    begun = stopwatch.start()
    clocks.update(wall=1_000_000, process=1_200_000, preempted=1)
    assert stopwatch.stop(begun) == 0.001


def test_work_of_other_threads_counts(clocks):
    """Two threads on one core: the other one's work took the core away, and is the call's own."""
    begun = stopwatch.start()
    clocks.update(wall=8_000_000, process=8_000_000, preempted=3)
    assert stopwatch.stop(begun) == 0.008


def test_work_of_a_child_counts(clocks, monkeypatch):
    """The caller may hand it the core by sched_yield(2), which looks like foreign load."""
    monkeypatch.setattr(stopwatch, "children", lambda: True)
    begun = stopwatch.start()
    clocks.update(wall=8_000_000, process=100_000, preempted=3)
    assert stopwatch.stop(begun) == 0.008


def test_children_are_seen():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert stopwatch.children()
        child.kill()


def test_sleep_counts():
    begun = stopwatch.start()
    time.sleep(0.02)
    assert stopwatch.stop(begun) >= 0.02


def test_without_the_counts_the_wall_clock_serves(monkeypatch):
    monkeypatch.setattr(stopwatch, "_THREAD", None)
    assert stopwatch.switches() == (0, 0)
