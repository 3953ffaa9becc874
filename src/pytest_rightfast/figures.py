"""The figures of `rightfast plot`. Only this module imports matplotlib."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from .errors import PerfError
from .plot import family
from .rows import Row
from .tables import by_case, groups, seconds, short

MOST_BARS, MOST_PANELS = 150, 24
TIME = "time of one call (log scale)"
MARKERS = "osD^vP*X<>"
Point = tuple[float, Row]
Axes = Any


def bars(rows: Sequence[Row]) -> Figure:
    """A bar for each backend of each case: the median, with the spread as a whisker."""
    panels = list(groups(rows))
    if len(rows) > MOST_BARS:
        raise _too_many(f"{len(rows)} bars", MOST_BARS)
    heights = [_bar_places(members)[1] for _, members in panels]
    figure = Figure(
        figsize=(8.5, 1.4 + 0.75 * len(panels) + 0.19 * sum(heights)), layout="constrained"
    )
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    colours = _colours(rows)
    for axis, (title, members) in zip(axes, panels):
        _draw_bars(axis, members, colours)
        axis.set_title(title, loc="left")
    _legend(figure, colours, f"whiskers: {_whiskers(rows)}")
    return figure


def _bar_places(members: Sequence[Row]) -> tuple[list[tuple[Row, float]], float]:
    """Where each bar stands, a gap between cases; and the height of all."""
    place, found = 0.0, []
    for case in by_case(members).values():
        for row in case:
            found.append((row, place))
            place += 1.0
        place += 0.8
    return found, place


def _draw_bars(axis: Axes, members: Sequence[Row], colours: dict[str, str]) -> None:
    places, height = _bar_places(members)
    times = [end for row in members if row.median for end in (row.interval or (row.median,))]
    times += [row.median for row in members if row.median]
    low = 10 ** math.floor(math.log10(min(times)) - 0.15) if times else 1e-6
    axis.set_xscale("log")
    for row, place in places:
        if row.median:
            axis.barh(place, row.median - low, 0.85, left=low, color=colours[row.backend])
            axis.errorbar(row.median, place, xerr=_errors(row), ecolor="black", elinewidth=0.9,
                          capsize=2)  # fmt: skip
            end = max(row.median, (row.interval or (0.0, 0.0))[1])
            axis.annotate(seconds(row.median), (end, place), (4, 0), textcoords="offset points",
                          va="center", fontsize=7)  # fmt: skip
        else:
            axis.annotate(f"{row.backend}: {row.status}", (low, place), (4, 0), color="firebrick",
                          textcoords="offset points", va="center", fontsize=7)  # fmt: skip
    cases = by_case([row for row, _ in places])
    middles = [[p for row, p in places if row.case == case] for case in cases]
    axis.set_yticks([sum(m) / len(m) for m in middles], [short(case) for case in cases])
    axis.set_ylim(height - 0.9, -0.9)
    # Room for the numbers behind the longest bar.
    axis.set_xlim(low, max(times, default=low * 10) * (max(times, default=low * 10) / low) ** 0.12)
    _time_axis(axis.xaxis)
    axis.set_xlabel(TIME)
    axis.grid(axis="x", alpha=0.3)
    axis.set_axisbelow(True)


def scaling(rows: Sequence[Row]) -> Figure:
    """Time over the bytes that a case states, a line for each backend, a panel for each family of
    cases that differ in size alone."""
    lines: dict[str, dict[str, list[Point]]] = {}
    for label, row in _labelled(rows):
        if row.median and row.moved_bytes:
            point = (float(row.moved_bytes), row)
            lines.setdefault(family(short(row.case)), {}).setdefault(label, []).append(point)
    lines = {name: found for name, found in lines.items() if max(map(len, found.values())) > 1}
    if not lines:
        raise PerfError(
            "there is no size to draw over",
            expected="cases that state moved_bytes, in at least two sizes",
            got=", ".join(sorted({short(row.case) for row in rows})[:3]),
            remedy="give the case moved_bytes=, or draw --kind bars",
        )

    def finish(axis: Axes, points: list[Point]) -> None:
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_locator(LogLocator(base=2, numticks=5))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _bytes(value)))
        axis.set_xlabel("bytes read and written (log scale)")

    return _panels(rows, lines, finish)


def history(rows: Sequence[Row]) -> Figure:
    """Time over commits, oldest first, a line for each backend and a panel for each case."""
    commits: dict[str, str] = {}
    for row in rows:
        when = row.environment.get("committed") or row.environment.get("time") or ""
        commits.setdefault(_commit(row), str(when))
    ordered = sorted(commits, key=lambda commit: commits[commit])
    if len(ordered) < 2:
        raise PerfError(
            "there is no history to draw",
            expected="files of at least two commits",
            got=f"one: {ordered[0]}",
            remedy="measure other commits with --perf-json, and name all the files",
        )
    lines: dict[str, dict[str, list[Point]]] = {}
    for label, row in _labelled(rows, without=("commit", "with")):
        if row.median:
            point = (float(ordered.index(_commit(row))), row)
            lines.setdefault(short(row.case), {}).setdefault(label, []).append(point)

    def finish(axis: Axes, points: list[Point]) -> None:
        axis.set_xticks(range(len(ordered)), ordered, rotation=45, ha="right", fontsize=7)
        axis.set_xlim(-0.4, len(ordered) - 0.6)
        axis.set_xlabel("commit, oldest first (*: with changes)")

    return _panels(rows, lines, finish)


def _labelled(rows: Sequence[Row], without: tuple[str, ...] = ()) -> list[tuple[str, Row]]:
    """Each row with the name of its line: the backend, and what tells its table from others."""
    named = []
    for title, members in groups(rows):
        parts = [part for part in title.split(", ") if not part.startswith((*without, "median"))]
        named.append((parts, members))
    common = set.intersection(*(set(parts) for parts, _ in named))
    found = []
    for parts, members in named:
        own = ", ".join(part for part in parts if part not in common)
        found += [(f"{row.backend} ({own})" if own else row.backend, row) for row in members]
    return found


def _panels(
    rows: Sequence[Row],
    lines: dict[str, dict[str, list[Point]]],
    finish: Callable[[Axes, list[Point]], None],
) -> Figure:
    if len(lines) > MOST_PANELS:
        raise _too_many(f"{len(lines)} panels", MOST_PANELS)
    columns = min(3, len(lines))
    down = math.ceil(len(lines) / columns)
    figure = Figure(figsize=(max(5.5, 3.9 * columns), 0.9 + 3.1 * down), layout="constrained")
    axes = list(figure.subplots(down, columns, squeeze=False).flat)
    colours = _colours([], list(dict.fromkeys(name for found in lines.values() for name in found)))
    for axis, (title, found) in zip(axes, lines.items()):
        for name, points in found.items():
            _draw_line(axis, sorted(points, key=lambda point: point[0]), colours, name)
        axis.set_yscale("log")
        _time_axis(axis.yaxis)
        axis.set_ylabel(TIME)
        axis.set_title(title, fontsize=8)
        axis.grid(alpha=0.3)
        finish(axis, [point for points in found.values() for point in points])
    for axis in axes[len(lines) :]:
        axis.set_visible(False)
    titles = list(groups(rows))
    if len(titles) == 1:
        figure.suptitle(titles[0][0], fontsize=9)
    _legend(figure, colours, f"whiskers: {_whiskers(rows)}", MARKERS)
    return figure


def _draw_line(axis: Axes, points: list[Point], colours: dict[str, str], name: str) -> None:
    ends = [_errors(row) or [[0.0], [0.0]] for _, row in points]
    axis.errorbar(
        [place for place, _ in points],
        [row.median for _, row in points],
        yerr=[[end[side][0] for end in ends] for side in (0, 1)],
        color=colours[name],
        marker=MARKERS[list(colours).index(name) % len(MARKERS)],
        markersize=4,
        linewidth=1.2,
        capsize=2,
    )


def _errors(row: Row) -> list[list[float]] | None:
    """Distances from the median down and up."""
    if row.interval is None or row.median is None:
        return None
    low, high = row.interval
    return [[max(0.0, row.median - low)], [max(0.0, high - row.median)]]


def _whiskers(rows: Sequence[Row]) -> str:
    repeated = {len(row.processes) > 1 for row in rows if row.samples}
    names = {True: "range of the processes' medians", False: "middle half of the samples"}
    return " or ".join(names[one] for one in sorted(repeated))


def _colours(rows: Sequence[Row], names: Sequence[str] | None = None) -> dict[str, str]:
    """One colour a backend, in order of appearance; those that have no bar at all are left out."""
    if names is None:
        names = list(dict.fromkeys(row.backend for row in rows if row.median))
    return {name: f"C{index % 10}" for index, name in enumerate(names)}


def _legend(figure: Figure, colours: dict[str, str], note: str, markers: str = "") -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Patch(color=colour, label=name) for name, colour in colours.items()]
    if markers:
        handles = [
            Line2D([], [], color=colour, marker=markers[index % len(markers)], label=name)
            for index, (name, colour) in enumerate(colours.items())
        ]
    # So many as fit, by the width of a letter.
    wide = 0.6 + 0.075 * max(len(name) for name in colours)
    columns = max(1, min(len(handles), int(0.95 * figure.get_figwidth() / wide)))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, title=note)


def _time_axis(axis: Any) -> None:
    axis.set_major_locator(LogLocator(numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: seconds(value)))
    low, high = axis.get_view_interval()
    # Within one decade the powers of ten alone would leave an axis without numbers.
    narrow = high / low < 30
    axis.set_minor_locator(LogLocator(subs=(2.0, 5.0) if narrow else range(2, 10)))
    minor = FuncFormatter(lambda value, _: seconds(value)) if narrow else NullFormatter()
    axis.set_minor_formatter(minor)


def _bytes(value: float) -> str:
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.3g} B"


def _commit(row: Row) -> str:
    commit = str(row.environment.get("commit"))[:8]
    return f"{commit}*" if row.environment.get("dirty") else commit


def _too_many(what: str, most: int) -> PerfError:
    return PerfError(
        f"{what} are too many for one figure",
        expected=f"{most} at most",
        got=what,
        remedy="choose cases with -k WORD",
    )
