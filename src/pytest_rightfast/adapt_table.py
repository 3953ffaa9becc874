"""Perf cases from a table of callables, such as an operator registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .case import Backend, PerfCase, backends
from .errors import CaseError

OWN = {"case", "arguments"}  # keys that name no backend


def from_table(table: Mapping[str, Mapping[str, Any]]) -> Callable[..., None]:
    """A test of every implementation in a table: `test_operators = from_table(TABLE)`.

    Args:
        table: name of the operation -> its backends by name (functions, `subject`, `peer`), under
            `"case"` the `PerfCase` with their reference, and, unless the case has `inputs`, under
            `"arguments"` a function that returns them. It is called in the test, where torch's,
            numpy's and Python's global generators are seeded; at import they are not.

    Raises:
        CaseError: a row without a case, or without a function.
    """
    import pytest

    cases = []
    for name, row in table.items():
        case, arguments = row.get("case"), row.get("arguments", tuple)
        if not isinstance(case, PerfCase) or not set(row) - OWN or not callable(arguments):
            raise CaseError(
                f"the row {name!r} can't be measured",
                expected='{"ours": function, ..., "case": PerfCase(inputs=..., reference=...)}',
                got=f"the keys {list(row)}",
                remedy="name at least one function, and give the row a case",
            )
        for backend in backends({key: value for key, value in row.items() if key not in OWN}):
            cases.append(pytest.param((case, arguments), backend, id=f"{name}-{backend.name}"))

    def test(perf: Callable[..., Any], row: tuple[PerfCase, Any], backend: Backend) -> None:
        case, arguments = row
        perf(backend, *arguments(), case=case)

    marked: Callable[..., None] = pytest.mark.parametrize(("row", "backend"), cases)(test)
    return marked
