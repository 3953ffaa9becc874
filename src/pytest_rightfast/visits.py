"""Inside a worker of the gate: one case stays open while the gate asks things of it.

The gate walks the cases on two or three processes in lockstep. Between two blocks of a case its
inputs, closures and expected answers must stay as they are, so `perf(...)` does not return until
the gate asks for another case: it answers requests in the meantime.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import bits, clock_cpu, clock_cuda, clocks, counters, messages, timing, traces, triton_aot
from .case import PerfCase
from .compare import Mismatch
from .errors import PerfError, Unsupported
from .verdicts import Status
from .verify import Verifier

# The warm-up of a fresh process takes a tenth of this at most.
WARM_SECONDS = 0.1

Request = messages.Verify | messages.Sample | messages.Count | messages.Trace


@dataclass
class Desk:
    """Where requests come from and replies go; holds the one that is still to be answered."""

    receive: Callable[[], tuple[int, messages.Message]]
    send: Callable[[int, messages.Message], None]
    pending: tuple[int, messages.Message] | None = None
    answered: int = 0  # number of the last request that got its reply

    def take(self) -> tuple[int, messages.Message]:
        found, self.pending = self.pending or self.receive(), None
        return found

    def reply(self, number: int, message: messages.Message) -> None:
        self.send(number, message)
        self.answered = number


@dataclass
class Visit:
    """One open case."""

    function: Callable[..., Any]
    case: PerfCase
    verifier: Verifier
    changed_state: Callable[[], dict[str, str]]
    guard: Callable[[], Any]  # a context manager that blames the backend for what it raises
    refute: Callable[[float, tuple[int | None, int | None]], str]  # see Ceilings.refute
    device: str = "cpu"
    timed: bool = True  # False: it only verifies
    verified: bool = False  # in this process
    sampler: clock_cpu.Sampler | clock_cuda.DeviceSampler | None = field(default=None)

    def serve(self, desk: Desk, name: str) -> None:
        """Answer requests for case `name`; return when another comes, leaving it pending."""
        while True:
            number, request = desk.take()
            if not isinstance(request, Request) or request.case != name:
                desk.pending = (number, request)
                return
            desk.reply(number, self.answer(request))

    def answer(self, request: Request) -> messages.Message:
        """Whatever the code under test raises is an answer too; without one the gate would wait."""
        try:
            if isinstance(request, messages.Verify):
                return self.verify(request)
            if isinstance(request, messages.Sample):
                return self.sample(request)
            if isinstance(request, messages.Trace):
                return self.trace(request)
            return messages.Counted(self.count())
        except BaseException as error:
            status, reason = status_of(error)
            if isinstance(request, messages.Verify):
                return messages.Verified(status, reason)
            return messages.Failed(reason)

    def verify(self, request: messages.Verify) -> messages.Verified:
        self.verified = True
        self.verifier.answers = {} if request.outputs else None
        wrong = self.verifier.before() or self.verifier.cached()
        if changed := self.changed_state():
            return messages.Verified(Status.RAISED, f"it changed global torch state: {changed}")
        status, reason = (Status.WRONG, str(wrong)) if wrong else (Status.OK, "")
        errors = {k: v if math.isfinite(v) else None for k, v in self.verifier.errors.items()}
        outputs = self._keep_outputs(request.outputs) if wrong is None else ""
        # A case with a check alone has drawn without one.
        inputs = self.verifier.fingerprint or bits.fingerprint(self.verifier.draw(0))
        right = {str(draw): list(known) for draw, known in self.verifier.digests().items()}
        return messages.Verified(status, reason, inputs, errors, outputs, self.timed, right)

    def _keep_outputs(self, folder: str) -> str:
        """Save the answers of the first two draws and of every family, for the other side."""
        if not folder:
            return ""
        import torch

        file = Path(folder) / "outputs.pt"
        partial = file.with_suffix(".partial")
        torch.save(self.verifier.answers, partial)
        partial.rename(file)
        return str(file)

    def sample(self, request: messages.Sample) -> messages.Sampled:
        budget = clock_cpu.Budget(request.seconds, request.least, 1, request.lead)
        if not self.verified:
            right = {int(draw): (k, digest) for draw, (k, digest) in request.right.items()}
            self.verifier.trust(right)
        if self.sampler is None:
            with self.guard():
                probe = self.verifier.own(0)
                start = time.perf_counter()
                returned = self.function(*probe.args, **probe.kwargs)
                per_call = time.perf_counter() - start
                if self.case.sync is None:
                    clocks.check_device(self.device, [probe.args, probe.kwargs, returned])
                target = timing.target(self.function, self.case, self.verifier.own, per_call)
                warm = clock_cpu.Budget(WARM_SECONDS, request.least)
                self.sampler = clocks.sampler(target, warm, self.device, self.verifier.seed)
        block = self.sampler.block(budget)
        escaped = getattr(block, "escaped", 0.0)
        late = f"the device worked on for {escaped:.2g} s after the call's stream"
        check = str(self._check(block.kept) or late * bool(escaped))
        refuted = ""
        if request.refute and self.case.states_work:
            work = self.case.work(self.verifier.draw(0))
            refuted = self.refute(statistics.median(block.samples), work)
        return messages.Sampled(block.samples, check, refuted)

    def _check(self, kept: list[timing.Kept]) -> Mismatch | None:
        wrongs = (self.verifier.judge(found, number) for number, found in kept)
        return next(filter(None, wrongs), None)

    def count(self) -> list[dict[str, float]]:
        target = timing.target(self.function, self.case, self.verifier.own, 1.0)
        passes = [counters.one_pass(target.calls[0], target.reset, self.device) for _ in range(2)]
        ahead = triton_aot.counters_or_warning(self.case.kernels) if self.case.kernels else {}
        return [{**found, **ahead} for found in passes]

    def trace(self, request: messages.Trace) -> messages.Done:
        target = timing.target(self.function, self.case, self.verifier.own, 1.0)
        traces.record(target.calls[0], target.reset, Path(request.file))
        return messages.Done()


def status_of(error: BaseException) -> tuple[Status, str]:
    """A backend's own word that it does not cover a case is a skip; anything else was raised."""
    import pytest

    cause = error.__cause__ or error
    reason = str(error) if isinstance(error, PerfError) else f"{type(cause).__name__}: {cause}"
    skipped = isinstance(cause, Unsupported | pytest.skip.Exception)
    return (Status.SKIPPED if skipped else Status.RAISED), reason
