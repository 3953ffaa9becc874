"""What perf cases cannot honour is refused by name, never ignored."""

from __future__ import annotations

import pytest

from .options import usage
from .replay import ReplayTimer

# pytest-benchmark options that steer its own measuring loop, with their defaults. `max-time` and
# `min-rounds` are honoured; these have no meaning for samples that are taken elsewhere.
OPTIONS = {
    "--benchmark-timer": None,
    "--benchmark-precision": None,
    "--benchmark-calibration-precision": 10,
    "--benchmark-warmup": False,
    "--benchmark-warmup-iterations": 100000,
    "--benchmark-min-time": "0.000005",
    "--benchmark-cprofile": None,
    "--benchmark-cprofile-loops": 1,
}
# What a `benchmark` marker may say about a perf case.
MARKER = ("group", "max_time", "min_rounds")


def refuse(config: pytest.Config, cases: list[pytest.Item]) -> None:
    """Raise a usage error for what was asked of these perf cases in vain."""
    if not cases:
        return
    for option, default in OPTIONS.items():
        value = config.getoption(option, default)  # older pytest-benchmarks lack some
        if option == "--benchmark-timer" and "perf_counter" in str(value):
            continue
        if str(value) != str(default):
            raise usage(
                f"{option} has no meaning for perf cases, which are not timed by its loop",
                expected="--benchmark-max-time or --benchmark-min-rounds",
                got=value,
                remedy="leave it out, or deselect the perf cases",
            )
    given = [str(arg) for arg in config.invocation_params.args]
    flags = [arg for arg in given if arg.startswith("--benchmark-compare-fail")]
    if len(flags) > 1:
        raise usage(
            "--benchmark-compare-fail was given twice, and pytest-benchmark keeps the last alone",
            expected="all expressions after one flag",
            got=" ".join(flags),
            remedy="--benchmark-compare-fail mean:10% min:5%",
        )
    for item in cases:
        _refuse_marker(item)


def refuse_workers(config: pytest.Config) -> None:
    """Raised by each case: what a worker of pytest-xdist raises while it collects gets lost."""
    if hasattr(config, "workerinput"):
        raise usage(
            "perf cases cannot share a machine with other workers",
            expected="one process",
            got="pytest-xdist (-n)",
            remedy="add -n 0 (or -p no:xdist) for the perf folder",
        )


def _refuse_marker(item: pytest.Item) -> None:
    for marker in item.iter_markers("benchmark"):
        if isinstance(marker.kwargs.get("timer"), ReplayTimer):
            continue  # our own, which repeats what the closest other one says
        if unknown := sorted(marker.kwargs.keys() - set(MARKER)):
            raise usage(
                f"{item.nodeid}: @pytest.mark.benchmark({unknown[0]}=...) has no meaning for a "
                "perf case, which is not timed by pytest-benchmark's loop",
                expected=f"some of {', '.join(MARKER)}",
                got=", ".join(unknown),
                remedy="leave it out",
            )
