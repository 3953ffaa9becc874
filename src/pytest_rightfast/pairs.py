"""Fresh processes of base and head walk the cases in lockstep; base's second self is the A/A arm.

In one pair a case is sampled in quads of short blocks, ABCCBA (A base, B head, C base again), or
BACCAB when the pair is odd. A and B alone read ABBA, and so do A and C: a drift weighs on both
alike, and the A/A arm is as noisy as the ratio that it is to judge. A pair is read twice: by its
typical calls (lower quartile of a block, lower quartile of an arm's blocks, so that foreign load,
which only adds time, is dropped), and by the mean of all its calls, in which no call is dropped.

One process works at a time, the others wait for a message, and all are on the same core, on another
one in the next pair: two processes on two cores compare the cores.
"""

from __future__ import annotations

import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from . import messages, provenance
from .statistics import lower_quartile, quad_log_ratio
from .workers import Reply, Worker, WorkerError

# Seconds of one block, the fewest samples in it, and seconds of calls before it that only fill the
# caches again, which the other processes used in between.
BLOCK_SECONDS, LEAST, LEAD_SECONDS = 0.006, 1, 0.004
START_SECONDS, ANSWER_SECONDS = 300.0, 600.0
# A (base), B (head) and C (base again) in an even and in an odd pair.
QUADS = ("ABCCBA", "BACCAB")
# A pair takes so many quads of a case, and more until their medians are known to PRECISION or
# CASE_SECONDS have passed: on a busy machine blocks are noisy and cost less than fresh processes.
LEAST_QUADS, PRECISION, CASE_SECONDS = 3, 0.015, 0.6
# The second self of each arm that can stand for base.
AGAIN = {"base": "again", "own": "own again"}


@dataclass(frozen=True)
class Arm:
    """How to start one side's worker. `base` and `again` run the same commit."""

    name: str
    folder: Path
    environment: Mapping[str, str]
    hello: messages.Hello

    def start(self, stack: ExitStack, logs: Path) -> Worker:
        place = logs / f"{self.name}-{len(list(logs.iterdir()))}"
        place.mkdir()
        # What the cases leave in their temporary folder goes when the pair ends, however it ends.
        environment = {**self.environment, "TMPDIR": str(place)}
        return stack.enter_context(Worker(self.name, self.folder, environment, place / "log"))


class Pair:
    """One fresh process of each arm, ready to be asked.

    One that dies is started again, once for each request that it dies of, so that a case which
    crashes takes no other case with it.
    """

    def __init__(
        self, arms: Iterable[Arm], stack: ExitStack, logs: Path, patience: Callable[[], float]
    ) -> None:
        self.arms = {arm.name: arm for arm in arms}
        self.stack, self.logs, self.patience = stack, logs, patience
        self.workers: dict[str, Worker] = {}
        self.ready: dict[str, messages.Ready] = {}
        self.collected: dict[str, messages.Collected] = {}
        self.add(*self.arms.values())

    def add(self, *arms: Arm) -> None:
        """Start more of them, all at once."""
        for arm in arms:
            self.arms[arm.name] = arm
            self.workers[arm.name] = arm.start(self.stack, self.logs)
        for arm in arms:
            self._greet(arm.name)

    def _greet(self, name: str) -> None:
        """A worker that can't start or collect has every case hidden by that failure."""
        worker = self.workers[name]
        try:
            self.ready[name] = worker.hello(self.arms[name].hello, START_SECONDS)
            asked = messages.Collect()
            self.collected[name] = worker.request(asked, messages.Collected, START_SECONDS)
        except WorkerError as error:
            self.ready.setdefault(name, messages.Ready(messages.VERSION, 0, {}))
            said = "" if worker.ended else worker.tail().strip()
            self.collected[name] = messages.Collected([], {"": f"{said}\n{error}"})

    def ask(self, arm: str, message: messages.Message, expected: type[Reply]) -> Reply:
        """Raises WorkerError; the worker that it leaves behind can be asked again."""
        worker = self.workers[arm]
        try:
            return worker.request(message, expected, self.patience())
        except WorkerError:
            if worker.ended and self.collected[arm].ids:
                collected = self.collected[arm]
                self.workers[arm] = self.arms[arm].start(self.stack, self.logs)
                self._greet(arm)
                # What was there before is known; one more crash must not make it `gone`.
                self.collected[arm] = collected
            raise

    def pin(self, number: int) -> None:
        """Put all processes of pair `number` on one core."""
        if not hasattr(os, "sched_setaffinity"):
            return
        cores = sorted(os.sched_getaffinity(0))
        for worker in self.workers.values():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(worker.pid, {cores[number % len(cores)]})

    def ask_modules(self, arm: str) -> str:
        """Why this arm ran code that is not its own, or empty."""
        found = self.ask(arm, messages.AskModules(), messages.Modules)
        return provenance.foreign([provenance.ModuleFile(**file) for file in found.files])


@contextmanager
def fresh(arms: Iterable[Arm], patience: Callable[[], float]) -> Iterator[Pair]:
    """Start all arms at once, wait until each has collected; leaving ends them all.

    `patience` tells how many seconds the next answer may take.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rightfast-logs-"))
        yield Pair(arms, stack, Path(folder), patience)


@dataclass(frozen=True)
class Block:
    """Seconds of one call of the arm `letter`: what is typical in one block, and the mean."""

    letter: str
    typical: float
    mean: float


Quad = list[Block]  # in time order


@dataclass
class Ratios:
    """One number a pair: log(head / base), and log(base again / base), the A/A arm."""

    head: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)

    def add(self, seconds: Mapping[str, float]) -> None:
        """One pair's seconds, by letter."""
        self.head.append(math.log(seconds["B"] / seconds["A"]))
        if "C" in seconds:
            self.again.append(math.log(seconds["C"] / seconds["A"]))


@dataclass
class Samples:
    """What the pairs so far said of one case.

    Attributes:
        typical, mean: of the typical call, and of the mean over all calls.
        base, head: seconds of a typical call, by pair.
        wrong, implausible: why a timed round was wrong, or can't be that fast, by arm.
        lost, lost_on: why no more pairs come, or empty, and the arm that is to blame.
    """

    typical: Ratios = field(default_factory=Ratios)
    mean: Ratios = field(default_factory=Ratios)
    base: list[float] = field(default_factory=list)
    head: list[float] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)
    implausible: dict[str, str] = field(default_factory=dict)
    lost: str = ""
    lost_on: str = ""


def sample_case(
    pair: Pair,
    number: int,
    case: str,
    samples: Samples,
    base: str = "base",
    right: Mapping[str, dict[str, list[str]]] = MappingProxyType({}),
) -> None:
    """One pair's blocks of one case; an arm that fails leaves the pair out and says why.

    Args:
        base: the arm that serves base's side: `base`, or `own` where head's perf file fails there.
        right: digests of the right answers, by arm (see `messages.Verified`).
    """
    arms = {"A": base, "B": "head"} | ({"C": AGAIN[base]} if AGAIN[base] in pair.workers else {})
    letters = [letter for letter in QUADS[number % 2] if letter in arms]
    begun, quads = time.monotonic(), list[Quad]()
    while not quads or not _enough(quads, time.monotonic() - begun):
        quad = []
        for letter in letters:
            known = right.get("head" if letter == "B" else base, {})
            request = messages.Sample(
                case, BLOCK_SECONDS, LEAST, LEAD_SECONDS, not (number or quads), known
            )
            seconds = _block(pair, arms[letter], request, samples)
            if seconds is None:
                return
            quad.append(Block(letter, lower_quartile(seconds), statistics.fmean(seconds)))
        quads.append(quad)
    read = {letter: _read(quads, letter) for letter in arms}
    samples.base.append(read["A"].typical)
    samples.head.append(read["B"].typical)
    samples.typical.add({letter: block.typical for letter, block in read.items()})
    samples.mean.add({letter: block.mean for letter, block in read.items()})


def _enough(quads: list[Quad], seconds: float) -> bool:
    """By time and by how far the quads are apart, never by what they say of head."""
    late = seconds >= CASE_SECONDS
    if len(quads) < LEAST_QUADS:
        return False
    others = {block.letter for block in quads[0]} - {"A"}
    # Not the median deviation: of three, two agree by chance.
    errors = [statistics.stdev(_log_ratios(quads, o)) / len(quads) ** 0.5 for o in others]
    return late or max(errors) <= PRECISION


def _block(pair: Pair, arm: str, request: messages.Sample, samples: Samples) -> list[float] | None:
    """Seconds of the calls of one block, or None if the case is lost."""
    try:
        block = pair.ask(arm, request, messages.Sampled)
    except WorkerError as error:
        samples.lost, samples.lost_on = str(error), arm
        return None
    if why := block.check or block.refuted:
        (samples.wrong if block.check else samples.implausible)[arm] = why
        samples.lost, samples.lost_on = f"{arm}: {why}", arm
        return None
    return block.seconds


def _read(quads: list[Quad], letter: str) -> Block:
    """All blocks of one arm. A drift weighs on all arms alike: the quads are palindromes."""
    blocks = [block for quad in quads for block in quad if block.letter == letter]
    return Block(
        letter,
        lower_quartile([block.typical for block in blocks]),
        statistics.fmean([block.mean for block in blocks]),
    )


def _log_ratios(quads: list[Quad], other: str) -> list[float]:
    """log(other / base) of each quad, of typical calls."""
    chosen = [[block for block in quad if block.letter in ("A", other)] for quad in quads]
    return [
        quad_log_ratio(
            "".join("A" if block.letter == "A" else "B" for block in quad),
            [block.typical for block in quad],
        )
        for quad in chosen
    ]
