"""Perf cases from a table of callables, such as an operator registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .case import Backend, PerfCase, backends
from .errors import CaseError


def from_table(table: Mapping[str, Mapping[str, Any]]) -> Callable[..., None]:
    """A test of every implementation in a table: `test_operators = from_table(TABLE)`.

    Args:
        table: name of the operation -> its backends by name (functions, `subject`, `peer`), and
            under `"case"` the `PerfCase` with their inputs and reference.

    Raises:
        CaseError: a row without a case, or without a function.
    """
    import pytest

    cases = []
    for name, row in table.items():
        case = row.get("case")
        if not isinstance(case, PerfCase) or len(row) < 2:
            raise CaseError(
                f"the row {name!r} can't be measured",
                expected='{"ours": function, ..., "case": PerfCase(inputs=..., reference=...)}',
                got=f"the keys {list(row)}",
                remedy="name at least one function, and give the row a case",
            )
        for backend in backends({key: value for key, value in row.items() if key != "case"}):
            cases.append(pytest.param(case, backend, id=f"{name}-{backend.name}"))

    def test(perf: Callable[..., Any], perf_case: PerfCase, backend: Backend) -> None:
        perf(backend, case=perf_case)

    marked: Callable[..., None] = pytest.mark.parametrize(("perf_case", "backend"), cases)(test)
    return marked
