"""Tables: units, ratios to the first backend, reasons, one for each device and thread count."""

from __future__ import annotations

import pytest

from pytest_rightfast.results import Row
from pytest_rightfast.tables import seconds, short, table, tables


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (2.5, "2.5 s"),
        (1234.0, "1234 s"),
        (0.0123, "12.3 ms"),
        (4.567e-6, "4.57 us"),
        (9.996e-4, "1000 us"),
        (8.1e-8, "81 ns"),
    ],
)
def test_seconds(value, text):
    assert seconds(value) == text


def test_short():
    assert short("perf/test_haar.py::test_dwt[64-x]") == "haar: dwt[64-x]"
    assert short("perf/test_haar.py::TestAll::test_dwt") == "haar: TestAll::dwt"


def row(backend: str, *samples: float, case: str = "t.py::test_a", **fields: object) -> Row:
    return Row(f"{case}-{backend}", case, backend, samples=list(samples), **fields)  # type: ignore[arg-type]


def test_backends_of_a_case_are_compared_with_the_first_that_has_a_time():
    lines = table(
        [
            row("wrong", status="wrong", reason="output: 3 of 4\nelements", role="peer"),
            row("ours", 2e-6, 2e-6, moved_bytes=4000, copy_seconds=1e-6, error=1e-8),
            row("theirs", 5e-6, 5e-6),
            row("ours", 1e-3, case="t.py::test_b"),
        ]
    ).splitlines()
    assert lines[2].split() == ["t:", "a", "wrong", "WRONG"]
    assert lines[3].split() == ["ours", "2", "us", "0.0%", "2.00", "50%", "1.0e-08"]
    assert lines[4].split() == ["theirs", "5", "us", "0.0%", "2.50x"]
    assert lines[5].split() == ["t:", "b", "ours", "1", "ms"]
    assert lines[6] == "  WRONG peer wrong: output: 3 of 4 elements  [t: a]"


def test_every_column_has_a_title():
    head = table([row("ours", 2e-6), row("theirs", status="error", reason="x")]).splitlines()[0]
    assert head.split()[-1] == "status"


def test_an_interrupt_blames_nobody():
    lines = table([row("torch", role="peer", status="error", reason="interrupted")]).splitlines()
    assert lines[2].split()[-1] == "INTERRUPTED"
    assert lines[3] == "  INTERRUPTED peer torch, by no fault of its own  [t: a]"
    assert "ERROR" not in "".join(lines)


def test_the_same_reason_is_one_line():
    lines = table(
        [
            row("p", case=f"t.py::test_{n}", status="unsupported", reason="no such mode")
            for n in "abc"
        ]
    ).splitlines()
    assert lines[-1] == "  UNSUPPORTED subject p: no such mode  [t: a, t: b, t: c]"


def test_compared_with_a_stored_run():
    lines = table([row("ours", 2e-6, 2e-6), row("new", 1e-6)], {"t.py::test_a-ours": 1e-6})
    assert "vs stored" in lines
    assert "2.00x" in lines.splitlines()[2]


def test_one_table_for_each_device_and_thread_count():
    rows = [row("a", 1.0, threads=2, threads_asked=2), row("b", 1.0), row("c", 1.0, device="cuda")]
    titles = list(tables(rows))[::2]
    assert titles == [
        f"{where}, system heap" for where in ("cpu, 1 thread", "cpu, 2 threads", "cuda, 1 thread")
    ]


def test_titles_say_what_was_asked_where_it_is_not_in_force():
    titles = list(tables([row("a", 1.0, threads=2, threads_asked=4), row("b", 1.0, heap="cold")]))
    assert titles[::2] == ["cpu, 1 thread, cold heap", "cpu, 2 threads (4 asked), system heap"]
