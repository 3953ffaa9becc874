"""The examples of the wavelets' pages run as they stand."""

import doctest
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[2] / "docs" / "wavelets").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples(page):
    found = doctest.testfile(str(page), module_relative=False)
    assert found.attempted > 0
    assert found.failed == 0
