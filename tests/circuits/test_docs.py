"""The example in docs/circuits.md runs and prints what the page says; its links lead somewhere."""

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "circuits.md"


def test_the_examples():
    text = re.sub(r"^```.*$", "", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) >= 8
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert not runner.failures


def test_the_links():
    targets = re.findall(r"\]\(([^)#]+)\)", PAGE.read_text(encoding="utf-8"))
    for target in targets:
        assert target.startswith("http") or (PAGE.parent / target).exists(), target
