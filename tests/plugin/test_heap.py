"""`--perf-heap`: what malloc does is seen in page faults, which are counted, not timed."""

from __future__ import annotations

import os
import sys

import pytest

from pytest_rightfast import heap
from pytest_rightfast.errors import PerfError
from pytest_rightfast.results import load

FAULTS = """
    import resource, sys
    import numpy, torch
    from pytest_rightfast import heap

    heap.put_in_force(sys.argv[1])

    def faults(call):
        counts = []
        for _ in range(20):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            call()
            counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        return sorted(counts)[5]  # where memory is short, the system takes pages away now and then

    x, y = torch.ones(64 * 1024), numpy.ones(64 * 1024, dtype="float32")
    print(faults(x.exp), faults(lambda: numpy.exp(y)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
def test_faults_of_both_libraries(python):
    """256 KiB are 64 pages: all new at each call on a cold heap, none on a warm one."""
    found = {}
    for name in ("warm", "cold"):
        done = python(FAULTS, name)
        assert done.returncode == 0, done.stderr
        found[name] = [float(word) for word in done.stdout.split()]
    assert max(found["warm"]) < 4
    assert min(found["cold"]) > 40


def test_named_in_rows_and_report(project):
    project.file(
        "test_it.py", "def test_it(perf):\n    perf(torch.exp, torch.ones(8), reference=np.exp)"
    )
    result = project.apart("--perf-heap=warm", "--perf-json=rows.json")
    assert result.ret == 0
    assert [row.heap for row in load(project.path / "rows.json")] == ["warm"]
    result.stdout.fnmatch_lines(["cpu, 1 thread, warm heap"])


def test_another_allocator_is_refused(monkeypatch):
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda name: os)
    with pytest.raises(PerfError, match=r"(?s)--perf-heap warm.*expected:.*got:.*remedy:"):
        heap.put_in_force("warm")
