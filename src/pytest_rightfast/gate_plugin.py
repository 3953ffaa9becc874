"""`--perf-against`: the gate takes the place of pytest's loop, and reports when it knows.

Cases are collected as usual, so that `-k`, `-m` and paths select; none runs in this process. After
the last pair each case is reported with its verdict, so that JUnit and `--lf` see it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from . import gate, gate_report
from .config import load, parse_effect
from .errors import PerfError
from .exits import ExitCode
from .verdicts import Judgement


class GatePlugin:
    """Registered when `--perf-against` is given."""

    def __init__(self, config: pytest.Config, json_file: Path | None) -> None:
        self.config, self.json_file = config, json_file
        self.report: gate.Report | None = None
        self.failure: PerfError | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        if self.config.option.collectonly:
            return True
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")

        def say(text: str) -> None:
            if reporter is not None:
                reporter.ensure_newline()
                reporter.write_line(f"gate: {text}")

        try:
            self.report = gate.run(self._question(session), say)
        except PerfError as error:
            self.failure = error
            return True
        gate_report.write(self.report, self.json_file, self.config.getoption("--perf-markdown"))
        items = {item.nodeid: item for item in session.items}
        for judgement in self.report.judgements:
            self._emit(session, items.get(judgement.case), judgement)
        return True

    def _question(self, session: pytest.Session) -> gate.Question:
        config, root = self.config, Path(self.config.rootpath)
        settings = load(root)
        if (effect := config.getoption("--perf-min-effect")) is not None:
            settings = replace(settings, min_effect=parse_effect(effect, "--perf-min-effect"))
        if (budget := config.getoption("--perf-budget")) is not None:
            settings = replace(settings, budget=float(budget))
        if config.getoption("--perf-advisory"):
            settings = replace(settings, advisory=True)
        paths = [_relative(root, config.invocation_params.dir, arg) for arg in config.args]
        selected = paths + _selection(config)
        perf = tuple(dict.fromkeys(path.split("::")[0] for path in paths))
        revision = config.getoption("--perf-against")
        tip = bool(config.getoption("--perf-against-tip"))
        return gate.Question(root, revision, tuple(selected), perf, settings, tip)

    def _emit(
        self, session: pytest.Session, item: pytest.Item | None, judgement: Judgement
    ) -> None:
        """Setup, call and teardown of one case; a case that is gone has no item but a report."""
        assert self.report is not None
        failing = bool(judgement.failing(self.report.fail_on))
        failing = failing and self.report.result.code != ExitCode.PASSED
        location = item.location if item else (judgement.case.split("::")[0], 0, judgement.case)
        hook = self.config.hook
        hook.pytest_runtest_logstart(nodeid=judgement.case, location=location)
        for when in ("setup", "call", "teardown"):
            bad = failing and when == "call"
            said = f"{judgement.verdict}: {judgement.reason}"
            report = pytest.TestReport(
                nodeid=judgement.case,
                location=location,
                keywords={},
                outcome="failed" if bad else "passed",
                longrepr=said if bad else None,
                when=when,
                user_properties=[("rightfast", str(judgement.verdict))],
            )
            hook.pytest_runtest_logreport(report=report)
            session.testsfailed += bad
        hook.pytest_runtest_logfinish(nodeid=judgement.case, location=location)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Pytest's own interrupt, internal and usage errors come before any verdict."""
        if session.exitstatus in (0, 1, 5):
            if self.failure is not None:
                session.exitstatus = ExitCode.GATE
            elif self.report is not None:
                session.exitstatus = self.report.result.code

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("rightfast gate")
        if self.failure is not None:
            terminalreporter.write_line(f"the gate could not run: {self.failure}", red=True)
        elif self.report is not None:
            for line in gate_report.lines(self.report):
                terminalreporter.write_line(line)


def _relative(root: Path, folder: Path, argument: str) -> str:
    path, separator, rest = argument.partition("::")
    absolute = (folder / path).resolve()
    if absolute.is_relative_to(root.resolve()):
        path = str(absolute.relative_to(root.resolve()))
    return path + separator + rest


def _selection(config: pytest.Config) -> list[str]:
    """The options that decide which cases run, and how, for the workers."""
    chosen = []
    if config.option.keyword:
        chosen += ["-k", config.option.keyword]
    if config.option.markexpr:
        chosen += ["-m", config.option.markexpr]
    for name in ("--perf-device", "--perf-threads", "--perf-cpus"):
        value = config.getoption(name)
        if value is not None:
            chosen += [name, str(value)]
    return chosen
