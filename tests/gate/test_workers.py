import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from pytest_rightfast import workers
from pytest_rightfast.messages import (
    VERSION,
    AskModules,
    Collect,
    Collected,
    Hello,
    Modules,
    Sample,
    Sampled,
)
from pytest_rightfast.workers import Worker, WorkerError

SRC = str(Path(workers.__file__).parents[1])
FAKE = str(Path(__file__).parent / "fake_worker.py")
HELLO = Hello(VERSION, {})


@pytest.fixture
def start(tmp_path):
    """Start a fake worker in a mode; whatever the test does, no process is left after it."""
    begun = []

    def starting(mode="well"):
        environment = {**os.environ, "PYTHONPATH": SRC, "SIDE": "base"}
        command = [sys.executable, FAKE, mode]
        worker = Worker("base", tmp_path, environment, tmp_path / "log", command)
        begun.append(worker)
        return worker

    yield starting
    for worker in begun:
        worker.kill()


def group(pid):
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == pid and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (ProcessLookupError, psutil.Error):
            pass
    return found


def wait_empty(pid):
    deadline = time.monotonic() + 10
    while group(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return group(pid)


def test_a_whole_conversation(start, tmp_path):
    with start() as worker:
        assert worker.hello(HELLO, 30).pid == worker.pid
        ids = worker.request(Collect(), Collected, 30).ids
        assert ids == [str(tmp_path), "base"]
        assert worker.request(Sample("case", 0.1, 3), Sampled, 30).seconds == [0.5] * 3
    assert worker._process.returncode == 0
    assert wait_empty(worker.pid) == []


def test_what_the_code_under_test_prints_is_not_the_wire(start):
    with start("loud") as worker:
        worker.hello(HELLO, 30)
        assert worker.request(Sample("case", 1, 1), Sampled, 30).seconds == [0.5]
    assert worker.log.stat().st_size > 200_000


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("die", r"base: sample: killed by SIGSEGV(.|\n)*about to die"),
        ("exit", r"exited with 1(.|\n)*no more disk"),
        ("orphan", r"exited with 7"),
        ("babble", r"unreadable answer: expected b'RFW1', got b'Warn'"),
        ("stale", r"expected number 2 Sampled, got number 1 Sampled"),
        ("other kind", r"expected number 2 Sampled, got number 2 Done"),
        ("close", r"closed the wire but runs on"),
    ],
)
def test_a_worker_that_fails_is_ended_and_explained(start, mode, words):
    worker = start(mode)
    worker.hello(HELLO, 30)
    with pytest.raises(WorkerError, match=words):
        worker.request(Sample("case", 1), Sampled, 30)
    assert wait_empty(worker.pid) == []
    with pytest.raises(WorkerError, match="asked of a worker that has ended"):
        worker.request(Sample("case", 1), Sampled, 30)


def test_a_worker_that_hangs_is_ended_with_its_children(start):
    worker = start("hang")
    worker.hello(HELLO, 30)
    with pytest.raises(WorkerError, match=r"no answer within 0\.5 s(.|\n)*hanging"):
        worker.request(Sample("case", 1), Sampled, 0.5)
    assert wait_empty(worker.pid) == []


def test_a_case_that_raises_leaves_the_worker_alive(start):
    with start("raise") as worker:
        worker.hello(HELLO, 30)
        with pytest.raises(WorkerError, match=r"ValueError: boom\n  File x, line 1"):
            worker.request(Sample("case", 1), Sampled, 30)
        assert worker.request(Collect(), Collected, 30).ids


def test_another_version_is_refused(start):
    worker = start("other version")
    with pytest.raises(WorkerError, match=r"expected protocol 1, got 2"):
        worker.hello(HELLO, 30)
    assert wait_empty(worker.pid) == []


def test_an_interrupt_leaves_no_process(start):
    worker = start("hang")
    worker.hello(HELLO, 30)
    with pytest.raises(KeyboardInterrupt), worker:
        raise KeyboardInterrupt
    assert wait_empty(worker.pid) == []


def test_a_worker_that_lingers_after_goodbye_is_ended(start):
    worker = start("lingers")
    worker.hello(HELLO, 30)
    worker.close(timeout=0.5)
    assert wait_empty(worker.pid) == []


def test_ctrl_c_at_the_terminal_does_not_reach_the_worker(start):
    worker = start()
    assert os.getpgid(worker.pid) != os.getpgid(0)


def test_a_reply_of_another_kind_than_asked(start):
    worker = start()
    worker.hello(HELLO, 30)
    with pytest.raises(WorkerError, match="expected number 2 Modules, got number 2 Done"):
        worker.request(AskModules(), Modules, 30)


def test_the_plugin_is_the_gates_own_whatever_the_side_holds(tmp_path):
    """The side's tree is on PYTHONPATH, in the working directory, and holds another plugin."""
    for folder in (tmp_path, tmp_path / "src"):
        (folder / "pytest_rightfast").mkdir(parents=True)
        (folder / "pytest_rightfast/__init__.py").write_text("raise SystemExit('the wrong plugin')")
    boot = workers.boot_command()
    boot[3] = boot[3].split("; from")[0] + "; print(pytest_rightfast.__file__, sys.path)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    worker = Worker("base", tmp_path, environment, tmp_path / "log", boot)
    worker._process.wait()
    file, path = worker.tail().split(" ", 1)
    worker.kill()
    assert file == str(Path(SRC) / "pytest_rightfast/__init__.py")
    assert SRC not in path
    assert f"'{tmp_path}'" not in path
