"""However a gate ends: no process, no temporary file, no half-written result is left."""

import os
import signal
import subprocess
import sys
import time

import pytest

LIBRARY = """import ctypes, os, sysconfig
name = "_core" + sysconfig.get_config_var("EXT_SUFFIX")
ctypes.CDLL(os.path.join(os.environ["TOY_LIBRARIES"], name))
"""


def until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)
    return condition()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt(foreign, number):
    foreign.keep("test_halve")
    foreign.start()
    foreign.toy(("return x / 2", "import time\n\n    time.sleep(600)\n    return x / 2"))
    before = foreign.state()
    (foreign.around / "out.json").write_text("of an earlier run")
    log = foreign.around / "said"
    with log.open("w") as sink:
        gate = subprocess.Popen(
            foreign.command(),
            cwd=foreign.root,
            env=foreign.environment(),
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # A shell ignores SIGINT for what it runs in the background, and so would this gate.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        assert until(lambda: "gate: verifying" in log.read_text()), log.read_text()
        gate.send_signal(number)
        assert gate.wait(60) == 2, log.read_text()
    outcome = foreign.outcome(2, log.read_text())
    assert outcome.data is None
    assert outcome.markdown is None
    assert foreign.left_behind() == []
    assert foreign.state() == before


@pytest.mark.slow
def test_a_gate_that_is_killed_leaves_no_process(foreign):
    foreign.keep("test_halve")
    foreign.start()
    log = foreign.around / "said"
    with log.open("w") as sink:
        gate = subprocess.Popen(
            foreign.command(), cwd=foreign.root, env=foreign.environment(), stdout=sink
        )
        assert until(lambda: "gate: verifying" in log.read_text()), log.read_text()
        gate.kill()
        gate.wait()
    assert until(lambda: not [p for p in foreign.left_behind() if not p.startswith("/")])


def test_code_from_outside_the_checkout_is_noticed(foreign):
    """A library loaded by its path in the working tree passes by every import system."""
    foreign.keep("test_halve")
    foreign.toy(("from toy import _core\n", LIBRARY), ("_core.double_in_place", "print"))
    foreign.start()
    subprocess.run([sys.executable, "build.py"], cwd=foreign.root, check=True)
    foreign.extra["TOY_LIBRARIES"] = str(foreign.root / "src/toy")
    outcome = foreign.gate()
    assert outcome.code == 13, outcome.said
    assert outcome.verdict("test_halve") == "not measured"
    assert "it ran code from outside its own checkout" in outcome.reason("test_halve")
    assert str(foreign.root) in outcome.reason("test_halve")


@pytest.mark.slow
def test_a_slowdown_of_1_3x_is_caught_by_real_pairs(foreign):
    """A loop of one million steps against one of 1.3 million, in fresh processes."""
    foreign.keep("test_halve")
    loop = "for _ in range({}):\n        pass\n    return x / 2"
    foreign.toy(("return x / 2", loop.format(100_000)))
    foreign.start()
    foreign.toy((loop.format(100_000), loop.format(130_000)))
    outcome = foreign.gate("--perf-budget=900", f"--perf-trace={foreign.around / 'traces'}")
    case = outcome.case("test_halve")
    assert (case["verdict"], outcome.code) == ("slower", 10), outcome.said
    assert case["noise_floor"] is not None
    assert case["low"] > 1.03
    assert len(case["log_ratios"]) == len(case["aa_log_ratios"]) >= 6
    assert "1 slower" in outcome.said
    assert os.listdir(foreign.around / "traces")
