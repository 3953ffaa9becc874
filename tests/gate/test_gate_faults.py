"""One gate over a commit with a fault of every kind: each case gets the verdict of its own."""

import pytest

EDITABLE = """
import importlib.machinery, importlib.util, sys

class Finder:  # as scikit-build-core and meson-python install: first in line, for every process
    def find_spec(self, name, path=None, target=None):
        if name == "toy":
            return importlib.util.spec_from_file_location(
                name, {init!r}, submodule_search_locations=[{folder!r}])

sys.meta_path.insert(0, Finder())
"""

SLOPPY = "1 + (2e-6 if x.abs().max() > 100 else 1e-6)"
ONE_WRONG = "y = x * x\n    if x.shape[0] == 3:\n        y[2, 499] += 1\n    return y"


def plant(foreign):
    foreign.toy(
        ("return x * x", ONE_WRONG),
        ("return (x + 1) * (1 + 1e-6)", f"return (x + 1) * ({SLOPPY})"),
        ("return x / 2", "return x.clone() / 2"),
        ("def repaired(x):\n    return x * 1.1", "def repaired(x):\n    return x * 1"),
        ("return x * 3", "raise RuntimeError('no | more <b>`thrice`</b>')"),
        ("return x + 1\n", "import os\n\n    os.kill(os.getpid(), 9)\n"),
        ("return x + 2", "raise SystemExit(3)"),
        ("FIRST = True", "FIRST = False"),
    )
    foreign.edit("src/toy/_core.c", ("numbers[i] *= 2.0f", "numbers[i] += numbers[i]"))
    foreign.drop("test_gone")
    foreign.toy(("def negate(x):", "def fresh(x):\n    return -x\n\n\ndef negate(x):"))
    foreign.perf(
        ("def test_added(perf):\n    perf(toy.negate", "def test_new(perf):\n    perf(toy.fresh")
    )


@pytest.fixture(scope="module")
def gate(make_foreign):
    foreign = make_foreign()
    file = foreign.root / "perf/test_toy.py"
    for name, more in (("gone", ""), ("added", ""), ("hasty", ", flops=10**13")):
        body = f"perf(toy.negate, draw(), reference=lambda x: -x{more})"
        file.write_text(f"{file.read_text()}\n\ndef test_{name}(perf):\n    {body}\n")
    foreign.start()
    plant(foreign)
    foreign.commit("a fault of every kind")
    site = foreign.around / "site"
    site.mkdir()
    places = {"init": str(foreign.root / "src/toy/__init__.py")}
    places["folder"] = str(foreign.root / "src/toy")
    (site / "sitecustomize.py").write_text(EDITABLE.format(**places))
    foreign.extra["PYTHONPATH"] = f"{foreign.environment()['PYTHONPATH']}:{site}"
    outcome = foreign.gate("-v")
    outcome.left = foreign.left_behind()
    print(outcome.said)
    return outcome


@pytest.mark.parametrize(
    ("case", "verdict", "reason"),
    [
        ("test_double", "undecided", "1 pair measured"),
        ("test_square[1]", "undecided", ""),
        ("test_square[3]", "wrong", "first at (2, 499)"),
        ("test_shift", "less accurate", "error to float64 is 2.1"),
        ("test_halve", "costlier", "operators 1 -> 2"),
        ("test_broken", "wrong on both", ""),
        ("test_repaired", "fixed", "wrong on base"),
        ("test_thrice", "not measured", "no | more"),
        ("test_lean", "not measured", "killed by SIGKILL"),
        ("test_steps", "same", "it is not timed"),
        ("test_quits", "not measured", "SystemExit: 3"),
        ("test_leaves", "not measured", "no more of this"),
        ("test_gone", "gone", "head has no such case"),
        ("test_added", "gone", ""),
        ("test_hasty", "not comparable", "this machine needs"),
        ("test_new", "new", "base has no such case"),  # nor what it measures
        ("test_skipped", "not comparable", "not here"),
        ("test_negate[ours]", "undecided", ""),
    ],
)
def test_each_case_has_its_verdict(gate, case, verdict, reason):
    assert gate.verdict(case) == verdict
    assert reason in gate.reason(case)


def test_answers_come_first_among_the_exit_codes(gate):
    assert gate.code == 11


def test_a_peer_is_not_gated(gate):
    assert not [c for c in gate.data["cases"] if "theirs" in c["case"]]


def test_nothing_is_left_behind(gate):
    assert gate.left == []
