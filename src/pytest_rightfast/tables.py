"""The terminal tables: one per device and thread count, backends of a case together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from .results import Row

HEADERS = ("case", "backend", "median", "spread", "ratio", "GB/s", "of copy", "error", "")


def tables(rows: Sequence[Row], stored: Mapping[str, float] | None = None) -> Iterable[str]:
    """Yield titles and tables.

    Args:
        rows: in the order in which they ran.
        stored: medians of the compared run by test id; adds a column.
    """
    ordered = sorted(rows, key=lambda row: (row.device, row.threads))
    for (device, threads), members in groupby(ordered, key=lambda row: (row.device, row.threads)):
        yield f"{device}, {threads} thread{'s' if threads != 1 else ''}"
        yield table(list(members), stored)


def table(rows: Sequence[Row], stored: Mapping[str, float] | None = None) -> str:
    from tabulate import tabulate

    headers = [*HEADERS[:-1], *(["vs stored"] if stored is not None else []), HEADERS[-1]]
    lines = []
    by_case: dict[str, list[Row]] = {}
    for row in rows:
        by_case.setdefault(row.case, []).append(row)
    for case, members in by_case.items():
        base = next((row for row in members if row.median), None)
        for index, row in enumerate(members):
            line = _line(row, base, short(case) if index == 0 else "")
            if stored is not None:
                line.insert(-1, _ratio(row.median, stored.get(row.id)))
            lines.append(line)
    right: tuple[str, ...] = ("left", "left") + ("right",) * (len(headers) - 3) + ("left",)
    text = tabulate(lines, headers, tablefmt="simple", colalign=right, disable_numparse=True)
    return "\n".join([text, *_reasons(rows)])


def _reasons(rows: Sequence[Row]) -> list[str]:
    """One line for each row without a time; peers that cannot run a case are one line each."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        if row.status != "ok":
            text = " ".join((row.reason or "").split())
            what = f"{row.status.upper()} {row.role} {row.backend}: {text}"
            lines.setdefault(what, []).append(short(row.case))
    return [f"  {what}  [{', '.join(cases)}]" for what, cases in lines.items()]


def _line(row: Row, base: Row | None, case: str) -> list[str]:
    """The ratio is to the first backend of the case that has a time."""
    rate = row.moved_bytes / row.median / 1e9 if row.moved_bytes and row.median else None
    limit = row.copy_seconds / row.median if row.copy_seconds and row.median else None
    return [
        case,
        row.backend,
        seconds(row.median),
        f"{row.spread:.1%}" if row.spread is not None else "",
        "" if base is row else _ratio(row.median, base.median if base else None),
        f"{rate:.2f}" if rate else "",
        f"{limit:.0%}" if limit else "",
        f"{row.error:.1e}" if row.error is not None and row.status == "ok" else "",
        "" if row.status == "ok" else row.status.upper(),
    ]


def _ratio(one: float | None, other: float | None) -> str:
    return f"{one / other:.2f}x" if one and other else ""


def seconds(value: float | None) -> str:
    """A time with its unit, three digits."""
    if value is None:
        return ""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return (
                f"{value / scale:.3g} {unit}"
                if value < 999.5 * scale
                else f"{value / scale:.0f} {unit}"
            )
    return f"{value / 1e-9:.3g} ns"


def short(case: str) -> str:
    """`test_file.py::test_name[params]` without the folder and the `test_` prefixes."""
    file, _, name = case.partition("::")
    stem = file.rpartition("/")[2].removeprefix("test_").removesuffix(".py")
    return f"{stem}: " + "::".join(part.removeprefix("test_") for part in name.split("::"))
