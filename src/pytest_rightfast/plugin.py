"""pytest's hooks, in the order in which pytest calls them. They measure nothing.

Every pytest run in the environment loads this file, so neither it nor what it imports may import
torch at the top.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from . import baseline, clock_cpu, replay, runs, stored
from .case import Backend, backends
from .errors import CaseError, PerfError
from .exits import ExitCode
from .fixture import Perf
from .options import add_options, find_device, read_options, usage
from .refused import refuse, refuse_workers
from .rows import INTERRUPTED, Row
from .session import PerfSession
from .state import DEFAULTS, import_changes, torch_state
from .summary import outcome_word, write_summary

SESSION = pytest.StashKey[PerfSession]()
REPORT = pytest.StashKey[pytest.TestReport]()
ORDER = pytest.StashKey[int]()  # among all cases that were collected

NEVER_CALLED = "never called perf"


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "perf_backends(name=function, ...): run a perf case once for each backend"
    )
    if not config.pluginmanager.has_plugin("benchmark"):
        _explain_missing_benchmark(config)
        return
    options = read_options(config)
    session = PerfSession(options, Path(config.rootpath))
    config.stash[SESSION] = session
    if options.cpus is not None:
        os.sched_setaffinity(0, options.cpus)
    runs.prepare(config, session, lambda item: case_of(item) if is_case(item) else None)
    if changed := import_changes(DEFAULTS, torch_state()):
        session.import_changes["a conftest.py or a plugin, before collection"] = changed
    if config.getoption("--perf-against"):
        from .gate_plugin import GatePlugin

        config.pluginmanager.register(GatePlugin(config, options.json), "rightfast-gate")
    else:
        _choose_comparison(config, session)


def _explain_missing_benchmark(config: pytest.Config) -> None:
    """pytest-codspeed blocks pytest-benchmark; without it nothing can be stored or compared."""
    codspeed = config.pluginmanager.has_plugin("codspeed")
    asked = any(str(arg).startswith("--perf") for arg in config.invocation_params.args)
    if asked:
        raise usage(
            "pytest-benchmark is not active, and rightfast stores its results there",
            expected="the plugin `benchmark`",
            got="pytest-codspeed, which blocks it" if codspeed else "no such plugin",
            remedy="run with -p no:codspeed" if codspeed else "drop -p no:benchmark",
        )


def _choose_comparison(config: pytest.Config, session: PerfSession) -> None:
    found = baseline.choose(config, session.options)
    if found is not None:
        try:
            session.stored = stored.load(found)
        except PerfError as error:
            raise pytest.UsageError(str(error)) from error


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_compare_machine_info(
    config: pytest.Config, compared_benchmark: dict[str, Any]
) -> None:
    """pytest-benchmark has loaded a run to compare with."""
    session = config.stash[SESSION]
    session.compared += 1
    if session.stored is None:  # chosen by number, or the newest
        try:
            session.stored = stored.parse("the saved run", compared_benchmark)
        except PerfError as error:
            raise pytest.UsageError(str(error)) from error


def pytest_unconfigure(config: pytest.Config) -> None:
    session = config.stash.get(SESSION, None)
    if session and session.options.cpus is not None:
        os.sched_setaffinity(0, session.affinity)
    for source in session.sources if session else ():
        source.close()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Remember which file changed global torch state when it was imported."""
    before = torch_state()
    report = yield
    session = collector.config.stash.get(SESSION, None)
    if session and (changed := import_changes(before, torch_state())):
        session.import_changes[collector.nodeid or str(collector.path)] = changed
    return report


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "perf" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("perf_backends")
    if marker is not None:
        found = _backends(metafunc, marker)
        metafunc.parametrize("backend", found, ids=[one.name for one in found])
    session = metafunc.config.stash.get(SESSION, None)
    if session and len(session.options.threads) > 1:
        threads = session.options.threads
        metafunc.parametrize(
            "perf_threads", threads, indirect=True, ids=[f"{n}threads" for n in threads]
        )


def _backends(metafunc: pytest.Metafunc, marker: pytest.Mark) -> list[Backend]:
    try:
        if marker.args or not marker.kwargs or "backend" not in metafunc.fixturenames:
            raise CaseError(
                f"{metafunc.definition.nodeid}: perf_backends is not used as it is meant",
                expected="@pytest.mark.perf_backends(name=function, ...) on a test with the "
                "argument `backend`",
                got=f"{len(marker.args)} functions without a name, names {list(marker.kwargs)}, "
                f"arguments {metafunc.fixturenames}",
                remedy="name each function, and take the argument `backend`",
            )
        return backends(marker.kwargs)
    except CaseError as error:  # without the traceback through pytest
        raise pytest.Collector.CollectError(str(error)) from error


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for order, item in enumerate(filter(is_case, items)):
        item.stash[ORDER] = order
        replay.install_timer(item)


def pytest_deselected(items: list[pytest.Item]) -> None:
    if items and (session := items[0].config.stash.get(SESSION, None)):
        session.deselected += sum(map(is_case, items))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Look at what will run, after -k and -m took their share."""
    perf_session = session.config.stash.get(SESSION, None)
    if perf_session is None:
        return
    cases = list(filter(is_case, session.items))
    perf_session.asked = [item.nodeid for item in cases]
    refuse(session.config, cases)
    if cases and not session.config.option.collectonly:
        find_device(perf_session.options.device)
    runs.admit(perf_session)
    compared = session.config.getoption("--benchmark-compare")
    if cases and compared and not perf_session.compared:
        raise usage(
            "--benchmark-compare finds no saved run",
            expected=f"one in {session.config.getoption('--benchmark-storage')}",
            got=compared,
            remedy="save one with --benchmark-save=NAME, or use --perf-baseline NAME",
        )


def is_case(item: pytest.Item) -> bool:
    return "perf" in getattr(item, "fixturenames", ())


@pytest.fixture
def perf_device(request: pytest.FixtureRequest) -> Any:
    """The `torch.device` of this run (`--perf-device`)."""
    return find_device(request.config.stash[SESSION].options.device)


@pytest.fixture
def perf_threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """The number of torch CPU threads of this case (`--perf-threads`), in force while it runs."""
    import torch

    threads = getattr(request, "param", request.config.stash[SESSION].options.threads[0])
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    yield threads
    torch.set_num_threads(before)


@pytest.fixture
def perf(
    request: pytest.FixtureRequest, benchmark: Any, perf_threads: int, perf_device: Any
) -> Iterator[Perf]:
    """Verify a function, then time it; see `pytest_rightfast.fixture.Perf`."""
    item = request.node
    refuse_workers(request.config)
    session = request.config.stash[SESSION]
    if session.desk is None:  # the gate's workers count in the first pair alone
        session.start()
    backend = _backend_of(item)
    _seed(case_id(item, backend))
    measured = Perf(session, item.nodeid, case_id(item, backend), backend, perf_threads)
    measured.order = item.stash[ORDER]
    marker = item.get_closest_marker("benchmark").kwargs
    measured.budget = clock_cpu.Budget(
        float(marker.get("max_time", session.options.max_time)),
        int(marker.get("min_rounds", session.options.min_rounds)),
    )
    yield measured
    row = _final_row(measured, item)
    runs.keep(session, row)
    if row.samples:
        replay.replay(row, benchmark, marker["timer"])
        session.benchmarks.append(benchmark.stats)
    else:
        replay.leave_out(benchmark)
    if measured.row is None and row.reason == NEVER_CALLED:
        raise CaseError(
            f"{item.nodeid} {NEVER_CALLED}: nothing was verified or measured",
            expected="perf(function, *arguments, reference=...)",
            got="a test that passed without it",
            remedy="call it, or drop the argument",
        )


def _final_row(measured: Perf, item: pytest.Item) -> Row:
    """The row of a test that has ended, whatever it did."""
    row, report = measured.row, item.stash.get(REPORT, None)
    if row is None:
        row = measured.new_row("")
        row.status = "unsupported" if report is not None and report.skipped else "error"
        passed = report is not None and report.passed
        row.reason = NEVER_CALLED if passed else _first_line(report)
    elif row.status == "wrong" and row.role == "subject" and report is not None and report.passed:
        measured.session.hushed.append(row.id)
    elif row.status == "ok" and (report is None or not report.passed):
        row.status, row.samples, row.reason = "error", [], _first_line(report)
        if report is not None:
            row.reason = f"the test did not pass after timing: {row.reason}"
    return row


def _seed(case: str) -> None:
    """Inputs that a test draws itself are the same for all backends, runs and sides."""
    import random
    import sys

    import torch

    seed = zlib.crc32(case.encode())
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def _first_line(report: pytest.TestReport | None) -> str:
    if report is None:
        return INTERRUPTED
    if isinstance(report.longrepr, tuple):  # skipped: file, line, reason
        return report.longrepr[2]
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr).split("\n")[0]


def case_of(item: pytest.Item) -> str:
    """The case that a test belongs to."""
    return case_id(item, _backend_of(item))


def _backend_of(item: pytest.Item) -> Backend | None:
    backend = item.callspec.params.get("backend") if hasattr(item, "callspec") else None
    return backend if isinstance(backend, Backend) else None


def case_id(item: pytest.Item, backend: Backend | None) -> str:
    """The node id without the backend: `test_haar[64-kernel]` is a row of `test_haar[64]`."""
    if backend is None or not hasattr(item, "callspec"):
        return item.nodeid
    parameters, order = item.callspec.id, list(item.callspec.params)
    pattern = rf"(?:^|-){re.escape(backend.name)}(?=-|$)"
    found = [match.span() for match in re.finditer(pattern, parameters)]
    if not found:
        return item.nodeid
    # A name may also be part of another parameter: what stands first or last is known to be it.
    start, stop = found[0 if order and order[0] == "backend" else -1]
    rest = (parameters[:start] + parameters[stop:]).removeprefix("-")
    head = item.nodeid[: -len(parameters) - 2]
    return f"{head}[{rest}]" if rest else head


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if is_case(item) and report.when == "call":
        item.stash[REPORT] = report
        measured = getattr(item, "funcargs", {}).get("perf")
        if isinstance(measured, Perf) and measured.row is not None:
            report.user_properties.append(("rightfast", outcome_word(measured.row)))
    return report


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Progress: with -v each line ends in the case's time or in what is wrong with it."""
    word = dict(report.user_properties).get("rightfast") if report.when == "call" else None
    if word is None or report.failed:
        return None
    letter = "." if report.passed else "s"
    return report.outcome, letter, str(word)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    perf_session = session.config.stash.get(SESSION, None)
    gate = session.config.pluginmanager.has_plugin("rightfast-gate")  # it writes files of its own
    if perf_session is None or session.config.option.collectonly or gate:
        return
    options = perf_session.options
    perf_session.interrupted = session.exitstatus == pytest.ExitCode.INTERRUPTED
    if not runs.finish(perf_session, worker=hasattr(session.config, "workerinput")):
        session.exitstatus = pytest.ExitCode.USAGE_ERROR
    if perf_session.asked:
        _never_green(session, perf_session)
    if options.timing and (perf_session.asked or perf_session.stored):
        from . import comparison

        comparison.finish(session, perf_session)


def _never_green(session: pytest.Session, perf_session: PerfSession) -> None:
    """Nothing measured is no success, nor is a wrong answer whose error the test caught."""
    if session.exitstatus == 0 and not any(row.status == "ok" for row in perf_session.rows):
        session.exitstatus = ExitCode.MISSING
    if session.exitstatus == 0 and perf_session.hushed:
        session.exitstatus = ExitCode.ANSWERS


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> Iterator[None]:
    """Below the other tables, also where pytest-benchmark ends the run because of a regression."""
    session = config.stash.get(SESSION, None)
    try:
        yield
    except Exception as error:
        running = config.pluginmanager.get_plugin("session")
        if session is None or running is None or not replay.is_regression(error):
            raise
        # --benchmark-compare-fail: an exit code in place of a traceback, after any of ours.
        running.exitstatus = running.exitstatus or ExitCode.SLOWER
    finally:
        told = session and (session.rows or session.note or session.comparison or session.resumed)
        if session is not None and told:
            write_summary(terminalreporter, session)
