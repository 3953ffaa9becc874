"""Fresh processes of base and head walk the cases in lockstep; base's second self is the A/A arm.

In one pair a case is sampled in quads of short blocks, ABBA (A base, B head), or BAAB when the pair
is odd; in some of them C, base again, stands in the middle: ABCCBA. A and B alone still read ABBA,
and so do A and C, so a linear drift cancels in both ratios. The median over the quads drops those
that a burst of foreign load hit.

One process works at a time, the others wait for a message, and all are on the same core, on another
one in the next pair: two processes on two cores compare the cores.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from . import messages, provenance
from .statistics import pair_log_ratio
from .workers import Reply, Worker, WorkerError

# Seconds of one block, and the fewest samples in it. A block of one long call averages over as
# much as many short ones do; from SLOW_SECONDS on fewer quads are enough, too.
BLOCK_SECONDS, LEAST, SLOW_SECONDS = 0.004, 1, 0.010
START_SECONDS, ANSWER_SECONDS = 300.0, 600.0
# Base against head in every quad, base against itself in one; for even and for odd pairs. A case is
# sampled in three of them, a short one in three more.
QUADS = (("ABBA", "ABCCBA", "ABBA"), ("BAAB", "BACCAB", "BAAB"))
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


@dataclass
class Samples:
    """What the pairs so far said of one case.

    Attributes:
        ratios: log(head / base) of each pair; aa: log(base again / base).
        base, head: median seconds of one call, by pair.
        wrong: why a timed round was wrong, by side.
        lost, lost_on: why no more pairs come, or empty, and the arm that is to blame.
    """

    ratios: list[float] = field(default_factory=list)
    aa: list[float] = field(default_factory=list)
    base: list[float] = field(default_factory=list)
    head: list[float] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)
    lost: str = ""
    lost_on: str = ""


def sample_case(pair: Pair, number: int, case: str, samples: Samples, base: str = "base") -> None:
    """One pair's blocks of one case; an arm that fails leaves the pair out and says why.

    Args:
        base: the arm that serves base's side: `base`, or `own` where head's perf file fails there.
    """
    arms = {"A": base, "B": "head"} | ({"C": AGAIN[base]} if AGAIN[base] in pair.workers else {})
    taken: list[list[tuple[str, float]]] = []
    for quad in QUADS[number % 2] * 2:
        blocks = []
        for letter in filter(arms.get, quad):
            seconds = _block(pair, arms[letter], case, samples)
            if seconds is None:
                return
            blocks.append((letter, seconds))
        taken.append(blocks)
        if len(taken) == len(QUADS[0]) and blocks[0][1] >= SLOW_SECONDS:
            break
    samples.ratios.append(_log_ratio(taken, "B"))
    if "C" in arms:
        samples.aa.append(_log_ratio(taken, "C"))
    medians = [block for blocks in taken for block in blocks]
    samples.base.append(statistics.median([m for letter, m in medians if letter == "A"]))
    samples.head.append(statistics.median([m for letter, m in medians if letter == "B"]))


def _block(pair: Pair, arm: str, case: str, samples: Samples) -> float | None:
    """Median seconds of one block, or None if the case is lost."""
    try:
        request = messages.Sample(case, BLOCK_SECONDS, LEAST)
        block = pair.ask(arm, request, messages.Sampled)
    except WorkerError as error:
        samples.lost, samples.lost_on = str(error), arm
        return None
    if block.check:
        samples.wrong[arm] = block.check
        samples.lost, samples.lost_on = f"{arm}: {block.check}", arm
        return None
    return statistics.median(block.seconds)


def _log_ratio(quads: list[list[tuple[str, float]]], other: str) -> float:
    """log(other / base) of a pair, from the quads that hold the other letter."""
    with_it = [quad for quad in quads if any(letter == other for letter, _ in quad)]
    chosen = [block for quad in with_it for block in quad if block[0] in ("A", other)]
    order = "".join("A" if letter == "A" else "B" for letter, _ in chosen)
    return pair_log_ratio(order, [seconds for _, seconds in chosen])
