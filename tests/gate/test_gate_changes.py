"""A perf file that base can't run, a renamed API, a dirty tree: base's own file stands in."""

import pytest

NAMES = """import torch

import toy


def test_named(perf):
    perf(toy.{name}, torch.randn(2, {size}), reference=lambda x: x / 2)
"""


@pytest.fixture(scope="module")
def gate(make_foreign):
    foreign = make_foreign()
    foreign.keep("test_double")
    foreign.put("perf/test_names.py", NAMES.format(name="halve", size=100))
    foreign.put("perf/test_sizes.py", NAMES.format(name="halve", size=100))
    foreign.start()
    foreign.toy(("def halve(", "def half("))
    foreign.put("perf/test_names.py", NAMES.format(name="half", size=100))
    foreign.put("perf/test_sizes.py", NAMES.format(name="half", size=200))
    foreign.commit("rename the API; draw other inputs in one case")
    # Not committed: a module that base lacks, imported at the top of the perf file.
    foreign.put("src/toy/helpers.py", "def scale():\n    return 2\n")
    foreign.perf(("import toy\n", "import toy\nfrom toy.helpers import scale\n"))
    foreign.perf(("lambda x: x * 2", "lambda x: x * scale()"))
    before = foreign.state()
    outcome = foreign.gate()
    print(outcome.said)
    outcome.left = foreign.left_behind()
    outcome.changed = {k: v for k, v in foreign.state().items() if v != before[k]}
    return outcome


@pytest.mark.parametrize("case", ["test_toy.py::test_double", "test_names.py::test_named"])
def test_it_is_compared_with_bases_own_file(gate, case):
    (found,) = [c for c in gate.data["cases"] if c["case"].endswith(case)]
    assert found["verdict"] == "undecided"
    assert found["base_file"] == "base's own"
    assert found["base_seconds"]


def test_other_inputs_are_not_comparable(gate):
    (found,) = [c for c in gate.data["cases"] if "test_sizes" in c["case"]]
    assert found["verdict"] == "not comparable"
    assert "draw other inputs" in found["findings"][0]["reason"]
    assert found["base_seconds"] == []


def test_it_says_why_base_could_not_use_the_file(gate):
    assert gate.code == 13  # one pair, for want of time: nothing failed, and nothing is green
    assert "no time was judged: the budget of 1 s" in gate.said
    assert any("base: perf/test_toy.py failed" in note for note in gate.data["notes"])
    assert any("toy.helpers" in note for note in gate.data["notes"])


def test_the_dirty_tree_is_what_was_measured_and_is_left_alone(gate):
    assert gate.data["head"]["dirty"]
    assert gate.changed == {}
    assert gate.left == []


def test_junit_holds_every_verdict(gate):
    from xml.etree import ElementTree

    found = {}
    for case in ElementTree.fromstring(gate.junit).iter("testcase"):
        values = [p.get("value") for p in case.iter("property") if p.get("name") == "rightfast"]
        found[f"{case.get('classname')}.{case.get('name')}"] = values
    assert found == {
        "perf.test_toy.test_double": ["undecided"],
        "perf.test_names.test_named": ["undecided"],
        "perf.test_sizes.test_named": ["not comparable"],
    }
