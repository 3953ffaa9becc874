"""The gate: base against head, verified, counted and timed in pairs of fresh processes.

In order: what is compared (git), how each side is made (`gate_sides`), whose answers are right and
what they cost (`trial`), how fast they are (`rounds`), what follows from it (`verdicts`, `exits`).
"""

from __future__ import annotations

import datetime
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import accepted, gate_sides, git, locks, pairs, traces
from .errors import PerfError
from .exits import Result, conclude
from .gate_sides import Progress, Question
from .rounds import Rounds, Watch, arms_of
from .statistics import Plan
from .trial import Case, Trial, comparable
from .verdicts import Facts, Judgement, Verdict, judge


@dataclass
class Report:
    """The gate's result, before it is written anywhere."""

    base: git.Source
    head: git.Source
    plan: Plan
    cases: list[Case]
    judgements: list[Judgement]
    result: Result
    pairs: int
    seconds: float
    notes: list[str]
    fail_on: frozenset[Verdict]


def run(question: Question, say: Progress) -> Report:
    """Compare head with base. Raises PerfError where the gate itself cannot run."""
    try:
        with _terminated():
            return _run(question, say)
    except (OSError, git.FullError) as error:
        raise PerfError(
            f"the gate could not read or write what it needs: {error}",
            remedy=f"make room in {tempfile.gettempdir()}, or name another folder in TMPDIR",
        ) from error


@contextmanager
def _terminated() -> Iterator[None]:
    """A CI job that is cancelled is sent SIGTERM: clean up as after Ctrl-C."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt("SIGTERM")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(question: Question, say: Progress) -> Report:
    watch = Watch(question.config.budget)
    root = git.toplevel(question.root)
    waivers = accepted.load(question.root / "perf" / "accepted.toml")
    base = git.resolve(root, question.revision, merge_base=not question.tip)
    with ExitStack() as stack:
        stack.enter_context(locks.measuring())
        head = stack.enter_context(git.working_tree(root))
        say(f"base {base.commit[:12]}, head {head.commit[:12]}{' and changes' * head.dirty}")
        arms = gate_sides.prepare(question, root, base, head, say)
        outputs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rightfast-")))
        cases, rounds, notes = _measure(question, arms, outputs, watch, say)
    judgements = [_judge(case, question, waivers) for case in cases]
    settings, untimed = question.config, rounds.untimed_all
    result = conclude(
        judgements, fail_on=settings.fail_on, advisory=settings.advisory, untimed=untimed
    )
    notes += [untimed] if untimed else []
    if watch.spent() > watch.budget:
        notes.append(
            f"{watch.spent():.0f} s, over the budget of {watch.budget:g} s: every case is "
            "verified, whatever that takes; the budget only limits the timing"
        )
    notes += waiver_notes(waivers, [case.name for case in cases])
    return Report(
        base,
        head,
        rounds.plan,
        cases,
        judgements,
        result,
        rounds.done,
        watch.spent(),
        notes,
        question.config.fail_on,
    )


def _measure(
    question: Question, arms: dict[str, pairs.Arm], outputs: Path, watch: Watch, say: Progress
) -> tuple[list[Case], Rounds, list[str]]:
    begun = time.monotonic()
    first_arms = [arm for name, arm in arms.items() if name != pairs.AGAIN["own"]]
    with pairs.fresh(first_arms, watch.patience) as first:
        starting = time.monotonic() - begun
        trial = Trial(first, lambda name: _selected(name, question.paths), outputs, say)
        cases = trial.run()
        timed = [case for case in cases if comparable(case)]
        rounds = Rounds(timed, question.config, watch, say, pin=question.one_thread)
        if "own" in arms_of(rounds.cases):
            first.add(arms[pairs.AGAIN["own"]])
        rounds.first(first, starting)
    fresh = lambda names: pairs.fresh([arms[n] for n in names], watch.patience)  # noqa: E731
    rounds.more(fresh)
    rounds.conclude()
    if question.traces is not None:
        trial.notes += traces.keep(question.traces, rounds.cases, fresh)
    return cases, rounds, trial.notes


def _selected(name: str, paths: tuple[str, ...]) -> bool:
    """Whether pytest's path and node-id arguments ask for this id."""
    for path in paths:
        file, nodes, _ = path.partition("::")
        inside = file in (".", "") or name == file or name.startswith((f"{file}/", f"{file}::"))
        if nodes:
            inside = name == path or name.startswith((f"{path}::", f"{path}["))
        if inside:
            return True
    return False


def _judge(case: Case, question: Question, waivers: accepted.Accepted) -> Judgement:
    limit = question.config.case(case.name).accuracy_limit
    facts = case.facts or Facts(case.name, case.base, case.head)
    if limit is not None:
        facts = replace(facts, accuracy_limit=limit)
    return waivers.apply(judge(facts), today())


def waiver_notes(waivers: accepted.Accepted, cases: list[str]) -> list[str]:
    """All entries of `accepted.toml`, those that have expired or match no case named."""
    expired, unused = waivers.expired(today()), waivers.unused(cases)
    notes = []
    for entry in waivers.entries:
        state = "expired" if entry in expired else "matches no case" if entry in unused else ""
        notes.append(f"{waivers.path}: {entry}{f': {state}' if state else ''}")
    return notes


def today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()
