"""From what the workers say to verdicts, exit codes and reports; the workers here are made up."""

import contextlib
import json
import random
from types import SimpleNamespace

import pytest

from pytest_rightfast import gate, gate_markdown, gate_report, gate_sides, messages, pairs
from pytest_rightfast.config import parse
from pytest_rightfast.workers import WorkerError

CASE = "perf/test_a.py::test_a"
VERSIONS = {"python": "3", "torch": "2"}


class Script:
    """Answers of all arms. `seconds`: arm -> median of a block; noise of 0.2% is added.

    `verified`: arm -> (status, reason); `errors`: arm -> by family; `counts`: arm -> one pass.
    `dies`: arms that die when sampled. `pair_seconds`: what the clock moves by in each pair.
    """

    def __init__(self, cases=(CASE,)):
        self.cases, self.own = list(cases), None
        self.seconds = {"base": 1e-3, "again": 1e-3, "head": 1e-3}
        self.timed = True
        self.verified, self.errors, self.counts = {}, {}, {}
        self.dies, self.wrong_rounds, self.started = set(), {}, []
        self.random, self.pair_seconds, self.now = random.Random(0), 1.0, 0.0

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
            ask_modules=lambda arm: "",
            add=lambda *arms: self.started[-1].extend(arm.name for arm in arms),
        )

    def collected(self, arm):
        ids = self.own if arm == "own" and self.own is not None else self.cases
        return messages.Collected(list(ids))

    def ask(self, arm, request, expected):
        if isinstance(request, messages.Verify):
            status, reason = self.verified.get(arm, ("ok", ""))
            errors = self.errors.get(arm, {"draw 0": 1e-7})
            return messages.Verified(status, reason, "inputs", errors, "", self.timed)
        if isinstance(request, messages.Count):
            return messages.Counted([self.counts.get(arm, {"allocations": 1})] * 2)
        if arm in self.dies:
            raise WorkerError(f"{arm}: sample: killed by SIGKILL")
        noise = 1 + self.random.gauss(0, 0.002)
        return messages.Sampled([self.seconds[arm] * noise] * 3, self.wrong_rounds.get(arm, ""))


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


def verdict(report):
    (judgement,) = report.judgements
    return str(judgement.verdict), int(report.result.code)


def scripted(**changes):
    script = Script()
    for name, value in changes.items():
        getattr(script, name).update(value)
    return script


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("same", 0)),
        ({"seconds": {"head": 1.3e-3}}, ("slower", 10)),
        ({"seconds": {"head": 0.7e-3}}, ("faster", 0)),
        ({"verified": {"head": ("wrong", "by one")}}, ("wrong", 11)),
        ({"verified": {"base": ("wrong", "x"), "head": ("wrong", "x")}}, ("wrong on both", 11)),
        ({"errors": {"head": {"draw 0": 1e-7, "large": 2e-7}}}, ("same", 0)),
        ({"errors": {"head": {"draw 0": 2e-7}}}, ("less accurate", 11)),
        ({"counts": {"head": {"allocations": 2}}}, ("costlier", 12)),
        ({"wrong_rounds": {"head": "off by one"}}, ("wrong", 11)),
        ({"dies": ["head"]}, ("not measured", 13)),
        ({"dies": ["base"]}, ("not measured", 13)),
        ({"verified": {"head": ("raised", "boom")}}, ("not measured", 13)),
        ({"verified": {"head": ("skipped", "no")}}, ("not measured", 13)),
        # Nothing was compared: that fails, whatever the reason.
        ({"verified": {"base": ("wrong", "x")}}, ("fixed", 13)),
        ({"verified": {"base": ("raised", "x")}}, ("not comparable", 13)),
        (
            {"verified": {"base": ("skipped", "x"), "head": ("skipped", "x")}},
            ("not comparable", 13),
        ),
    ],
)
def test_verdict_and_exit_code(judged, changes, expected):
    assert verdict(judged(scripted(**changes))) == expected


def test_a_death_in_a_timed_round_is_blamed_on_its_arm(judged):
    report = judged(scripted(dies=["base"]))
    assert report.judgements[0].reason == "base not measured: base: sample: killed by SIGKILL"


def test_no_case_at_all_fails(judged):
    report = judged(Script(cases=[]))
    assert report.result.code == 13
    assert report.result.reasons == ("no case was compared (0 seen)",)


def test_gone_beside_a_case_that_is_compared(judged):
    script = Script()
    script.own = [CASE, "perf/test_a.py::test_old"]
    report = judged(script)
    assert [str(j.verdict) for j in report.judgements] == ["same", "gone"]
    assert report.result.code == 13


def test_noise_floor_and_smallest_visible_effect_are_reported(judged):
    report = judged(scripted(seconds={"head": 1.3e-3}))
    text = "\n".join(gate_report.lines(report))
    assert "visible" in text
    assert "floor" in text
    (case,) = gate_report.as_json(report)["cases"]
    assert 0 < case["noise_floor"] < 0.02
    assert 0.03 < case["smallest_visible"] < 0.1
    assert len(case["aa_log_ratios"]) == len(case["log_ratios"]) == report.pairs == 6
    assert case["low"] < case["ratio"] < case["high"]


def test_an_effect_below_the_threshold_passes_and_a_case_may_have_its_own(judged):
    slow = {"seconds": {"head": 1.08e-3}}
    assert verdict(judged(scripted(**slow))) == ("slower", 10)
    table = {"cases": {"*test_a": {"min-effect": "12%"}}}
    assert verdict(judged(scripted(**slow), table)) == ("same", 0)
    assert verdict(judged(scripted(**slow), {"min-effect": "12%"})) == ("same", 0)


def test_a_case_may_have_its_own_accuracy_limit(judged):
    less = {"errors": {"head": {"draw 0": 2e-7}}}
    table = {"cases": {"*": {"accuracy-limit": 3}}}
    assert verdict(judged(scripted(**less), table)) == ("same", 0)


def test_advisory_mode_says_what_it_would_do(judged):
    report = judged(scripted(seconds={"head": 1.3e-3}), {"advisory": True})
    assert (report.result.code, report.result.would) == (0, 10)
    assert "advisory: would fail (slower, exit 10)" in gate_report.conclusion(report)


def test_fail_on(judged):
    slow = {"seconds": {"head": 1.3e-3}}
    assert verdict(judged(scripted(**slow), {"fail-on": ["wrong"]})) == ("slower", 0)
    assert verdict(judged(scripted(), {"fail-on": ["same"]})) == ("same", 14)


ACCEPT = """
[[accept]]
case = "perf/test_a.py::test_a"
verdict = "costlier"
limit = "+1"
reason = "bounds checks"
expires = {}
"""
QUARANTINE = """
[[quarantine]]
case = "*"
reason = "a shared disk"
expires = {}
"""


@pytest.mark.parametrize("table", [ACCEPT, QUARANTINE])
@pytest.mark.parametrize(("expires", "code"), [("2999-01-01", 0), ("2001-01-01", 12)])
def test_a_waiver_holds_until_it_expires_and_is_always_printed(judged, table, expires, code):
    costly = scripted(counts={"head": {"allocations": 2}})
    report = judged(costly, accepted=table.format(expires))
    assert verdict(report) == ("costlier", code)
    (note,) = report.notes
    assert ("expired" in note) == (code == 12)
    assert "(until " in note
    assert ("costlier accepted:" in "\n".join(gate_report.lines(report))) == (code == 0)


def test_a_waiver_covers_no_more_than_its_limit(judged):
    costly = scripted(counts={"head": {"allocations": 3}})
    assert verdict(judged(costly, accepted=ACCEPT.format("2999-01-01"))) == ("costlier", 12)


def test_a_waiver_that_matches_no_case_is_named(judged):
    text = ACCEPT.format("2999-01-01").replace("test_a.py", "test_b.py")
    assert judged(Script(), accepted=text).notes[0].endswith("matches no case")


def test_settled_cases_are_timed_no_further(judged):
    script = scripted(seconds={"head": 1.3e-3})
    assert judged(script).pairs == 6


@pytest.mark.parametrize("budget", [1, 7, 30])
def test_the_last_pair_ends_within_the_budget(judged, budget):
    script = scripted(seconds={"head": 1.04e-3})  # not to be settled
    script.pair_seconds = 2.0
    report = judged(script, {"budget": budget, "min-effect": "4%"})
    assert report.pairs == {1: 1, 7: 3, 30: 14}[budget]
    assert script.now <= max(budget, script.pair_seconds)


def test_a_case_that_only_verifies_is_compared_but_not_timed(judged):
    script = scripted(counts={"head": {"allocations": 2}})
    script.timed = False
    report = judged(script)
    assert (verdict(report), report.pairs) == (("costlier", 12), 0)
    script = Script()
    script.timed = False
    assert verdict(judged(script)) == ("same", 0)


def test_the_arm_with_bases_own_perf_file_starts_only_where_it_is_needed(judged):
    script = Script()
    script.own = [CASE]
    judged(script)
    assert script.started[0] == ["base", "again", "head", "own"]
    assert all(names == ["head", "base", "again"] for names in script.started[1:])


def test_a_case_that_runs_with_bases_own_file_has_an_a_a_arm_of_its_own(judged):
    script = scripted(verified={"base": ("raised", "no such name")})
    script.own = [CASE]
    script.seconds |= {"own": 1e-3, "own again": 1e-3, "base": 9e-3, "again": 9e-3}
    report = judged(script)
    assert verdict(report) == ("same", 0)
    assert script.started[0] == ["base", "again", "head", "own", "own again"]
    assert all(names == ["head", "own", "own again"] for names in script.started[1:])


HOSTILE = "a | b\n\n# head <img src=x> `code` [link](http://evil.example) @everyone **bold** $x$"


@pytest.fixture
def hostile(judged):
    name = f"perf/test_a.py::test_a[{HOSTILE}]"
    script = Script([CASE, name])
    script.verified["head"] = ("wrong", HOSTILE)
    return judged(script)


def test_markdown_escapes_what_strangers_wrote(hostile):
    text = gate_markdown.document(hostile)
    for active in (
        "<img",
        "`code`",
        "[link]",
        "http://",
        "@everyone",
        "**bold**",
        "$x$",
        "\n# head",
    ):
        assert active not in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 4
    assert {line.count("|") for line in table} == {len(gate_report.HEADERS) + 1}


def test_json_is_strict_and_holds_what_strangers_wrote_as_it_is(hostile):
    text = json.dumps(gate_report.as_json(hostile), allow_nan=False)
    assert json.loads(text)["cases"][0]["findings"][0]["reason"] == HOSTILE
