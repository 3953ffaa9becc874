import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pytest_rightfast import locks

SRC = str(Path(locks.__file__).parents[1])


@pytest.fixture
def other(tmp_path):
    """Another process that holds the lock until its stdin closes."""
    path = tmp_path / "measuring.lock"
    code = (
        f"import sys; sys.path.insert(0, {SRC!r})\n"
        "from pathlib import Path; from pytest_rightfast import locks\n"
        f"with locks.measuring(Path({str(path)!r})):\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "gate", "main"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield path, process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_second_measurement_fails_and_names_the_first(other):
    path, process = other
    with (
        pytest.raises(locks.BusyError, match=rf"process {process.pid} since .*gate main"),
        locks.measuring(path),
    ):
        pass


def test_it_waits_where_asked_and_says_for_whom(other):
    path, process = other
    told = []

    def release(holder):
        told.append(holder)
        threading.Timer(0.3, process.stdin.close).start()

    with locks.measuring(path, wait_seconds=30, on_wait=release) as me:
        assert me.pid == os.getpid()
    assert told[0].pid == process.pid


def test_waiting_ends(other):
    path, _ = other
    with pytest.raises(locks.BusyError), locks.measuring(path, wait_seconds=0.3):
        pass


def test_a_killed_holder_blocks_no_one(other):
    path, process = other
    process.kill()
    process.wait()
    assert locks.holder(path).pid == process.pid  # its note is still there
    with locks.measuring(path):
        assert locks.holder(path).pid == os.getpid()


def test_nothing_is_held_after_an_error(tmp_path):
    path = tmp_path / "lock"
    with pytest.raises(KeyboardInterrupt), locks.measuring(path):
        raise KeyboardInterrupt
    assert locks.holder(path) is None
    with locks.measuring(path):
        pass


def test_a_note_that_makes_no_sense_is_no_holder(tmp_path):
    path = tmp_path / "lock"
    for text in ("{", "[]", json.dumps({"pid": 1}), json.dumps("x")):
        path.with_name("lock.holder").write_text(text)
        assert locks.holder(path) is None


def test_a_note_that_cannot_be_written_stops_nothing(tmp_path):
    path = tmp_path / "lock"
    path.with_name("lock.holder").mkdir()
    with locks.measuring(path) as me:
        assert me.since <= time.time()


def test_a_lock_that_cannot_be_opened_is_explained(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(locks.BusyError, match="RIGHTFAST_LOCK"),
        locks.measuring(tmp_path / "file" / "lock"),
    ):
        pass


def test_one_lock_for_the_machine_unless_named(monkeypatch, tmp_path):
    monkeypatch.delenv("RIGHTFAST_LOCK", raising=False)
    assert locks.lock_path().name == "rightfast-measuring.lock"
    monkeypatch.setenv("RIGHTFAST_LOCK", str(tmp_path / "mine"))
    assert locks.lock_path() == tmp_path / "mine"
