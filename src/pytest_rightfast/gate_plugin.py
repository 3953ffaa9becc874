"""`--perf-against`: the gate takes the place of pytest's collection and loop.

The workers collect, each on its own side; this process imports nothing of the project, so that a
working tree that isn't built or installed is no hindrance. After the last pair each case is
reported with its verdict, so that the terminal and JUnit see it.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from . import gate, gate_report
from .config import Config, load, parse_effect
from .errors import PerfError
from .exits import ExitCode, parse_fail_on
from .gate_files import Files
from .gate_sides import Question
from .options import usage
from .verdicts import Judgement


class GatePlugin:
    """Registered when `--perf-against` is given."""

    def __init__(self, config: pytest.Config, json_file: Path | None) -> None:
        self.config = config
        self.files = Files(json_file, config.getoption("--perf-markdown"))
        self.report: gate.Report | None = None
        self.failure: PerfError | None = None
        storage = Path(str(config.getoption("--benchmark-storage")).removeprefix("file://"))
        # pytest-benchmark makes its folder at every start; the gate stores nothing there.
        self.storage = None if storage.exists() else storage
        if config.getoption("numprocesses", None):
            raise usage(
                "the gate starts its own processes, one at a time at work",
                expected="one pytest process",
                got="pytest-xdist (-n)",
                remedy="add -n 0",
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool | None:
        if self.config.option.collectonly:
            return None
        session.items = []
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if self.config.option.collectonly:
            return True
        self.files.clear()
        try:
            self.report = gate.run(question(self.config), self._say)
            self.files.write(self.report)
        except PerfError as error:
            self.failure = error
            self.files.write_failure(error)
        if self.report is not None:
            session.testscollected = len(self.report.judgements)
            for judgement in self.report.judgements:
                self._emit(session, judgement)
        return True

    def _say(self, text: str) -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(f"gate: {text}")

    def _emit(self, session: pytest.Session, judgement: Judgement) -> None:
        """Setup, call and teardown of one case, as JUnit and the terminal expect them."""
        assert self.report is not None
        failing = bool(judgement.failing(self.report.fail_on))
        failing = failing and self.report.result.code != ExitCode.PASSED
        file, _, name = judgement.case.partition("::")
        location = (file, 0, name.replace("::", "."))
        hook = self.config.hook
        hook.pytest_runtest_logstart(nodeid=judgement.case, location=location)
        said = f"{judgement.verdict}: {judgement.reason}"
        for when in ("setup", "call", "teardown"):
            bad = failing and when == "call"
            report = pytest.TestReport(
                nodeid=judgement.case,
                location=location,
                keywords={},
                outcome="failed" if bad else "passed",
                longrepr=said if bad else None,
                when=when,
                user_properties=[("rightfast", str(judgement.verdict)), ("rightfast-reason", said)],
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

    def pytest_unconfigure(self) -> None:
        if self.storage is not None:
            with contextlib.suppress(OSError):
                self.storage.rmdir()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("rightfast gate")
        if self.report is not None:
            for line in gate_report.lines(self.report):
                terminalreporter.write_line(line)
        if self.failure is not None:
            terminalreporter.write_line(f"the gate could not run: {self.failure}", red=True)


def question(config: pytest.Config) -> Question:
    """What the command line and `[tool.rightfast]` ask."""
    root = Path(config.rootpath)
    paths = [_relative(root, config.invocation_params.dir, arg) for arg in config.args]
    for path in paths:
        if not (root / path.split("::")[0]).exists():
            raise PerfError(
                f"{path} is not there",
                expected="files or folders of perf cases",
                remedy="write one (perf/test_something.py, see the README), or name another path",
            )
    return Question(
        root,
        config.getoption("--perf-against"),
        tuple(paths),
        tuple(selection(config)),
        settings(config, root),
        bool(config.getoption("--perf-against-tip")),
        config.inipath,
        config.getoption("--perf-trace"),
    )


def settings(config: pytest.Config, root: Path) -> Config:
    """`[tool.rightfast]`, with what the command line overrides."""
    found = load(root)
    if (effect := config.getoption("--perf-min-effect")) is not None:
        found = replace(found, min_effect=parse_effect(effect, "--perf-min-effect"))
    if (budget := config.getoption("--perf-budget")) is not None:
        found = replace(found, budget=float(budget))
    if (verdicts := config.getoption("--perf-fail-on")) is not None:
        try:
            found = replace(found, fail_on=parse_fail_on(verdicts))
        except ValueError as error:
            raise PerfError(f"--perf-fail-on: {error}") from error
    if config.getoption("--perf-advisory"):
        found = replace(found, advisory=True)
    return found


def _relative(root: Path, folder: Path, argument: str) -> str:
    path, separator, rest = argument.partition("::")
    absolute = Path(os.path.abspath(folder / path))
    for top in (root, root.resolve()):
        if absolute.is_relative_to(top):
            return absolute.relative_to(top).as_posix() + separator + rest
    raise PerfError(
        "the perf cases must lie inside the project",
        expected=f"a path in {root}",
        got=path,
        remedy="start the gate in the repository that holds them",
    )


def selection(config: pytest.Config) -> list[str]:
    """The options that decide which cases run, and how, for the workers."""
    option, chosen = config.option, []
    pairs = [("-k", option.keyword), ("-m", option.markexpr), ("-p", option.plugins)]
    pairs += [("-o", option.override_ini), ("-W", option.pythonwarnings)]
    ignored = [f"*/{Path(path).as_posix().strip('./')}" for path in option.ignore or ()]
    pairs += [("--deselect", option.deselect)]
    pairs += [("--ignore-glob", [*(option.ignore_glob or ()), *ignored])]
    pairs += [
        (f"--perf-{n}", config.getoption(f"--perf-{n}"))
        for n in ("device", "threads", "cpus", "heap")
    ]
    for name, given in pairs:
        for value in given if isinstance(given, list | tuple) else [given]:
            if value not in (None, ""):
                chosen += [name, str(value)]
    return chosen
