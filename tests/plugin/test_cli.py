"""The console command: what follows `--` is pytest's, in whatever order the rest stands."""

import pytest

from pytest_rightfast import cli


@pytest.mark.parametrize(
    ("words", "paths", "rest"),
    [
        (["HEAD", "--budget", "15", "--", "-q"], ["perf"], ["-q"]),
        (["HEAD", "perf", "--budget", "15", "--", "--co"], ["perf"], ["--co"]),
        (["--budget", "15", "HEAD", "--", "-q"], ["perf"], ["-q"]),
        (["HEAD", "a", "b", "--budget", "15"], ["a", "b"], []),
    ],
)
def test_gate_words(monkeypatch, words, paths, rest):
    seen = []
    monkeypatch.setattr(pytest, "main", lambda given: seen.extend(given) or 0)
    assert cli.main(["gate", *words]) == 0
    assert [word for word in seen if word in ("perf", "a", "b")] == paths
    assert seen[len(seen) - len(rest) :] == rest
    assert seen[seen.index("--perf-against") + 1] == "HEAD"
    assert seen[seen.index("--perf-budget") + 1] == "15"


def test_a_misspelt_keyword_is_named(verify):
    from pytest_rightfast import CaseError

    with pytest.raises(CaseError, match="did you mean reference="):
        verify(abs, 1.0, refrence=abs)
    with pytest.raises(CaseError, match="reference= is not callable"):
        verify(abs, 1.0, reference=3)
