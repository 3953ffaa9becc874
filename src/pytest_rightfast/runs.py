"""What surrounds the cases of one run: heap, fresh processes, an earlier run, the rows' file."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from . import heap
from .errors import PerfError
from .journal import Journal
from .machine import environment
from .options import Options, find_device, usage
from .repeats import Repeats
from .results import check_writable, save
from .resume import Resume
from .rows import Row
from .session import PerfSession
from .shards import Shard
from .tables import in_order

# What the gate decides itself, or has no meaning for it.
NOT_FOR_THE_GATE = {
    "--perf-repeats": ("repeats", "it measures in as many pairs of fresh processes as it needs"),
    "--perf-profile": ("profile", "use --perf-trace, which traces both sides of slower cases"),
    "--perf-shard": ("shard", "name the files of each job: a shard's cases differ between sides"),
    "--perf-resume": ("resume", "an interrupted gate starts anew"),
}


def prepare(
    config: pytest.Config, session: PerfSession, case_of: Callable[[pytest.Item], str | None]
) -> None:
    """At the start. Raises `pytest.UsageError`."""
    options = session.options
    if config.getoption("--perf-against"):
        _refuse_in_gate(options)
    if options.shard is not None:
        config.pluginmanager.register(Shard(*options.shard, case_of), "rightfast-shard")
    if config.option.collectonly:
        return
    try:
        _check_writable(config, options)
        if options.heap != "system":
            heap.put_in_force(options.heap)
        if options.json is not None and not config.getoption("--perf-against"):
            session.journal = Journal(options.json)
        if options.resume:
            _resume(session)
    except PerfError as error:
        raise pytest.UsageError(str(error)) from error
    if options.repeats > 1:
        found = Repeats(config, options.repeats, options.profile, options.trace)
        session.sources.append(found)


def _check_writable(config: pytest.Config, options: Options) -> None:
    """What the run is to write. Raises ResultsError."""
    files = {"--perf-json": options.json, "--perf-markdown": config.getoption("--perf-markdown")}
    for option, file in files.items():
        if file is not None:
            check_writable(option, file.parent, file)
    if options.trace is not None:
        check_writable("--perf-trace", options.trace)


def _refuse_in_gate(options: Options) -> None:
    plain = Options()
    for option, (name, remedy) in NOT_FOR_THE_GATE.items():
        if getattr(options, name) != getattr(plain, name):
            got = getattr(options, name)
            raise usage(f"{option} is not for the gate", expected="none", got=got, remedy=remedy)


def _resume(session: PerfSession) -> None:
    options = session.options
    if options.json is None:
        raise usage(
            "--perf-resume takes finished cases from the file of --perf-json",
            expected="--perf-json FILE beside it",
            got="no --perf-json",
            remedy="name the file of the interrupted run",
        )
    session.sources.append(Resume(options.json, options))


def admit(session: PerfSession) -> None:
    """After collection: may this run write over the earlier one? Raises `pytest.UsageError`."""
    for source in session.sources:
        if isinstance(source, Resume):
            find_device(session.options.device)
            here = environment(session.root, session.options.device)
            try:
                kept = source.admit(here, session.asked)
            except PerfError as error:
                raise pytest.UsageError(str(error)) from error
            if session.journal is not None and kept:
                session.journal.keep(kept)


def keep(session: PerfSession, row: Row) -> None:
    """A case has ended."""
    session.rows.append(row)
    if session.journal is not None:
        session.journal.keep([row])


def finish(session: PerfSession, worker: bool) -> bool:
    """Write the file; False if it cannot be. `worker`: of pytest-xdist, which writes nothing."""
    for source in session.sources:
        source.close()
    journal, session.journal = session.journal, None  # what is torn down now has not finished
    if session.options.json is None or worker:
        return True
    earlier = next((source for source in session.sources if isinstance(source, Resume)), None)
    if earlier is not None and not earlier.admitted:
        return True  # refused before it began: the earlier rows stay as they are
    rows = session.rows
    if earlier is not None:
        session.resumed = earlier.notes(rows)
        rows = in_order([*rows, *rest]) if (rest := earlier.rest(rows)) else rows
    try:
        save(session.options.json, rows)  # even if none: an old one would pass for this
    except PerfError as error:
        session.note = str(error)
        return False
    session.written = session.options.json
    if journal is not None:
        journal.drop()
        session.note = session.note or journal.note
    return True
