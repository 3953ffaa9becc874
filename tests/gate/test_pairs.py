"""Processes of a pair that die are started again, and leave nothing."""

import os
import sys
from pathlib import Path

import psutil
import pytest

from pytest_rightfast import messages, pairs, workers
from pytest_rightfast.workers import WorkerError

SRC = str(Path(workers.__file__).parents[1])
FAKE = str(Path(__file__).parent / "fake_worker.py")


@pytest.fixture
def arm(tmp_path, monkeypatch):
    def make(mode):
        monkeypatch.setattr(workers, "boot_command", lambda: [sys.executable, FAKE, mode])
        environment = {**os.environ, "PYTHONPATH": SRC}
        return pairs.Arm("base", tmp_path, environment, messages.Hello(messages.VERSION, {}))

    return make


def test_a_case_that_kills_its_process_takes_no_other_with_it(arm):
    with pairs.fresh([arm("die")], lambda: 30.0) as pair:
        before = pair.workers["base"].pid
        with pytest.raises(WorkerError, match="SIGSEGV"):
            pair.ask("base", messages.Sample("case", 1), messages.Sampled)
        assert pair.workers["base"].pid != before
        assert pair.ask("base", messages.Collect(), messages.Collected).ids


def test_a_process_that_only_reports_an_error_is_kept(arm):
    with pairs.fresh([arm("raise")], lambda: 30.0) as pair:
        before = pair.workers["base"].pid
        with pytest.raises(WorkerError, match="boom"):
            pair.ask("base", messages.Sample("case", 1), messages.Sampled)
        assert pair.workers["base"].pid == before


def test_patience_ends_a_hanging_case(arm):
    with (
        pairs.fresh([arm("hang")], lambda: 0.5) as pair,
        pytest.raises(WorkerError, match=r"no answer within 0\.5 s"),
    ):
        pair.ask("base", messages.Sample("case", 1), messages.Sampled)


def test_a_process_that_cannot_start_hides_its_cases(tmp_path, monkeypatch, arm):
    broken = arm("well")
    monkeypatch.setattr(workers, "boot_command", lambda: [sys.executable, "-c", "1/0"])
    with pairs.fresh([broken], lambda: 30.0) as pair:
        assert pair.collected["base"].ids == []
        assert "ZeroDivisionError" in pair.collected["base"].failed[""]


def test_its_temporary_folder_goes_with_it(arm):
    with pairs.fresh([arm("well")], lambda: 30.0) as pair:
        folder = pair.workers["base"].log.parent
        assert pair.workers["base"].log.exists()
        assert psutil.Process(pair.workers["base"].pid).environ()["TMPDIR"] == str(folder)
        (folder / "left by a case").touch()
    assert not folder.exists()
