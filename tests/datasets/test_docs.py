"""Every example in docs/datasets.md runs and prints what the page says."""

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "datasets.md"


def test_the_examples(disk, monkeypatch):
    monkeypatch.chdir(disk)  # where files can be cold
    text = re.sub(r"^```.*$", "", PAGE.read_text(), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert runner.tries > 10
    assert not runner.failures


def test_the_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE.read_text()):
        assert target.startswith("http") or (PAGE.parent / target).exists(), target
