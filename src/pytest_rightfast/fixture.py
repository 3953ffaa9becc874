"""`perf(...)`: the stages of one case, in order: verify, time, verify again, count, judge."""

from __future__ import annotations

import functools
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from . import (
    bits,
    clock_cpu,
    clocks,
    compile_counters,
    counters,
    leaves,
    profiles,
    timing,
    traces,
    triton_aot,
)
from .case import Backend, Call, PerfCase, build_case
from .clock_cuda import DeviceTiming
from .compare import Mismatch
from .errors import CaseError, PerfError, ResultsError, StateError, Unsupported, WrongAnswer
from .evaluate import answer
from .machine import environment
from .rows import INTERRUPTED, Row
from .session import PerfSession
from .state import DEFAULTS, changes, restore, torch_state
from .verify import Verifier
from .visits import Visit


class _Stopwatch:
    """Adds up the time spent in user code."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            self.seconds += time.perf_counter() - start


class BackendFailed(Exception):
    """The backend raised; told apart from an error of the case or of its reference."""


class Perf:
    """The `perf` fixture. Call it once per test: `perf(function, *args, reference=...)`."""

    def __init__(
        self,
        session: PerfSession,
        test_id: str,
        case_id: str,
        backend: Backend | None,
        threads: int,
    ) -> None:
        self.session = session
        self._id, self._case_id, self._backend, self._threads = test_id, case_id, backend, threads
        self.budget = clock_cpu.Budget(session.options.max_time, session.options.min_rounds)
        self.row: Row | None = None
        self.order = 0

    def __call__(self, function: Callable[..., Any], /, *args: Any, **keywords: Any) -> Row:
        """Verify `function`, time it, and return its row.

        Args:
            function: what is measured; a `Backend` from the `backend` argument, or any callable.
            args, keywords: its arguments. The names in `pytest_rightfast.RESERVED` describe the
                case instead (see `PerfCase`).

        Raises:
            WrongAnswer: a subject is wrong.
            CaseError: the case is written wrong.
            StateError: global torch state was changed.
        """
        __tracebackhide__ = True
        if self.row is not None:
            raise CaseError(
                "perf was called twice in one test",
                expected="one call a test, so that each has an id of its own",
                remedy="use @pytest.mark.parametrize or perf_backends",
            )
        if isinstance(function, Backend):
            self._backend = function
        self.row = row = self.new_row(_name(function))
        for source in self.session.sources:
            if (found := source.row_like(row)) is not None:
                return self._take(found)
        start, users = time.perf_counter(), _Stopwatch()
        before = torch_state()
        row.state = {key: before[key] for key, v in DEFAULTS.items() if before[key] != v}
        try:
            self._run(*self._case(function, args, keywords), row, users)
        except BackendFailed as failed:
            self._failed(row, failed.__cause__ or failed)
        except BaseException as error:
            if row.status == "ok":
                stopped = isinstance(error, KeyboardInterrupt | pytest.exit.Exception)
                row.reason = INTERRUPTED if stopped else f"{type(error).__name__}: {error}"
                row.status, row.samples = "error", []
            raise
        finally:
            row.overhead = time.perf_counter() - start - users.seconds
            self._check_state(row, before)
        return row

    def _take(self, row: Row) -> Row:
        """A row that was measured elsewhere ends this test as it ended there."""
        __tracebackhide__ = True
        self.row = row
        if row.status == "ok":
            return row
        if row.role == "peer" or row.status == "unsupported":
            pytest.skip(f"{row.role} {row.backend}: {row.reason}")
        said = f"{row.backend}: {row.reason}"
        raise WrongAnswer(said) if row.status == "wrong" else PerfError(said)

    def new_row(self, name: str) -> Row:
        """A row of this test without results; `name`: of the backend if the test has none."""
        import torch

        one = self._backend
        name, role = (one.name, one.role) if one else (name, "subject")
        row = Row(self._id, self._case_id, name, role, device=self.session.options.device)
        row.order = self.order
        row.environment = environment(self.session.root, row.device)
        row.environment["sampling"] = [self.budget.max_time, self.budget.min_rounds]
        row.threads_asked, row.threads = self._threads, torch.get_num_threads()
        row.heap = self.session.options.heap
        return row

    def _case(
        self, function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[Callable[..., Any], PerfCase]:
        plain = function.function if isinstance(function, Backend) else function
        case, plain = _with_module(build_case(args, keywords), plain)
        if self._backend and self._backend.output:
            case = replace(case, output=self._backend.output)
        return plain, case

    def sequence(
        self, make: Callable[[], Any], fresh: Callable[[], Any], steps: Any, **options: Any
    ) -> Row:
        """Verify a long-lived object step by step; see `pytest_rightfast.sequence_case.run`."""
        __tracebackhide__ = True
        from .sequence_case import run

        return run(self, make, fresh, steps, **options)

    def _run(
        self, function: Callable[..., Any], case: PerfCase, row: Row, users: _Stopwatch
    ) -> None:
        __tracebackhide__ = True
        if self.session.import_changes:
            raise _polluted(self.session.import_changes)
        cache = self.session.cache_of(f"{row.case}, {row.threads} threads")
        seed = zlib.crc32(row.case.encode())
        prepare = self._backend.prepare if self._backend else None
        prepare = attributed(prepare) if prepare else None
        ask = attributed(lambda call: answer(function, call, case))
        verifier = Verifier(case, ask, seed, cache, users, prepare)
        if self.session.desk is not None:
            if row.role == "peer":
                pytest.skip("a peer is not gated")
            before = torch_state()
            changed = lambda: changes(before, torch_state())  # noqa: E731
            timed = self.session.options.timing
            refute = functools.partial(self.session.ceilings.refute, threads=row.threads)
            visit = Visit(function, case, verifier, changed, _blamed, refute, row.device, timed)
            visit.serve(self.session.desk, row.id)
            return
        wrong = verifier.before()
        if not wrong and self.session.options.timing:
            wrong = self._time(function, case, row, verifier, users)
        elif not wrong:
            wrong = verifier.after([])
        if not wrong and row.role == "subject":
            self._count(function, case, row, verifier, users)
        wrong = wrong or verifier.cached()
        if not wrong:
            self._profile(function, case, row, verifier, users)
        row.inputs = verifier.fingerprint or bits.fingerprint(verifier.draw(0))
        row.errors, row.worst_error = verifier.errors, verifier.worst
        row.error = max(verifier.errors.values(), default=None)
        self._judge(row, wrong or self._implausible(case, row, verifier))

    def _time(
        self,
        function: Callable[..., Any],
        case: PerfCase,
        row: Row,
        verifier: Verifier,
        users: _Stopwatch,
    ) -> Mismatch | None:
        probe = verifier.own(0)
        start = time.perf_counter()
        returned = attributed(function)(*probe.args, **probe.kwargs)
        per_call = time.perf_counter() - start
        users.seconds += per_call
        if case.sync is None:
            clocks.check_device(row.device, [probe.args, probe.kwargs, returned])
        with _blamed():
            made = users(timing.target, function, case, verifier.own, per_call)
            taken = clocks.sampler(made, self.budget, row.device, verifier.seed).block()
        users.seconds += taken.busy
        row.samples, row.loops, row.first_call = taken.samples, taken.loops, taken.first_call
        row.warmup_calls, row.steady = taken.warmup_calls, taken.steady
        if isinstance(taken, DeviceTiming):
            row.host, row.discarded, row.clocks = taken.host, taken.discarded, taken.clocks
            if taken.escaped:
                late = f"{taken.escaped * 1e6:.0f} us"
                return Mismatch("time", f"the device worked on for {late} after the call's stream")
        return verifier.after(taken.kept)

    def _count(
        self,
        function: Callable[..., Any],
        case: PerfCase,
        row: Row,
        verifier: Verifier,
        users: _Stopwatch,
    ) -> None:
        with _blamed():
            made = users(timing.target, function, case, verifier.own, 1.0)
            row.counters, row.inexact = counters.count(made.calls[0], made.reset, row.device)
        users.seconds += 4 * (row.median or 0.0)
        if case.kernels:
            row.counters |= users(triton_aot.counters_or_warning, case.kernels)
        users(compile_counters.note, row, function, verifier.own(0))

    def _profile(
        self,
        function: Callable[..., Any],
        case: PerfCase,
        row: Row,
        verifier: Verifier,
        users: _Stopwatch,
    ) -> None:
        """After everything else: what the profiler slows down must not be what was timed."""
        options = self.session.options
        if not options.profile and options.trace is None:
            return
        with _blamed():
            made = users(timing.target, function, case, verifier.own, 1.0)
            call, reset, shapes = made.calls[0], made.reset, options.trace is not None
            found, recorded = users(profiles.record, call, reset, row.device, shapes)
        if options.trace is not None:
            self._keep_trace(recorded, traces.file_of(options.trace, row.id))
        if options.profile:
            row.profile = {**found, "unprofiled_seconds": row.median}

    def _keep_trace(self, recorded: Any, file: Path) -> None:
        """A full disk is not the backend's fault, and what was measured is right without it."""
        try:
            profiles.write_trace(recorded, file)
        except ResultsError as error:
            self.session.note = str(error)

    def _implausible(self, case: PerfCase, row: Row, verifier: Verifier) -> Mismatch | None:
        """Work out rates, and refuse a time that this machine cannot reach."""
        if not case.states_work:
            return None
        row.moved_bytes, row.flops = work = case.work(verifier.draw(0))
        if not self.session.options.timing or row.median is None:
            return None
        ceilings = self.session.ceilings
        if row.moved_bytes:
            row.copy_seconds = ceilings.copy_seconds(row.moved_bytes, row.threads)
        why = ceilings.refute(row.median, work, row.threads)
        return Mismatch("time", why) if why else None

    def _judge(self, row: Row, wrong: Mismatch | None) -> None:
        __tracebackhide__ = True
        if wrong is None:
            return
        row.status, row.reason, row.samples = "wrong", str(wrong), []
        if row.role == "peer":
            pytest.skip(f"peer {row.backend} is wrong: {wrong}")
        raise WrongAnswer(f"{row.backend} is wrong: {wrong}")

    def _failed(self, row: Row, error: BaseException) -> None:
        """The backend raised: unsupported by its own word, or broken."""
        __tracebackhide__ = True
        absent = isinstance(error, ImportError | NotImplementedError) and row.role == "peer"
        skipped = isinstance(error, Unsupported | pytest.skip.Exception)
        row.samples, row.reason = [], " ".join(f"{error}".split()) or type(error).__name__
        row.status = "unsupported" if absent or skipped else "error"
        if row.status == "unsupported" or row.role == "peer":
            row.reason = row.reason if skipped else f"{type(error).__name__}: {row.reason}"
            pytest.skip(f"{row.backend}: {row.reason}")
        row.reason = f"{type(error).__name__}: {row.reason}"
        raise error

    def _check_state(self, row: Row, before: dict[str, Any]) -> None:
        changed = changes(before, torch_state())
        if changed:
            restore(before)
            row.status, row.samples = "error", []
            row.reason = f"changed global torch state: {changed}"
            if row.role == "peer":
                pytest.skip(f"{row.backend} {row.reason}")
            raise StateError(
                f"{row.backend} changed global torch state",
                expected="the state after a call as before it",
                got=changed,
                remedy="set it inside a context manager; it has been put back",
            )


def attributed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark what `function` raises as the backend's."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with _blamed():
            return function(*args, **kwargs)

    return call


@contextmanager
def _blamed() -> Iterator[None]:
    try:
        yield
    except (PerfError, pytest.exit.Exception):
        raise
    except (Exception, pytest.skip.Exception) as error:
        raise BackendFailed from error


def _with_module(
    case: PerfCase, function: Callable[..., Any]
) -> tuple[PerfCase, Callable[..., Any]]:
    """A module's parameters are inputs too: it becomes the first argument of its own class."""
    import torch

    if not isinstance(function, torch.nn.Module):
        return case, function
    inner = case.inputs
    assert inner is not None

    def inputs(generator: Any) -> Call:
        drawn = PerfCase(inputs=inner, check=bool)
        call = drawn.draw(generator.initial_seed())
        return Call((leaves.vary(function, generator), *call.args), call.kwargs)

    # The module takes place 0, so the function's own arguments move up by one.
    moved = tuple(key + 1 if isinstance(key, int) else key for key in case.mutates)
    return replace(case, inputs=inputs, mutates=moved), type(function).__call__


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _polluted(found: dict[str, dict[str, str]]) -> PerfError:
    return StateError(
        "global torch state was changed while test files were imported",
        expected="torch's defaults, for numbers and times that mean the same everywhere",
        got="; ".join(f"{file}: {changed}" for file, changed in found.items()),
        remedy="move the setting into a fixture or a context manager",
    )
