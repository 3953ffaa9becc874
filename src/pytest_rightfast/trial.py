"""The first pair: who has which case, whose answer is right, what it costs; before any timing."""

from __future__ import annotations

import contextlib
import filecmp
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from . import messages, pairs, ulps
from .statistics import Decision, Noise
from .verdicts import Facts, Side, Status, exact_counters
from .workers import WorkerError

Progress = Callable[[str], None]
FINGERPRINTS = (
    "the two sides draw other inputs, so their times say nothing of the code (memory that nobody "
    "filled, as that of torch.empty, differs as well: give torch.zeros)"
)


@dataclass
class Case:
    """Everything found out about one case.

    Attributes:
        arm: which arm stands for base: `base`, or `own` where head's perf file fails there.
        outputs: how the answers of the two sides differ.
        decision: of the look that settled it; None as long as no look did.
        trace: files of the two sides' traces, where it is slower and traces were asked for.
    """

    name: str
    base: Side = field(default_factory=lambda: Side(Status.ABSENT))
    head: Side = field(default_factory=lambda: Side(Status.ABSENT))
    arm: str = "base"
    verified: dict[str, messages.Verified] = field(default_factory=dict)
    counters: dict[str, tuple[float, float]] = field(default_factory=dict)
    outputs: str = ""
    samples: pairs.Samples = field(default_factory=pairs.Samples)
    noise: Noise | None = None
    decision: Decision | None = None
    facts: Facts | None = None
    trace: list[str] = field(default_factory=list)

    @property
    def waiting(self) -> bool:
        return self.decision is None and not self.samples.lost


class Trial:
    """Asks one pair about every case.

    Args:
        pair: fresh processes that have collected.
        selected: whether an id of base's own is one that was asked for.
        outputs: a folder for the sides' answers.
    """

    def __init__(
        self, pair: pairs.Pair, selected: Callable[[str], bool], outputs: Path, say: Progress
    ) -> None:
        self.pair, self.outputs, self.say = pair, outputs, say
        self.notes: list[str] = []
        # Without an arm of its own, base's perf files are head's, byte for byte.
        own = pair.collected.get("own", pair.collected["base"])
        self.own = messages.Collected([i for i in own.ids if selected(i)], own.failed)

    def run(self) -> list[Case]:
        cases = self._collected()
        for case in cases:
            self.say(f"verifying {case.name}")
            self._verify(case)
        self._check_provenance(cases)
        for case in cases:
            self._check_inputs(case)
        return cases

    def _collected(self) -> list[Case]:
        """Who has which case; an import error hides a file's cases, it does not remove them."""
        for arm, collected in self.pair.collected.items():
            for file, why in collected.failed.items():
                self.notes.append(f"{arm}: {file or 'pytest'} failed: {last_line(why)}")
        head = self.pair.collected["head"]
        cases = []
        for name in dict.fromkeys([*head.ids, *self.own.ids]):
            case = Case(name)
            if name not in head.ids and (why := hidden(name, head)):
                case.head = Side(Status.RAISED, why)
            cases.append(case)
        return cases

    def _verify(self, case: Case) -> None:
        if case.name in self.pair.collected["head"].ids:
            case.head = self._ask("head", case)
        case.base = self._ask("base", case)
        if case.base.status in (Status.RAISED, Status.ABSENT):
            self._fall_back(case)
        if case.head.status is Status.OK and case.base.status is Status.OK:
            self._compare(case)
            self._count(case)

    def _fall_back(self, case: Case) -> None:
        """Head's perf file fails on base: base's own may know the case."""
        if case.name in self.own.ids and "own" in self.pair.workers:
            case.arm, case.base = "own", self._ask("own", case)
        elif case.name not in self.own.ids and not hidden(case.name, self.own):
            case.base = Side(Status.ABSENT, "base has no such case")

    def _ask(self, arm: str, case: Case) -> Side:
        collected = self.pair.collected[arm]
        if case.name not in collected.ids:
            why = hidden(case.name, collected)
            return Side(Status.RAISED, why) if why else Side(Status.ABSENT)
        folder = self.outputs / arm
        folder.mkdir(exist_ok=True)
        try:
            request = messages.Verify(case.name, 0, str(folder))
            found = self.pair.ask(arm, request, messages.Verified)
        except WorkerError as error:
            return Side(Status.NOT_MEASURED, str(error))
        case.verified[arm] = found
        return Side(Status(found.status), found.reason)

    def _compare(self, case: Case) -> None:
        """The two sides' answers, bit by bit; if they differ, base's against its own as well."""
        found = self._outputs(case, case.arm, "head")
        if isinstance(found, str) or found.identical:
            case.outputs = found if isinstance(found, str) else found.summary
            return
        case.outputs = found.summary
        again = pairs.AGAIN[case.arm]
        if again not in self.pair.workers or self._ask(again, case).status is not Status.OK:
            return
        spread = self._outputs(case, case.arm, again)
        if not isinstance(spread, str):
            beyond = ulps.beyond_own_spread(found, [spread])
            case.outputs += f"; {'beyond' if beyond else 'within'} base's own spread"

    def _outputs(self, case: Case, left: str, right: str) -> ulps.Comparison | str:
        files = [case.verified[arm].outputs for arm in (left, right)]
        if not all(files):
            return ""
        try:
            if filecmp.cmp(files[0], files[1], shallow=False):
                return ulps.Comparison(identical=True)  # and torch need not be imported here
            import torch

            loaded = [torch.load(file, weights_only=False) for file in files]
            return ulps.compare(*loaded)
        except Exception as error:  # a type of the project's own, which this process can't import
            return f"not compared with base's: {type(error).__name__}: {error}"

    def _count(self, case: Case) -> None:
        passes = {}
        for arm in (case.arm, "head"):
            try:
                found = self.pair.ask(arm, messages.Count(case.name), messages.Counted)
            except WorkerError as error:
                side = Side(Status.NOT_MEASURED, str(error))
                case.base, case.head = (case.base, side) if arm == "head" else (side, case.head)
                return
            passes[arm] = found.passes
        versions = self.pair.ready[case.arm].versions, self.pair.ready["head"].versions
        case.counters = exact_counters(passes[case.arm], passes["head"], *versions)

    def _check_provenance(self, cases: Iterable[Case]) -> None:
        stray = {}
        for arm in self.pair.workers:
            try:
                stray[arm] = self.pair.ask_modules(arm)
            except WorkerError as error:
                stray[arm] = str(error)
        for case in cases:
            if case.base.status is Status.OK and (why := stray[case.arm]):
                case.base = Side(Status.NOT_MEASURED, why)
            if case.head.status is Status.OK and (why := stray["head"]):
                case.head = Side(Status.NOT_MEASURED, why)

    def _check_inputs(self, case: Case) -> None:
        """Cases that ran on other inputs are not compared."""
        if case.head.status is not Status.OK or case.base.status is not Status.OK:
            return
        base, head = case.verified[case.arm], case.verified["head"]
        if base.fingerprint != head.fingerprint:
            case.facts = Facts(case.name, case.base, case.head, differ=FINGERPRINTS)


def comparable(case: Case) -> bool:
    both = case.head.status is Status.OK and case.base.status is Status.OK
    return both and case.facts is None


def hidden(name: str, collected: messages.Collected) -> str:
    """Why the file of a case could not be imported, or empty."""
    file = name.split("::")[0]
    for failed, why in collected.failed.items():
        if file == failed or file.startswith(failed.rstrip("/") + "/") or not failed:
            return last_line(why)
    return ""


def last_line(text: str) -> str:
    with contextlib.suppress(IndexError):
        return text.strip().splitlines()[-1].removeprefix("E ").strip()
    return "it says nothing of why"
