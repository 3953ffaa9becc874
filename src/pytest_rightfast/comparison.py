"""This run against a stored one, at its end: verdicts at once, and pairs for the suspects."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from . import accepted, baseline, gate, gate_plugin, stored
from .config import Config
from .errors import PerfError
from .exits import ExitCode, Result, conclude
from .gate_sides import Question
from .session import PerfSession
from .stored import Stored, Suspect
from .verdicts import Judgement

# A suspect takes about ten seconds of the budget: a second in each pair, and its share of a start.
SUSPECT_SECONDS = 10.0


@dataclass(frozen=True)
class Comparison:
    """What is said of each case, and what follows from it."""

    stored: Stored
    judgements: list[Judgement]
    result: Result
    notes: list[str]


def finish(session: pytest.Session, perf_session: PerfSession) -> None:
    """At the end of a run: compare it, or save it as the baseline.

    The verdicts' exit code comes before pytest's 1 (tests failed), and after its 2 to 5.
    """
    config, options = session.config, perf_session.options
    partial = baseline.left_out(config, perf_session.deselected)
    run = perf_session.stored
    ours = bool(perf_session.rows) or any(b.role for b in run.benches.values()) if run else False
    if run is not None and ours and session.exitstatus in (0, 1, 5, ExitCode.MISSING):
        try:
            found = compare(config, perf_session, run, whole=not partial)
        except PerfError as error:
            perf_session.note, session.exitstatus = str(error), pytest.ExitCode.USAGE_ERROR
            return
        perf_session.comparison = found
        session.exitstatus = int(found.result.code) or session.exitstatus
    new = options.save_baseline or (options.baseline if run is None else None)
    if new is not None:
        ok = session.exitstatus == 0
        perf_session.note = baseline.make(config, new, perf_session.benchmarks, partial, ok)


def compare(config: pytest.Config, session: PerfSession, run: Stored, whole: bool) -> Comparison:
    """Judge all rows by a stored run. Raises PerfError where the settings can't be read.

    Args:
        whole: this run left nothing out.
    """
    settings = gate_plugin.settings(config, session.root)
    waivers = accepted.load(session.root / "perf" / "accepted.toml")
    doubts = stored.suspects(session.rows, run)
    found = stored.judgements(session.rows, run, doubts, settings, whole, session.asked)
    compared = {one.case for one in found if one.compared}  # a wrong case needs no time
    doubts = [one for one in doubts if one.id in compared]
    notes: list[str] = []
    if doubts:
        notes, decided = _confirm(config, session, run, doubts, settings)
        found = [decided.get(one.case, one) for one in found]
    found = [waivers.apply(one, gate.today()) for one in found]
    notes += gate.waiver_notes(waivers, [one.case for one in found])
    result = conclude(found, fail_on=settings.fail_on, advisory=settings.advisory)
    return Comparison(run, found, result, notes)


def _confirm(
    config: pytest.Config,
    session: PerfSession,
    run: Stored,
    doubts: list[Suspect],
    settings: Config,
) -> tuple[list[str], dict[str, Judgement]]:
    """Notes, and the verdicts of pairs against the stored run's own commit."""
    if why := _unconfirmable(run, settings):
        return [f"{len(doubts)} suspects are not confirmed: {why}"], {}
    most = max(1, int(settings.budget / SUSPECT_SECONDS))
    chosen, rest = doubts[:most], doubts[most:]
    notes = [f"{len(rest)} suspects were left out: --perf-budget is {settings.budget:g} s"]
    question = Question(
        session.root,
        run.commit or "",
        tuple(one.id for one in chosen),
        tuple(gate_plugin.selection(config)),
        replace(settings, advisory=False),
        tip=True,
        settings=config.inipath,
    )

    def say(text: str) -> None:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(f"compare: {text}")

    say(f"{len(chosen)} suspects, in pairs against {(run.commit or '')[:12]} of {run.name}")
    try:
        report = gate.run(question, say)
    except PerfError as error:
        return [f"{len(doubts)} suspects are not confirmed: {error}"], {}
    return [*notes[: len(rest)], *report.notes], {one.case: one for one in report.judgements}


def _unconfirmable(run: Stored, settings: Config) -> str:
    if run.commit is None:
        return f"{run.name} does not say which commit it measured"
    if run.dirty:
        return f"{run.name} was made with uncommitted changes; save it again from a clean tree"
    return "--perf-budget is 0" if settings.budget <= 0 else ""
