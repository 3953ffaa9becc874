"""Fresh processes of base and head walk the cases in lockstep; base's second self is the A/A arm.

In one pair a case is sampled in blocks in the order A B C C B A (A base, B head, C base again), or
B A C C A B when the pair is odd. Its A and B alone read ABBA or BAAB, and so do its A and C, so a
linear drift cancels in both ratios. One process works at a time; the others wait for a message.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from . import messages, provenance
from .statistics import pair_log_ratio
from .workers import Worker, WorkerError

# Seconds of one block, and the fewest samples in it.
BLOCK_SECONDS, LEAST = 0.025, 3
START_SECONDS, ANSWER_SECONDS = 300.0, 600.0
ORDERS = ("ABCCBA", "BACCAB")


@dataclass(frozen=True)
class Arm:
    """How to start one side's worker. `base` and `again` run the same commit."""

    name: str
    folder: Path
    environment: Mapping[str, str]
    hello: messages.Hello

    def start(self, stack: ExitStack, logs: Path) -> Worker:
        log = logs / f"{self.name}-{len(list(logs.iterdir()))}.log"
        return stack.enter_context(Worker(self.name, self.folder, self.environment, log))


@dataclass
class Pair:
    """One fresh process of each arm, ready to be asked."""

    workers: dict[str, Worker]
    ready: dict[str, messages.Ready]
    collected: dict[str, messages.Collected]

    def ask_modules(self, arm: str) -> str:
        """Why this arm ran code that is not its own, or empty."""
        worker = self.workers[arm]
        found = worker.request(messages.AskModules(), messages.Modules, ANSWER_SECONDS)
        return provenance.foreign([provenance.ModuleFile(**file) for file in found.files])


@contextmanager
def fresh(arms: Iterable[Arm]) -> Iterator[Pair]:
    """Start all arms at once, wait until each has collected; leaving ends them all."""
    arms = list(arms)
    with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="rightfast-logs-") as folder:
        workers = {arm.name: arm.start(stack, Path(folder)) for arm in arms}
        ready = {a.name: workers[a.name].hello(a.hello, START_SECONDS) for a in arms}
        yield Pair(workers, ready, {name: _collect(worker) for name, worker in workers.items()})


def _collect(worker: Worker) -> messages.Collected:
    """What a worker found; one whose pytest broke off has everything hidden by that failure."""
    try:
        return worker.request(messages.Collect(), messages.Collected, START_SECONDS)
    except WorkerError as error:
        return messages.Collected([], {"": str(error)})


@dataclass
class Samples:
    """What the pairs so far said of one case.

    Attributes:
        ratios: log(head / base) of each pair; aa: log(base again / base).
        base, head: median seconds of one call, by pair.
        wrong: why a timed round was wrong, by side.
        lost: why no more pairs come, or empty.
    """

    ratios: list[float] = field(default_factory=list)
    aa: list[float] = field(default_factory=list)
    base: list[float] = field(default_factory=list)
    head: list[float] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)
    lost: str = ""


def sample_case(pair: Pair, number: int, case: str, samples: Samples, base: str = "base") -> None:
    """One pair's blocks of one case; an arm that fails leaves the pair out and says why.

    Args:
        base: the arm that serves base's side: `base`, or `own` where head's perf file fails there.
    """
    arms = {"A": base, "B": "head"} | ({"C": "again"} if "again" in pair.workers else {})
    order = [letter for letter in ORDERS[number % 2] if letter in arms]
    medians: list[tuple[str, float]] = []
    for letter in order:
        worker = pair.workers[arms[letter]]
        try:
            request = messages.Sample(case, BLOCK_SECONDS, LEAST)
            block = worker.request(request, messages.Sampled, ANSWER_SECONDS)
        except WorkerError as error:
            samples.lost = str(error)
            return
        if block.check:
            samples.wrong[arms[letter]] = block.check
            samples.lost = f"{arms[letter]}: {block.check}"
            return
        medians.append((letter, statistics.median(block.seconds)))
    samples.ratios.append(_log_ratio(medians, "B"))
    if "C" in arms:
        samples.aa.append(_log_ratio(medians, "C"))
    samples.base.append(statistics.median([m for letter, m in medians if letter == "A"]))
    samples.head.append(statistics.median([m for letter, m in medians if letter == "B"]))


def _log_ratio(medians: list[tuple[str, float]], other: str) -> float:
    kept = [(letter, m) for letter, m in medians if letter in ("A", other)]
    order = "".join("A" if letter == "A" else "B" for letter, _ in kept)
    return pair_log_ratio(order, [m for _, m in kept])
