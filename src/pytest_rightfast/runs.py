"""What surrounds the cases of one run: heap, fresh processes, an earlier run, the rows' file."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from . import heap
from .errors import PerfError
from .journal import Journal, Resume
from .options import Options, usage
from .repeats import Repeats
from .results import save
from .rows import Row
from .session import PerfSession
from .shards import Shard

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
    found = Resume(
        options.json, repeats=options.repeats, timing=options.timing, profile=options.profile
    )
    session.sources.append(found)
    if session.journal is not None and found.kept:
        session.journal.keep(found.kept)


def keep(session: PerfSession, row: Row) -> None:
    """A case has ended."""
    session.rows.append(row)
    if session.journal is not None:
        session.journal.keep([row])


def finish(session: PerfSession, worker: bool) -> bool:
    """Write the file; False if it cannot be. `worker`: of pytest-xdist, which writes nothing."""
    for source in session.sources:
        source.close()
        if isinstance(source, Resume):
            session.resumed = f"{source.taken} cases taken from {source.source}"
    journal, session.journal = session.journal, None  # what is torn down now has not finished
    if session.options.json is None or worker:
        return True
    try:
        save(session.options.json, session.rows)  # even if none: an old one would pass for this
    except PerfError as error:
        session.note = str(error)
        return False
    session.written = session.options.json
    if journal is not None:
        journal.drop()
        session.note = session.note or journal.note
    return True
