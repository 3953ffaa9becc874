"""The gate's table of guards is in step with the sources, and each deletion turns its test red."""

import shutil
from pathlib import Path

import pytest

from . import mutants


def test_every_guard_stands_in_its_file():
    source = mutants.ROOT / "src/pytest_rightfast"
    stale = [m for m in mutants.MUTANTS if m.old not in (source / f"{m.module}.py").read_text()]
    assert stale == []


def test_the_table_is_up_to_date():
    """`python tests/gate/mutants.py --table > docs/gate-guards.md`"""
    assert (mutants.ROOT / "docs/gate-guards.md").read_text() == mutants.table() + "\n"


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mutants")
    shutil.copytree(mutants.ROOT / "src", folder, dirs_exist_ok=True)
    return Path(folder)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda one: one.guard)
def test_turns_red(mutant, copy):
    assert mutants.outcome(mutant, copy) in ("red", "hangs")
