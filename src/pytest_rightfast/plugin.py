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

from . import baseline, replay
from .case import Backend, backends
from .fixture import Perf, PerfSession
from .options import add_options, read_options, usage
from .results import save
from .state import DEFAULTS, import_changes, torch_state
from .summary import outcome_word, write_summary

SESSION = pytest.StashKey[PerfSession]()
REPORT = pytest.StashKey[pytest.TestReport]()

# Beyond pytest's own exit codes 0 to 5.
EXIT_NOT_MEASURED = 13

# pytest-benchmark options that steer its own measuring loop, with their defaults. `max-time` and
# `min-rounds` are honoured; these have no meaning for samples that are taken elsewhere.
REFUSED = {
    "--benchmark-timer": None,
    "--benchmark-precision": None,
    "--benchmark-calibration-precision": 10,
    "--benchmark-warmup": False,
    "--benchmark-warmup-iterations": 100000,
    "--benchmark-min-time": "0.000005",
    "--benchmark-cprofile": None,
    "--benchmark-cprofile-loops": 1,
}


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
    baseline.resolve_compare(config)
    name = session.options.baseline
    if name is not None:
        if not re.fullmatch(r"[\w.-]+", name):
            raise usage("--perf-baseline", expected="a name such as main", got=name)
        if (found := baseline.find(config, name)) and session.options.timing:
            config.option.benchmark_compare = str(found)
    compared = config.getoption("--benchmark-compare")
    if isinstance(compared, str) and Path(compared).is_file():
        session.stored = baseline.medians(Path(compared))
        session.stored_name = Path(compared).name


def pytest_unconfigure(config: pytest.Config) -> None:
    session = config.stash.get(SESSION, None)
    if session and session.options.cpus is not None:
        os.sched_setaffinity(0, session.affinity)


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
    if marker is not None and "backend" in metafunc.fixturenames:
        found = backends(marker.kwargs)
        metafunc.parametrize("backend", found, ids=[one.name for one in found])
    session = metafunc.config.stash.get(SESSION, None)
    if session and len(session.options.threads) > 1:
        threads = session.options.threads
        metafunc.parametrize(
            "perf_threads", threads, indirect=True, ids=[f"{n}threads" for n in threads]
        )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    cases = [item for item in items if is_case(item)]
    for item in cases:
        replay.install_timer(item)
    session = config.stash.get(SESSION, None)
    if not cases or session is None:
        return
    for option, default in REFUSED.items():
        value = config.getoption(option)
        if option == "--benchmark-timer":
            value = None if "perf_counter" in str(value) else str(value)
        if str(value) != str(default):
            raise usage(
                f"{option} has no meaning for perf cases, which are not timed by its loop",
                expected="--benchmark-max-time or --benchmark-min-rounds",
                got=value,
                remedy="leave it out, or deselect the perf cases",
            )
    if hasattr(config, "workerinput"):
        raise usage(
            "perf cases cannot share a machine with other workers",
            expected="one process",
            got="pytest-xdist (-n)",
            remedy="add -n 0 (or -p no:xdist) for the perf folder",
        )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Count what will run, after -k and -m took their share."""
    if perf_session := session.config.stash.get(SESSION, None):
        perf_session.total = sum(is_case(item) for item in session.items)


def is_case(item: pytest.Item) -> bool:
    return "perf" in getattr(item, "fixturenames", ())


@pytest.fixture
def perf_device(request: pytest.FixtureRequest) -> Any:
    """The `torch.device` of this run (`--perf-device`)."""
    import torch

    device = torch.device(request.config.stash[SESSION].options.device)
    if device.type != "cpu" and not getattr(torch, device.type).is_available():
        raise usage("--perf-device", expected="a device that is there", got=str(device))
    return device


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
    session = request.config.stash[SESSION]
    if session.desk is None:  # the gate's workers count in the first pair alone
        session.start()
    backend = item.callspec.params.get("backend") if hasattr(item, "callspec") else None
    backend = backend if isinstance(backend, Backend) else None
    _seed(case_id(item, backend))
    measured = Perf(session, item.nodeid, case_id(item, backend), backend, perf_threads)
    yield measured
    row, report = measured.row, item.stash.get(REPORT, None)
    if row is None:
        replay.leave_out(benchmark)
        return
    if row.status == "ok" and report is not None and report.failed:
        row.status, row.samples = "error", []
        row.reason = f"the test failed after timing: {_first_line(report)}"
    session.rows.append(row)
    if row.samples:
        replay.replay(row, benchmark, item.get_closest_marker("benchmark").kwargs["timer"])
        session.benchmarks.append(benchmark.stats)
    else:
        replay.leave_out(benchmark)


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


def _first_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr).split("\n")[0]


def case_id(item: pytest.Item, backend: Backend | None) -> str:
    """The node id without the backend: `test_haar[64-kernel]` is a row of `test_haar[64]`."""
    if backend is None:
        return item.nodeid
    head, _, tail = item.nodeid.partition("[")
    parts = tail.removesuffix("]").split("-")
    where = len(parts) - 1 - parts[::-1].index(backend.name)
    rest = "-".join(parts[:where] + parts[where + 1 :])
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
    if perf_session is None or session.config.option.collectonly or not perf_session.total:
        return
    rows, options = perf_session.rows, perf_session.options
    if options.json is not None and rows:
        save(options.json, rows)
    measured = sum(row.status == "ok" for row in rows)
    if session.exitstatus == 0 and not measured:
        session.exitstatus = EXIT_NOT_MEASURED
    if options.baseline is not None and options.timing and perf_session.stored is None:
        perf_session.note = _make_baseline(session, perf_session)


def _make_baseline(session: pytest.Session, perf_session: PerfSession) -> str:
    """A run becomes the baseline only if it is whole and nothing in it failed."""
    name = perf_session.options.baseline
    assert name is not None
    option = session.config.option
    named = any("::" in str(argument) for argument in session.config.args)
    partial = bool(option.keyword or option.markexpr or option.lf or named)
    if session.exitstatus != 0 or partial or not perf_session.benchmarks:
        why = "a part of the suite ran" if partial else "the run failed"
        return f"baseline {name!r}: there is none yet, and this run does not become it: {why}"
    path = baseline.write(session.config, name, perf_session.benchmarks)
    return f"baseline {name!r}: there was none, so this run was saved as {path.name}"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    session = config.stash.get(SESSION, None)
    if session is not None and session.rows:
        write_summary(terminalreporter, session)
