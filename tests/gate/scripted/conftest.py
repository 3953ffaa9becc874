"""The gate on made-up workers: from what they say to verdicts, exit codes and reports."""

import contextlib
import random
from types import SimpleNamespace

import pytest

from pytest_rightfast import gate, gate_sides, messages, pairs
from pytest_rightfast.config import parse
from pytest_rightfast.workers import WorkerError

CASE = "perf/test_a.py::test_a"
VERSIONS = {"python": "3", "torch": "2"}


class Script:
    """Answers of all arms; keywords change the dicts and sets below.

    `seconds`: arm -> one call; 0.2% of noise is added. `burdens`: arm -> how many times slower the
    third call of a block is. `verified`: arm -> status, reason.
    `errors`: arm -> by family. `counts`: arm -> one pass. `dies`: arms that die when sampled.
    `inputs`: fingerprints. `stray`: foreign code. `failed`: files that can't be imported. `timed`:
    all cases are. `pair_seconds`: what the clock moves by in each pair.
    """

    def __init__(self, cases=(CASE,), **changes):
        self.cases, self.own = list(cases), None
        self.seconds = {"base": 1e-3, "again": 1e-3, "head": 1e-3}
        self.timed = True
        self.verified, self.errors, self.counts = {}, {}, {}
        self.dies, self.wrong_rounds, self.too_fast, self.started = set(), {}, {}, []
        self.random, self.pair_seconds, self.now = random.Random(0), 1.0, 0.0
        self.inputs, self.stray, self.failed, self.burdens = {}, {}, {}, {}
        for name, value in changes.items():
            getattr(self, name).update(value)

    @contextlib.contextmanager
    def fresh(self, arms, patience):
        self.started.append([arm.name for arm in arms])
        self.now += self.pair_seconds
        yield SimpleNamespace(
            workers=dict.fromkeys(self.started[-1]),
            pin=lambda number: None,
            ready={n: messages.Ready(1, 1, VERSIONS) for n in self.started[-1]},
            collected={n: self.collected(n) for n in self.started[-1]},
            ask=self.ask,
            ask_modules=lambda arm: self.stray.get(arm, ""),
            add=lambda *arms: self.started[-1].extend(arm.name for arm in arms),
        )

    def collected(self, arm):
        ids = self.own if arm == "own" and self.own is not None else self.cases
        failed = self.failed.get(arm, {})
        return messages.Collected([i for i in ids if i.split("::")[0] not in failed], failed)

    def ask(self, arm, request, expected):
        if isinstance(request, messages.Verify):
            status, reason = self.verified.get(arm, ("ok", ""))
            errors = self.errors.get(arm, {"draw 0": 1e-7})
            return messages.Verified(
                status, reason, self.inputs.get(arm, "inputs"), errors, "", self.timed
            )
        if isinstance(request, messages.Count):
            return messages.Counted([self.counts.get(arm, {"allocations": 1})] * 2)
        if arm in self.dies:
            raise WorkerError(f"{arm}: sample: killed by SIGKILL")
        noise = 1 + self.random.gauss(0, 0.002)
        wrong, hasty = self.wrong_rounds.get(arm, ""), self.too_fast.get(arm, "")
        call = self.seconds[arm] * noise
        return messages.Sampled([call, call, call * self.burdens.get(arm, 1)], wrong, hasty)


@pytest.fixture
def judged(repo, monkeypatch):
    """Run the gate on a script; `table` is `[tool.rightfast]`, `accepted` the file of waivers."""
    repo.put("perf/test_a.py", "")
    repo.commit()
    monkeypatch.setenv("RIGHTFAST_LOCK", str(repo.root.parent / "lock"))

    def run(script, table=None, accepted=""):
        if accepted:
            repo.put("perf/accepted.toml", accepted)
        own = ["own", "own again"] if script.own is not None else []
        names = ["base", "again", "head", *own]
        arms = {name: SimpleNamespace(name=name) for name in names}
        monkeypatch.setattr(gate_sides, "prepare", lambda *_: arms)
        monkeypatch.setattr(pairs, "fresh", script.fresh)
        monkeypatch.setattr("pytest_rightfast.rounds.time.monotonic", lambda: script.now)
        question = gate_sides.Question(repo.root, "HEAD", ("perf",), (), parse(table or {}, "toml"))
        return gate.run(question, lambda text: None)

    return run


@pytest.fixture
def script():
    return Script


@pytest.fixture
def verdict():
    """The one case's verdict, and the exit code."""

    def of(report):
        (judgement,) = report.judgements
        return str(judgement.verdict), int(report.result.code)

    return of
