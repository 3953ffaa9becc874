"""Shared by all tests: pytest's own `pytester`, for runs inside runs."""

import os

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture(scope="session", autouse=True)
def inner_runs_are_no_workers():
    """Under xdist a run inside a run would take itself for a worker, and refuse to measure."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        os.environ.pop(name, None)
