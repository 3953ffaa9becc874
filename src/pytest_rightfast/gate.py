"""The gate: base against head, verified, counted and timed in pairs of fresh processes.

Head's perf files serve both sides, so that both measure the same inputs in the same way. Where one
fails on base (a renamed function, a new import), base's own file is used for the same id, provided
that the inputs have the same fingerprint.
"""

from __future__ import annotations

import datetime
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import accepted, builds, checkouts, git, locks, messages, pairs, sides, ulps
from .config import Config
from .exits import Result, conclude
from .statistics import Noise, Outcome, Plan, decide, noise_floor
from .verdicts import Facts, Judgement, Side, Status, Verdict, exact_counters, judge
from .workers import WorkerError

# What rounding an exact answer to the output type costs already; below it no ratio means anything.
ERROR_FLOOR = 3e-8
# A case is compared no further once it is this sure.
SETTLED = (Outcome.SLOWER, Outcome.FASTER, Outcome.SAME)
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Question:
    """What is asked of the gate.

    Args:
        root: the project's folder (pytest's rootdir).
        revision: base; compared is the merge base with HEAD, unless `tip`.
        arguments: pytest's arguments that select the perf cases, relative to `root`.
        perf: the perf folders among them, which head serves to both sides.
        config: `[tool.rightfast]`, with what the command line overrides.
    """

    root: Path
    revision: str
    arguments: tuple[str, ...]
    perf: tuple[str, ...]
    config: Config
    tip: bool = False


@dataclass
class Case:
    """Everything found out about one case."""

    name: str
    base: Side = field(default_factory=lambda: Side(Status.ABSENT))
    head: Side = field(default_factory=lambda: Side(Status.ABSENT))
    arm: str = "base"
    verified: dict[str, messages.Verified] = field(default_factory=dict)
    counters: dict[str, tuple[float, float]] = field(default_factory=dict)
    outputs: str = ""
    samples: pairs.Samples = field(default_factory=pairs.Samples)
    noise: Noise | None = None
    facts: Facts | None = None
    settled: bool = False


@dataclass
class Report:
    """The gate's result, before it is written anywhere."""

    base: git.Source
    head: git.Source
    plan: Plan
    cases: list[Case]
    judgements: list[Judgement]
    result: Result
    pairs: int
    seconds: float
    notes: list[str]
    fail_on: frozenset[Verdict]


def run(question: Question, say: Progress) -> Report:
    """Compare head with base. Raises PerfError where the gate itself cannot run."""
    started = time.monotonic()
    root = git.toplevel(question.root)
    waivers = accepted.load(question.root / "perf" / "accepted.toml")
    base = git.resolve(root, question.revision, merge_base=not question.tip)
    with ExitStack() as stack:
        stack.enter_context(locks.measuring())
        head = stack.enter_context(git.working_tree(root))
        say(f"base {base.commit[:12]}, head {head.commit[:12]}{' and changes' * head.dirty}")
        arms = _arms(question, root, base, head, say)
        outputs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rightfast-")))
        trial = Trial(question, arms, outputs, say)
        cases = trial.run(started)
    judgements = [_judge(case, trial, waivers) for case in cases]
    result = conclude(
        judgements, fail_on=question.config.fail_on, advisory=question.config.advisory
    )
    notes = [f"expired in {waivers.path}: {e}" for e in waivers.expired(_today())]
    notes += [f"unused in {waivers.path}: {e}" for e in waivers.unused(c.name for c in cases)]
    seconds = time.monotonic() - started
    return Report(
        base,
        head,
        trial.plan,
        cases,
        judgements,
        result,
        trial.pairs_done,
        seconds,
        notes,
        question.config.fail_on,
    )


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


def _judge(case: Case, trial: Trial, waivers: accepted.Accepted) -> Judgement:
    limit = trial.question.config.case(case.name).accuracy_limit
    facts = case.facts or Facts(case.name, case.base, case.head)
    if limit is not None:
        facts = replace(facts, accuracy_limit=limit)
    return waivers.apply(judge(facts), _today())


def _arms(
    question: Question, root: Path, base: git.Source, head: git.Source, say: Progress
) -> dict[str, pairs.Arm]:
    """Check out and build all sides; the A/A arm has a checkout of its own, as head has."""
    build = question.config.build
    made: dict[str, checkouts.Checkout] = {}
    for name, source, label in (("base", base, ""), ("again", base, "again"), ("head", head, "")):
        say(f"preparing {name}")
        made[name] = checkouts.prepare(source, _with_versions(build), arm=label)
    below = question.root.resolve().relative_to(root.resolve())
    tops = {name: checkout.root / below for name, checkout in made.items()}
    roots = {name: sides.find_roots(top, question.config.roots) for name, top in tops.items()}
    names = sorted(sides.top_level_names(r for one in roots.values() for r in one))
    found = {}
    for name, top in tops.items():
        others = [str(made[other].root) for other in made if other != name]
        shared = [str(tops["head"] / folder) for folder in question.perf]
        layout = sides.Layout(
            str(made[name].root), roots[name], names, [*others, str(root)], shared
        )
        found[name] = _arm(name, top, tops["head"], layout, question)
    if not any((tops["base"] / folder).exists() for folder in question.perf):
        return found  # base has no perf files of its own
    own = sides.Layout(
        str(made["base"].root),
        roots["base"],
        names,
        [str(made["head"].root), str(made["again"].root), str(root)],
        [],
    )
    found["own"] = _arm("own", tops["base"], tops["base"], own, question)
    return found


def _with_versions(build: builds.Build | None) -> builds.Build | None:
    from .machine import version

    if build is None:
        return None
    return replace(build, versions={"torch": version("torch") or "none"})


def _arm(
    name: str, folder: Path, perf_root: Path, layout: sides.Layout, question: Question
) -> pairs.Arm:
    cache = checkouts.cache_folder() / "compiled" / Path(layout.own).parent.name
    environment = sides.environment(os.environ, cache, layout, checkouts.cache_folder() / "sides")
    arguments = ["--rootdir", str(perf_root), *_config_file(perf_root), "-p", "no:cacheprovider"]
    arguments += [str(perf_root / a) if _is_path(perf_root, a) else a for a in question.arguments]
    hello = messages.Hello(messages.VERSION, layout.as_json(), arguments)
    return pairs.Arm(name, folder, environment, hello)


def _config_file(root: Path) -> list[str]:
    for name in ("pytest.toml", "pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"):
        if (root / name).is_file():
            return ["-c", str(root / name)]
    return []


def _is_path(root: Path, argument: str) -> bool:
    return not argument.startswith("-") and (root / argument.split("::")[0]).exists()


class Trial:
    """The processes' part: verify and count in the first pair, then time pair after pair."""

    def __init__(
        self, question: Question, arms: Mapping[str, pairs.Arm], outputs: Path, say: Progress
    ) -> None:
        self.question, self.arms, self.outputs, self.say = question, arms, outputs, say
        # A guess until the first pair has said which cases can be compared.
        self.plan = Plan(cases=1, min_effect=question.config.min_effect)
        self.cases: dict[str, Case] = {}
        self.pairs_done = 0
        self.stray: dict[str, str] = {}

    def run(self, started: float) -> list[Case]:
        with self._pair(own=True) as first:
            self._collect(first)
            for case in self.cases.values():
                self._verify(case, first)
            self._check_provenance(first)
            timed = [case for case in self.cases.values() if self._comparable(case)]
            self.plan = replace(self.plan, cases=max(1, len(timed)))
            self._time(first, 0, timed)
        self._more_pairs(timed, started)
        for case in timed:
            case.facts = self._facts(case)
        return list(self.cases.values())

    @contextmanager
    def _pair(self, own: bool) -> Iterator[pairs.Pair]:
        wanted = ["base", "again", "head"] + (["own"] if own and "own" in self.arms else [])
        with pairs.fresh(self.arms[name] for name in wanted) as pair:
            pair.collected.setdefault("own", messages.Collected([]))
            yield pair

    def _collect(self, pair: pairs.Pair) -> None:
        """Who has which case; an import error hides a file's cases, it does not remove them."""
        for arm, collected in pair.collected.items():
            for file, why in collected.failed.items():
                self.say(f"{arm}: {file} failed: {why.strip().splitlines()[-1]}")
        head, own = pair.collected["head"], pair.collected["own"]
        for name in dict.fromkeys([*head.ids, *own.ids]):
            self.cases[name] = Case(name)
            if name not in head.ids and (why := _hidden(name, head)):
                self.cases[name].head = Side(Status.RAISED, why)

    def _verify(self, case: Case, pair: pairs.Pair) -> None:
        self.say(f"verifying {case.name}")
        if case.head.status is Status.ABSENT and case.name in pair.collected["head"].ids:
            case.head = self._verify_on("head", case, pair)
        case.base = self._verify_on("base", case, pair)
        own = pair.collected["own"]
        if case.base.status in (Status.RAISED, Status.ABSENT):
            shared_failure = case.base
            if case.name in own.ids:
                case.arm, case.base = "own", self._verify_on("own", case, pair)
            elif not _hidden(case.name, own):
                case.base = Side(Status.ABSENT, "base has no such case")
            else:
                case.base = shared_failure
        if case.head.status is Status.OK and case.base.status is Status.OK:
            self._compare(case, pair)

    def _verify_on(self, arm: str, case: Case, pair: pairs.Pair) -> Side:
        hidden = _hidden(case.name, pair.collected[arm])
        if case.name not in pair.collected[arm].ids:
            return Side(Status.RAISED, hidden) if hidden else Side(Status.ABSENT)
        folder = self.outputs / arm
        folder.mkdir(exist_ok=True)
        try:
            request = messages.Verify(case.name, 0, str(folder))
            found = pair.workers[arm].request(request, messages.Verified, pairs.ANSWER_SECONDS)
        except WorkerError as error:
            return Side(Status.NOT_MEASURED, str(error))
        case.verified[arm] = found
        return Side(Status(found.status), found.reason)

    def _compare(self, case: Case, pair: pairs.Pair) -> None:
        """Answers and counters of the two sides."""
        import torch

        base, head = case.verified[case.arm], case.verified["head"]
        if base.outputs and head.outputs:
            load = [torch.load(f.outputs, weights_only=False) for f in (base, head)]
            case.outputs = ulps.compare(*load).summary
        passes = {}
        for arm in (case.arm, "head"):
            try:
                counted = pair.workers[arm].request(
                    messages.Count(case.name), messages.Counted, pairs.ANSWER_SECONDS
                )
            except WorkerError:
                return
            passes[arm] = counted.passes
        versions = pair.ready[case.arm].versions, pair.ready["head"].versions
        case.counters = exact_counters(passes[case.arm], passes["head"], *versions)

    def _check_provenance(self, pair: pairs.Pair) -> None:
        for arm, worker in pair.workers.items():
            try:
                self.stray[arm] = pair.ask_modules(arm)
            except WorkerError as error:
                self.stray[arm] = f"{worker.name}: {error}"
        for case in self.cases.values():
            if case.base.status is Status.OK and (why := self.stray[case.arm]):
                case.base = Side(Status.NOT_MEASURED, why)
            if case.head.status is Status.OK and (why := self.stray["head"]):
                case.head = Side(Status.NOT_MEASURED, why)

    def _comparable(self, case: Case) -> bool:
        if case.head.status is not Status.OK or case.base.status is not Status.OK:
            return False
        base, head = case.verified[case.arm], case.verified["head"]
        if base.fingerprint != head.fingerprint:
            why = "the two sides draw other inputs, so their times say nothing of the code"
            case.facts = Facts(case.name, case.base, case.head, differ=why)
            return False
        return True

    def _time(self, pair: pairs.Pair, number: int, timed: list[Case]) -> None:
        waiting = [case for case in timed if not case.settled and not case.samples.lost]
        self.say(f"pair {number + 1}: {len(waiting)} cases")
        for case in waiting:
            pairs.sample_case(pair, number, case.name, case.samples, case.arm)
        self.pairs_done = number + 1

    def _more_pairs(self, timed: list[Case], started: float) -> None:
        """Pairs until every case is settled, the plan is done or the budget is spent."""
        spent = [time.monotonic() - started]
        for number in range(1, self.plan.looks[-1]):
            left = self.question.config.budget - (time.monotonic() - started)
            pace = max(spent[1:], default=0.0)
            waiting = [c for c in timed if not c.settled and not c.samples.lost]
            if not waiting or left < pace:
                return
            begun = time.monotonic()
            with self._pair(own=any(c.arm == "own" for c in waiting)) as pair:
                self._time(pair, number, timed)
            spent.append(time.monotonic() - begun)
            if number + 1 in self.plan.looks:
                for case in waiting:
                    case.settled = self._decide(case, number + 1).outcome in SETTLED

    def _decide(self, case: Case, pairs_seen: int) -> Any:
        """The decision at the look that these pairs belong to; between two looks, the last one."""
        looks = self.plan.looks
        look = next((i for i, n in enumerate(looks) if pairs_seen <= n), len(looks) - 1)
        final = pairs_seen != looks[look]
        if len(case.samples.aa) >= 4:
            case.noise = noise_floor(case.samples.aa)
        effect = self.question.config.case(case.name).min_effect
        return decide(
            case.samples.ratios, self.plan, look, min_effect=effect, noise=case.noise, final=final
        )

    def _facts(self, case: Case) -> Facts:
        samples = case.samples
        base, head = case.base, case.head
        for arm, why in samples.wrong.items():
            side = Side(Status.WRONG, f"in a timed round: {why}")
            base, head = (base, side) if arm == "head" else (side, head)
        if samples.lost and not samples.wrong:
            head = Side(Status.NOT_MEASURED, samples.lost)
        before, after = case.verified[case.arm].errors, case.verified["head"].errors
        return Facts(
            case.name,
            base,
            head,
            self._decide(case, len(samples.ratios)),
            ulps.worst_ratio(before, after, ERROR_FLOOR),
            counters=case.counters,
        )


def _hidden(name: str, collected: messages.Collected) -> str:
    """Why the file of a case could not be imported, or empty."""
    file = name.split("::")[0]
    for failed, why in collected.failed.items():
        if file == failed or file.startswith(failed.rstrip("/") + "/") or not failed:
            return why.strip().splitlines()[-1] if why.strip() else "import failed"
    return ""
