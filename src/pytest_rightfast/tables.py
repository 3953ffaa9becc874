"""The tables of a run, live or from files: one for each device, thread count, heap and machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from . import profiles
from .rows import INTERRUPTED, Row

HEADERS = ("case", "backend", "median", "spread", "ratio", "GB/s", "of copy", "error", "status")
# Rows that differ in one of these are no table together; the title names what differs.
WHERE = ("host", "cpu", "gpu", "driver", "python", "torch", "commit", "dirty")


@dataclass(frozen=True)
class Block:
    """One table with its title, and the lines below it."""

    title: str
    headers: tuple[str, ...]
    lines: list[list[str]]
    notes: list[str]
    left: int = 2  # so many columns hold words

    def text(self, form: str = "simple") -> str:
        """`form`: of tabulate, `simple` for the terminal or `pipe` for Markdown."""
        from tabulate import tabulate

        worded = self.headers[-1] == HEADERS[-1]
        numbers = len(self.headers) - self.left - worded
        words = ("left",) * self.left
        align = words + ("right",) * numbers + ("left",) * worded
        cells = self.lines
        if form == "pipe":
            cells = [[escape(cell) for cell in line] for line in cells]
        return tabulate(cells, self.headers, tablefmt=form, colalign=align, disable_numparse=True)


def escape(text: str) -> str:
    """Text that Markdown shows as it is, in a cell or a line."""
    for special in "\\`*_[]<>|":
        text = text.replace(special, f"\\{special}")
    return text


def tables(rows: Sequence[Row], stored: Mapping[str, float] | None = None) -> Iterable[str]:
    """Yield titles and tables.

    Args:
        rows: of a run, or of several.
        stored: medians of the compared run by test id; adds a column.
    """
    for block in blocks(rows, stored):
        yield block.title
        yield "\n".join([block.text(), *block.notes])


def blocks(rows: Sequence[Row], stored: Mapping[str, float] | None = None) -> Iterator[Block]:
    """The tables in order, those of times before that of operators."""
    for title, members in groups(rows):
        yield block(title, members, stored)
        profiled = [row for row in members if row.profile]
        if profiled:
            headers, lines, notes = profiles.table(profiled, short)
            yield Block(f"{title}: time by operator", headers, lines, notes, left=3)


def groups(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Rows that may be compared, under a title that says what they have in common."""
    listed = in_order(rows)
    first: dict[tuple[str, ...], str] = {}
    for row in listed:
        when = str(row.environment.get("committed") or row.environment.get("time") or "")
        first[_where(row)] = min(first.get(_where(row), when), when)

    def key(row: Row) -> tuple[object, ...]:
        return row.device, row.threads, row.heap, first[_where(row)], _where(row)

    for _, found in groupby(sorted(listed, key=key), key=key):
        members = list(found)
        yield _title(members, [row for row in listed if row.device == members[0].device]), members


def in_order(rows: Sequence[Row]) -> list[Row]:
    """As pytest collected them, file by file; runs of other files keep the order of `rows`."""
    place: dict[str, tuple[int, int]] = {}
    for index, row in enumerate(rows):
        file = row.id.partition("::")[0]
        order, seen = place.get(file, (row.order, index))
        place[file] = (min(order, row.order), seen)
    return sorted(rows, key=lambda row: (place[row.id.partition("::")[0]], row.order))


def _where(row: Row) -> tuple[str, ...]:
    return tuple(str(row.environment.get(name)) for name in WHERE)


def _title(members: Sequence[Row], peers: Sequence[Row]) -> str:
    row = members[0]
    parts = [row.device, f"{row.threads} thread{'s' if row.threads != 1 else ''}"]
    asked = sorted({one.threads_asked for one in members} - {row.threads})
    parts[-1] += f" ({' and '.join(map(str, asked))} asked)" if asked else ""
    parts.append(f"{row.heap} heap")
    if (processes := max(len(one.processes) for one in members)) > 1:
        parts.append(f"median of {processes} processes")
    for index, name in enumerate(WHERE):
        if len({_where(one)[index] for one in peers}) > 1:
            value = row.environment.get(name)
            text = f"{name} {str(value)[:12] if name == 'commit' else value}"
            parts.append(("with" if value else "without") + " changes" if name == "dirty" else text)
    return ", ".join(parts)


def table(rows: Sequence[Row], stored: Mapping[str, float] | None = None) -> str:
    """One table as text, with a line for each reason why there is no time."""
    made = block("", rows, stored)
    return "\n".join([made.text(), *made.notes])


def block(title: str, rows: Sequence[Row], stored: Mapping[str, float] | None = None) -> Block:
    headers = [*HEADERS[:-1], *(["vs stored"] if stored is not None else []), HEADERS[-1]]
    lines = []
    for case, members in by_case(rows).items():
        base = first_timed(members)
        for index, row in enumerate(members):
            line = _line(row, base, short(case) if index == 0 else "")
            if stored is not None:
                line.insert(-1, _ratio(row.median, stored.get(row.id)))
            lines.append(line)
    return Block(title, tuple(headers), lines, _reasons(rows))


def by_case(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The backends of each case, in order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.case, []).append(row)
    return found


def first_timed(members: Sequence[Row]) -> Row | None:
    """The backend of a case that the others' ratios are to."""
    return next((row for row in members if row.median), None)


def _reasons(rows: Sequence[Row]) -> list[str]:
    """One line for each row without a time; peers that cannot run a case are one line each."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        if row.status != "ok":
            text = " ".join((row.reason or "").split())
            what = f"{row.word.upper()} {row.role} {row.backend}"
            what += f": {text}" if row.word != INTERRUPTED else ", by no fault of its own"
            lines.setdefault(what, []).append(short(row.case))
    return [f"  {what}  [{', '.join(cases)}]" for what, cases in lines.items()]


def _line(row: Row, base: Row | None, case: str) -> list[str]:
    """The ratio is to the first backend of the case that has a time."""
    rate, limit = gigabytes_per_second(row), of_copy(row)
    return [
        case,
        row.backend,
        seconds(row.median),
        f"{row.spread:.1%}" if row.spread is not None else "",
        "" if base is row else _ratio(row.median, base.median if base else None),
        f"{rate:.2f}" if rate else "",
        f"{limit:.0%}" if limit else "",
        f"{row.error:.1e}" if row.error is not None and row.status == "ok" else "",
        "" if row.status == "ok" else row.word.upper(),
    ]


def gigabytes_per_second(row: Row) -> float | None:
    return row.moved_bytes / row.median / 1e9 if row.moved_bytes and row.median else None


def of_copy(row: Row) -> float | None:
    """The time of `copy_` of the same bytes over the row's."""
    return row.copy_seconds / row.median if row.copy_seconds and row.median else None


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
