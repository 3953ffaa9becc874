"""Winners that leave the process, and come back."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from rightfast.runtime import best_of, choices, export_choices, forget_choices, pin_choices
from rightfast.runtime import pins as module


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch):
    monkeypatch.delenv("RIGHTFAST_PINS", raising=False)
    forget_choices()
    yield
    forget_choices()


class Ways:
    """Three candidates, of which the second is fast and the third is wrong and faster."""

    def __init__(self, fast="fast"):
        self.runs = []
        self.taken = {"default": 10.0, "fast": 10.0, "wrong": 1.0, fast: 1.0}

    def winner(self, key="ways"):
        candidates = {
            name: self.way(name, 3 if name == "wrong" else 2)
            for name in ("default", "fast", "wrong")
        }
        chosen = best_of(candidates, (torch.ones(3),), key=key, clock=self.clock, runs=1)
        return next(name for name, one in candidates.items() if one is chosen)

    def way(self, name, factor):
        def run(x):
            self.runs.append(name)
            return x * factor

        return run

    def clock(self, call):
        call()
        return self.taken[self.runs[-1]]


@pytest.mark.filterwarnings("ignore:best_of. candidate:RuntimeWarning")
class TestPins:
    def test_there_and_back(self, tmp_path):
        assert Ways().winner(("ways", torch.float32, 3)) == "fast"
        path = tmp_path / "pins.json"
        content = export_choices(path)
        assert json.loads(path.read_text()) == content
        for source in (content, path, str(path)):
            forget_choices()
            assert pin_choices(source) == 1
            # Today the default would win; what is pinned is not timed.
            ways = Ways(fast="default")
            assert ways.winner(("ways", torch.float32, 3)) == "fast"
            assert ways.runs == ["default", "fast"]
            (choice,) = choices()
            assert choice.pinned
            assert "(pinned)" in str(choice)
        assert export_choices() == content

    def test_another_key_is_tuned(self):
        pin_choices({"schema": 1, "choices": [{"place": "cpu", "key": "'a'", "winner": "default"}]})
        assert Ways().winner("a") == "default"
        assert Ways().winner("b") == "fast"
        assert [choice.pinned for choice in choices()] == [True, False]

    def test_another_place_is_tuned(self):
        row = {"place": "NVIDIA H200", "key": "'a'", "winner": "default"}
        pin_choices({"schema": 1, "choices": [row]})
        assert Ways().winner("a") == "fast"

    def test_the_default_needs_no_run(self):
        pin_choices({"schema": 1, "choices": [{"place": "cpu", "key": "'a'", "winner": "default"}]})
        ways = Ways()
        assert ways.winner("a") == "default"
        assert ways.runs == []

    def test_a_pinned_candidate_that_is_wrong(self):
        pin_choices({"schema": 1, "choices": [{"place": "cpu", "key": "'a'", "winner": "wrong"}]})
        with pytest.warns(RuntimeWarning, match="'wrong' of 'a' is not used: 3 of 3 elements"):
            assert Ways().winner("a") == "default"

    def test_a_pinned_candidate_that_is_gone(self):
        """Both sides of a gate then run the default: neither is timed here."""
        pin_choices({"schema": 1, "choices": [{"place": "cpu", "key": "'a'", "winner": "old"}]})
        ways = Ways()
        with pytest.warns(RuntimeWarning, match="it is pinned, and not among"):
            assert ways.winner("a") == "default"
        assert ways.runs == []

    def test_pins_come_before_what_was_chosen(self):
        assert Ways().winner("a") == "fast"
        row = {"place": "cpu", "key": "'a'", "winner": "default"}
        pin_choices({"schema": 1, "choices": [row]})
        assert Ways().winner("a") == "default"
        forget_choices()
        assert Ways().winner("a") == "fast"

    def test_the_environment_names_a_file(self, tmp_path, monkeypatch):
        path = tmp_path / "pins.json"
        row = {"place": "cpu", "key": "'a'", "winner": "default"}
        path.write_text(json.dumps({"schema": 1, "choices": [row]}))
        monkeypatch.setenv("RIGHTFAST_PINS", str(path))
        assert Ways().winner("a") == "default"
        assert Ways().winner("b") == "fast"


class TestFiles:
    @pytest.mark.parametrize(
        "words",
        [
            "",
            "{",
            "[]",
            "3",
            '{"schema": 2, "choices": []}',
            '{"schema": 1, "choices": [3]}',
            '{"schema": 1, "choices": [{"place": "cpu", "key": "a"}]}',
            '{"schema": 1, "choices": [{"place": "cpu", "key": "a", "winner": 3}]}',
        ],
    )
    def test_no_export(self, tmp_path, words):
        path = tmp_path / "pins.json"
        path.write_text(words)
        with pytest.raises(ValueError, match=r"pin_choices\(\) expected .* anew"):
            pin_choices(path)

    def test_no_file(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            pin_choices(tmp_path / "none.json")

    def test_written_whole_or_not_at_all(self, tmp_path, monkeypatch):
        path = tmp_path / "pins.json"
        Ways().winner()
        export_choices(path)
        before = path.read_bytes()
        Ways().winner("more")

        def fails(source, target):
            assert json.loads(Path(source).read_text())["schema"] == 1
            assert path.read_bytes() == before
            raise OSError("disk full")

        monkeypatch.setattr(module.os, "replace", fails)
        with pytest.raises(OSError, match="disk full"):
            export_choices(path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["pins.json"]

    def test_keys_are_text_without_addresses(self):
        key = ("op", torch.Size([2, 3]), torch.bfloat16, torch.device("cuda:1"), 1, True, 1.5, None)
        words = "('op', (2, 3), torch.bfloat16, cuda:1, 1, True, 1.5, None)"
        assert module.text(key) == words
