"""The perf cases as benchmarks of airspeed velocity; see docs/history.md."""

from pytest_rightfast.asv_cases import export

export(
    globals(),
    arguments=["--perf-threads", "1", "--benchmark-max-time", "0.3", "--benchmark-min-rounds", "3"],
)
