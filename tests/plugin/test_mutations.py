"""The table of mutations is in step with the sources, and each mutation turns its test red."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import mutations

ROOT = Path(__file__).parents[2]


def test_every_guard_stands_once_in_its_file():
    found = {(one.module, one.guard): mutations.count(one) for one in mutations.MUTATIONS}
    assert {name: times for name, times in found.items() if times != 1} == {}


def test_every_test_exists():
    for one in mutations.MUTATIONS:
        file, *names = one.test.partition("[")[0].split("::")
        text = (Path(__file__).parent / file).read_text(encoding="utf-8")
        assert f"def {names[-1]}(" in text, one.test


def test_the_table_is_up_to_date():
    """`python tests/plugin/mutations.py --table > docs/mutations.md`"""
    assert (ROOT / "docs" / "mutations.md").read_text(encoding="utf-8") == mutations.table()


@pytest.mark.slow
@pytest.mark.parametrize("mutation", mutations.MUTATIONS, ids=lambda one: one.guard)
def test_turns_red(mutation, tmp_path):
    assert mutations.outcome(mutation, tmp_path) == "red"
