"""The table of mutations is in step with the runtime, and each mutation turns its test red."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from . import mutations

PAGE = Path(__file__).parents[2] / "docs" / "runtime-classes.md"


def test_every_text_stands_once_in_its_file():
    found = {one.error: mutations.count(one) for one in mutations.MUTATIONS}
    assert {error: times for error, times in found.items() if times != 1} == {}


def test_every_test_exists():
    for one in mutations.MUTATIONS:
        file, *names = one.test.split("::")
        text = (Path(__file__).parent / file).read_text(encoding="utf-8")
        assert f"def {names[-1]}(" in text, one.test


def test_the_table_is_up_to_date():
    """`python tests/runtime/mutations.py --table`"""
    assert mutations.table() in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("mutation", mutations.MUTATIONS, ids=lambda one: one.error)
def test_turns_red(mutation, tmp_path):
    if mutation.gpu and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    assert mutations.outcome(mutation, tmp_path) == "red"
