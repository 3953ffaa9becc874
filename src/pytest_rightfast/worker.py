"""One side of the gate: a fresh process that runs pytest on the perf files and does as it is asked.

Started by `workers.Worker` with the number of its descriptor; it talks on that alone, never on
stdout, where the code under test prints.
"""

from __future__ import annotations

import os
import platform
import sys
import traceback
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

import pytest

from . import machine, messages, provenance, sides
from .case import Backend
from .plugin import SESSION, is_case
from .protocol import Channel
from .state import DEFAULTS, torch_state
from .verdicts import Status
from .visits import Desk, Request


def main(descriptor: int) -> int:
    """Serve until `Bye`. Returns the exit code."""
    channel = Channel.from_fd(descriptor)
    desk = Desk(channel.receive, channel.send)
    number, hello = desk.take()
    assert isinstance(hello, messages.Hello)
    layout = sides.Layout(**hello.layout)
    sides.enter(layout)
    desk.pending = (number, hello)
    server = Server(desk, layout)
    installed = metadata.entry_points(group="pytest11", name="rightfast")
    loading = [] if installed else ["-p", "pytest_rightfast.plugin"]
    code = pytest.main([*hello.arguments, *loading], plugins=[server])
    return server.close(int(code))


# Options that the project's addopts or PYTEST_ADDOPTS may set for the user's own run. A worker
# writes no report, compares with no stored run, starts no gate of its own and no xdist.
SILENCED: dict[str, Any] = {
    "perf_against": None,
    "perf_json": None,
    "perf_markdown": None,
    "perf_baseline": None,
    "perf_save_baseline": None,
    "perf_repeats": 1,
    "perf_profile": False,
    "perf_trace": None,
    "perf_resume": False,
    "basetemp": None,  # one that the user named is emptied by whoever starts
    "log_file": None,
    "xmlpath": None,
    "benchmark_save": None,
    "benchmark_autosave": False,
    "benchmark_compare": None,
    "benchmark_compare_fail": None,
    "benchmark_json": None,
    "benchmark_histogram": None,
    "dist": "no",
    "tx": [],
    "numprocesses": None,
    "usepdb": False,
    "lf": False,
    "failedfirst": False,
    "newfirst": False,
    "stepwise": False,
    "maxfail": 0,
}


class Server:
    """A pytest plugin that answers the gate in place of pytest's own loop."""

    def __init__(self, desk: Desk, layout: sides.Layout) -> None:
        self.desk, self.layout = desk, layout
        self.failed: dict[str, str] = {}
        self.served = False
        self.outcome: tuple[Status, str] | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        for name, value in SILENCED.items():
            if hasattr(config.option, name):
                setattr(config.option, name, value)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed[report.nodeid] = str(report.longrepr)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items if is_case(item)}
        session.config.stash[SESSION].desk = self.desk
        self.served = True
        while True:
            number, request = self.desk.take()
            if isinstance(request, messages.Bye):
                self.desk.reply(number, messages.Done())
                _leave()
            if isinstance(request, Request):
                self._run(number, request, items)
            elif isinstance(request, messages.Measure):
                self.desk.reply(number, self._measure(session, request, items))
            else:
                self.desk.reply(number, self._answer(request, items))

    def _answer(self, request: messages.Message, items: dict[str, pytest.Item]) -> messages.Message:
        if isinstance(request, messages.Hello):
            return _ready(self._machine())
        if isinstance(request, messages.Collect):
            subjects = [name for name, item in items.items() if not _is_peer(item)]
            return messages.Collected(subjects, self.failed)
        if isinstance(request, messages.AskModules):
            found = provenance.loaded(self.layout)
            return messages.Modules([file.as_json() for file in found])
        return messages.Failed(f"a worker does not answer {type(request).__name__}")

    def _machine(self) -> dict[str, Any]:
        state = torch_state()
        changed = {k: str(state[k]) for k, v in DEFAULTS.items() if state[k] != v}
        return {"affinity": machine.affinity(), "state": changed}

    def _run(self, number: int, request: Request, items: dict[str, pytest.Item]) -> None:
        """Run the test up to its `perf(...)`, which serves this request and those that follow."""
        item = items.get(request.case)
        self.outcome = None
        if item is None:
            self.outcome = (Status.ABSENT, "no such case here")
        else:
            self.desk.pending = (number, request)
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            except (pytest.exit.Exception, KeyboardInterrupt) as error:
                # Meant to end the run, and nothing was torn down: the next case gets a new process.
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
                _leave(1)
        if self.desk.answered >= number:
            return
        # The test ended before it reached `perf`.
        self.desk.pending = None
        status, reason = self.outcome or (Status.RAISED, "the test never called perf(...)")
        if isinstance(request, messages.Verify):
            self.desk.reply(number, messages.Verified(status, reason))
        else:
            self.desk.reply(number, messages.Failed(reason))

    def _measure(
        self, session: pytest.Session, request: messages.Measure, items: dict[str, pytest.Item]
    ) -> messages.Message:
        """Run the test as in a run of its own; it asks nobody."""
        shared, item = session.config.stash[SESSION], items.get(request.case)
        if item is None:
            return messages.Failed("no such case here")
        self.outcome, shared.desk, shared.rows = None, None, []
        trace = Path(request.trace) if request.trace else None
        shared.options = replace(shared.options, profile=request.profile, trace=trace)
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        except (pytest.exit.Exception, KeyboardInterrupt) as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            _leave(1)
        finally:
            shared.desk = self.desk
        if not shared.rows:
            _, reason = self.outcome or (Status.RAISED, "the test never called perf(...)")
            return messages.Failed(reason)
        return messages.Measured(asdict(shared.rows[-1]))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.outcome is None:
            self.outcome = (Status.RAISED, _why(report))
        elif report.skipped and self.outcome is None:
            self.outcome = (Status.SKIPPED, _why(report))

    def close(self, code: int) -> int:
        """If pytest never came to its loop, say so to whoever asks."""
        while not self.served:
            number, request = self.desk.take()
            if isinstance(request, messages.Bye):
                self.desk.reply(number, messages.Done())
                break
            if isinstance(request, messages.Hello):
                self.desk.reply(number, _ready({}))
            else:
                self.desk.reply(number, messages.Failed(f"pytest ended with code {code}"))
        return 0


def _leave(code: int = 0) -> NoReturn:
    """At once: every fixture ended with its case, and plugins take seconds for their summaries."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _ready(state: dict[str, Any]) -> messages.Ready:
    return messages.Ready(messages.VERSION, os.getpid(), versions(), state)


def _why(report: pytest.TestReport) -> str:
    """What a test failed with or was skipped for, without the traceback."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr)[-2000:]


def _is_peer(item: pytest.Item) -> bool:
    backend = item.callspec.params.get("backend") if hasattr(item, "callspec") else None
    return isinstance(backend, Backend) and backend.role == "peer"


def versions() -> dict[str, str]:
    """What must be equal on both sides for their counters to be compared."""
    found = {name: machine.version(name) for name in ("torch", "triton", "numpy")}
    return {"python": platform.python_version()} | {k: v for k, v in found.items() if v}


def run(descriptor: int) -> int:
    """`main`, with the reason on stderr if it breaks: the gate shows the end of that."""
    try:
        return main(descriptor)
    except BaseException:
        traceback.print_exc(file=sys.stderr)
        raise
