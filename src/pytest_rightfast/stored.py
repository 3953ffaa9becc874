"""A stored run against this one: what is decided at once, and what only pairs can decide. Pure.

Answers, accuracy and exact counters do not depend on the hour, so a stored run decides them. Times
do: two runs of the same code differ by more than most regressions. A slower time is a suspect, to
be confirmed or cleared by pairs of fresh processes against the stored run's commit.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .config import Config
from .errors import ResultsError
from .results import Row
from .statistics import Decision, Outcome
from .ulps import worst_ratio
from .verdicts import Facts, Judgement, Side, Status, exact_counters, judge

# A time above the stored one by this factor is looked into, if the middle halves of the two samples
# lie apart as well.
SUSPECT = 1.10
# Above this one whatever the spread: a baseline that was made under load must not blind a case.
CERTAIN = 1.5
# Peers, whose code is not ours to change, say how slow the machine is today; so many at least, and
# no more than this: a peer may be slower for a reason of its own.
PEERS, MOST_DRIFT = 5, 1.25
# What must be equal for counters, and for times.
VERSIONS = ("python", "torch", "triton", "numpy")
CONDITIONS = (*VERSIONS, "host", "cpu", "cpu_count", "gpu", "driver", "affinity")
STATUSES = {
    "ok": Status.OK,
    "wrong": Status.WRONG,
    "unsupported": Status.SKIPPED,
    "error": Status.RAISED,
}


@dataclass(frozen=True)
class Bench:
    """One case of a stored run; `median` and `upper` (the upper quartile) in seconds.

    `role`: `subject`, `peer`, or empty for what is no perf case.
    """

    median: float
    upper: float
    role: str
    errors: Mapping[str, float]
    counters: Mapping[str, int]
    inputs: str
    threads: int | None
    environment: Mapping[str, Any]


@dataclass(frozen=True)
class Stored:
    """A saved run. `commit` is what it measured; `dirty`: the tree held more than that."""

    name: str
    commit: str | None
    dirty: bool
    benches: Mapping[str, Bench] = field(default_factory=dict)

    @property
    def medians(self) -> dict[str, float]:
        return {name: bench.median for name, bench in self.benches.items()}


@dataclass(frozen=True)
class Suspect:
    """A case whose time is in doubt; `ratio` to the stored time is 0 if that says nothing here."""

    id: str
    ratio: float
    reason: str


def load(path: Path) -> Stored:
    """Read a run that pytest-benchmark or the plugin saved. Raises ResultsError."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _unreadable(str(path), error) from error
    return parse(path.name, content)


def parse(name: str, content: Any) -> Stored:
    """A run in pytest-benchmark's form; what is no perf case has a time alone.

    Raises ResultsError if a field is not what it should be: it would decide something wrongly.
    """
    try:
        commit = content.get("commit_info") or {}
        known = commit.get("id") not in (None, "unversioned", "unknown")
        return Stored(
            name,
            commit["id"] if known else None,
            bool(commit.get("dirty")),
            {bench["fullname"]: _bench(bench) for bench in content["benchmarks"]},
        )
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: Exception) -> ResultsError:
    return ResultsError(
        f"cannot read the saved run {name}: {error!r}",
        expected="a file written by --benchmark-save or --perf-baseline",
        got="something else, or a file that was cut off or edited",
        remedy="delete it; the next run makes a new one",
    )


def _bench(bench: Mapping[str, Any]) -> Bench:
    extra = bench.get("extra_info") or {}
    median, upper = float(bench["stats"]["median"]), float(bench["stats"]["q3"])
    if not 0 < median <= upper < math.inf:
        raise ValueError(f"a median of {median} s and an upper quartile of {upper} s")
    for name in ("errors", "counters", "environment"):
        if not isinstance(extra.get(name) or {}, dict):
            raise TypeError(f"{name} is no table")
    return Bench(
        median,
        upper,
        extra.get("role") or "",
        {name: float(value) for name, value in (extra.get("errors") or {}).items()},
        {name: int(value) for name, value in (extra.get("counters") or {}).items()},
        str(extra.get("inputs") or ""),
        extra.get("threads"),
        extra.get("environment") or {},
    )


def suspects(rows: Sequence[Row], stored: Stored) -> list[Suspect]:
    """Cases that only pairs can decide, worst first; those without a usable stored time last."""
    found = []
    slow = drift(rows, stored)
    beside = f", the peers' being {slow:.2f}x theirs" if slow > 1 else ""
    for row in rows:
        old = stored.benches.get(row.id)
        if row.role != "subject" or old is None or row.median is None:
            continue
        if why := elsewhere(row, old):
            found.append(Suspect(row.id, 0.0, f"the stored time is of another {why}"))
            continue
        ratio, apart = row.median / old.median, _lower(row) > old.upper * slow
        if ratio > slow * (SUSPECT if apart else CERTAIN):
            found.append(Suspect(row.id, ratio, f"{ratio:.2f}x the stored time{beside}"))
    return sorted(found, key=lambda one: -one.ratio)


def drift(rows: Sequence[Row], stored: Stored) -> float:
    """How many times slower the peers are than they were in the stored run, in the median, up to
    MOST_DRIFT; never below 1: on a faster machine a suspect stays one."""
    pairs = [(row, stored.benches.get(row.id)) for row in rows if row.role == "peer"]
    ratios = [
        row.median / old.median
        for row, old in pairs
        if old is not None and old.role == "peer" and row.median and not elsewhere(row, old)
    ]
    if len(ratios) < PEERS:
        return 1.0
    return min(max(1.0, statistics.median(ratios)), MOST_DRIFT)


def _lower(row: Row) -> float:
    """The lower quartile of the samples."""
    return statistics.quantiles(row.samples, n=4)[0] if len(row.samples) > 1 else row.samples[0]


def elsewhere(row: Row, old: Bench) -> str:
    """What makes a stored time incomparable: the first of `CONDITIONS` that differs, or empty."""
    if old.threads is not None and old.threads != row.threads:
        return "number of threads"
    differ = (k for k in CONDITIONS if old.environment.get(k) != row.environment.get(k))
    return next(differ, "") if old.environment else "machine, as far as it tells"


def judgements(
    rows: Iterable[Row],
    stored: Stored,
    doubts: Sequence[Suspect],
    config: Config,
    whole: bool,
    asked: Collection[str] = (),
) -> list[Judgement]:
    """A verdict for each subject of this run, and for those that are gone or were not measured.

    Args:
        doubts: of `suspects`; their time is left undecided.
        whole: this run left nothing out, so that a case which is not there is gone.
        asked: ids that were to run.
    """
    listed = list(rows)
    doubt = {one.id: one for one in doubts}
    found = [
        judge(_facts(row, stored.benches.get(row.id), doubt.get(row.id), config.case))
        for row in listed
        if row.role == "subject"
    ]
    roles = {row.id: row.role for row in listed}
    for name, bench in stored.benches.items():
        if bench.role != "subject" or roles.get(name) == "subject":
            continue
        if name in roles:
            head = Side(Status.NOT_MEASURED, "it is a peer now")
        elif name in asked:
            head = Side(Status.NOT_MEASURED, "it was to run, and did not")
        elif whole:
            head = Side(Status.ABSENT)
        else:
            continue
        found.append(judge(Facts(name, Side(Status.OK), head)))
    return found


def _facts(row: Row, old: Bench | None, doubt: Suspect | None, case: Callable[[str], Any]) -> Facts:
    head = Side(STATUSES[row.status], row.reason or "")
    if old is None:
        return Facts(row.id, Side(Status.ABSENT, "the stored run has no such case"), head)
    if old.inputs and row.inputs and old.inputs != row.inputs:
        return Facts(row.id, Side(Status.OK), head, differ="the stored run drew other inputs")
    versions = [{k: str(e.get(k)) for k in VERSIONS} for e in (old.environment, row.environment)]
    limit = case(row.id).accuracy_limit
    return Facts(
        row.id,
        Side(Status.OK),
        head,
        decision=None if doubt is None else _open(doubt),
        error_ratio=worst_ratio(old.errors, row.errors),
        accuracy_limit=Facts.accuracy_limit if limit is None else limit,
        counters=exact_counters([old.counters] * 2, [row.counters] * 2, *versions),
        untimed="" if doubt else _unsuspected(row, old),
    )


def _unsuspected(row: Row, old: Bench) -> str:
    if row.median is None or row.median <= SUSPECT * old.median:
        return f"below {SUSPECT:.2f}x the stored time"
    ratio = row.median / old.median
    return f"{ratio:.2f}x the stored time, within its spread or no slower than the peers are today"


def _open(doubt: Suspect) -> Decision:
    return Decision(Outcome.UNDECIDED, doubt.ratio, 0.0, math.inf, math.inf, 0, doubt.reason)
