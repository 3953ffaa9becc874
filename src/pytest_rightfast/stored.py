"""A stored run against this one: what can be decided at once, and what needs pairs. Pure.

Answers, accuracy and exact counters do not depend on the hour, so a stored run decides them. Times
do: two runs of the same code differ by more than most regressions, so a slower time is a suspect,
to be confirmed or cleared by fresh pairs against the stored run's commit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import ResultsError
from .results import Row
from .ulps import worst_ratio
from .verdicts import Facts, Judgement, Side, Status, exact_counters, judge

# What rounding an exact answer to float32 costs already; below it no ratio means anything.
ERROR_FLOOR = 3e-8
# Versions that must be equal for counters, and hardware that must be equal for times.
VERSIONS = ("python", "torch", "triton")
HARDWARE = ("host", "cpu", "cpu_count", "gpu", "driver", "affinity")


@dataclass(frozen=True)
class Bench:
    """One case of a stored run; `median` in seconds."""

    median: float
    errors: Mapping[str, float]
    counters: Mapping[str, int]
    threads: int | None
    environment: Mapping[str, Any]


@dataclass(frozen=True)
class Stored:
    """A saved run. `commit` is what it measured; `dirty` that the tree held more than that."""

    name: str
    commit: str | None
    dirty: bool
    benches: Mapping[str, Bench] = field(default_factory=dict)


def load(path: Path) -> Stored:
    """Read a run that pytest-benchmark or `--perf-baseline` saved. Raises ResultsError."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return parse(path.name, content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultsError(
            f"cannot read the saved run {path}: {error!r}",
            expected="a file written by --benchmark-save or --perf-baseline",
            remedy="delete it; the next run makes a new one",
        ) from error


def parse(name: str, content: Mapping[str, Any]) -> Stored:
    commit = content.get("commit_info") or {}
    return Stored(
        name,
        commit.get("id"),
        bool(commit.get("dirty")),
        {bench["fullname"]: _bench(bench) for bench in content["benchmarks"]},
    )


def _bench(bench: Mapping[str, Any]) -> Bench:
    extra = bench.get("extra_info") or {}
    return Bench(
        float(bench["stats"]["median"]),
        extra.get("errors") or {},
        extra.get("counters") or {},
        extra.get("threads"),
        extra.get("environment") or {},
    )


def judgements(rows: Iterable[Row], stored: Stored, whole: bool) -> list[Judgement]:
    """Verdicts on answers, accuracy, counters and presence; times are left open.

    Args:
        whole: the run left nothing out, so that a case which is not there is gone.
    """
    subjects = {row.id: row for row in rows if row.role == "subject"}
    found = [judge(_facts(row, stored.benches.get(name))) for name, row in subjects.items()]
    if whole:
        peers = {row.id for row in rows if row.role == "peer"}
        gone = stored.benches.keys() - subjects.keys() - peers
        found += [judge(Facts(n, Side(Status.OK), Side(Status.ABSENT))) for n in sorted(gone)]
    return found


def _facts(row: Row, old: Bench | None) -> Facts:
    status = {
        "ok": Status.OK,
        "wrong": Status.WRONG,
        "unsupported": Status.SKIPPED,
        "error": Status.RAISED,
    }[row.status]
    head = Side(status, row.reason or "")
    if old is None:
        return Facts(row.id, Side(Status.ABSENT, "the stored run has no such case"), head)
    versions = [{k: str(e.get(k)) for k in VERSIONS} for e in (old.environment, row.environment)]
    counters = exact_counters([old.counters] * 2, [row.counters] * 2, *versions)
    return Facts(
        row.id,
        Side(Status.OK),
        head,
        error_ratio=worst_ratio(old.errors, row.errors, ERROR_FLOOR),
        counters=counters,
    )


def suspects(rows: Sequence[Row], stored: Stored, effect: float) -> list[tuple[Row, float]]:
    """Subjects whose time is above the stored one by more than `effect`, worst first."""
    found = []
    for row in rows:
        old = stored.benches.get(row.id)
        if row.role == "subject" and old is not None and row.median and comparable(row, old):
            ratio = row.median / old.median
            if ratio > 1 + effect:
                found.append((row, ratio))
    return sorted(found, key=lambda one: -one[1])


def comparable(row: Row, old: Bench) -> bool:
    """Whether a stored time says anything here: same machine, GPU, driver and thread count."""
    same = all(old.environment.get(key) == row.environment.get(key) for key in HARDWARE)
    return same and (old.threads is None or old.threads == row.threads)


def elsewhere(rows: Iterable[Row], stored: Stored) -> list[str]:
    """Cases whose stored time was taken on another machine or with other threads."""
    return [
        row.id
        for row in rows
        if row.median and row.id in stored.benches and not comparable(row, stored.benches[row.id])
    ]
