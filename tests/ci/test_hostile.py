"""What a stranger's artifact may hold, and what becomes of it: text, or a refusal, never more."""

from __future__ import annotations

import html
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from reports import case, encoded, report, zipped

from pytest_rightfast import comment, gate_stored, github
from pytest_rightfast.ci import JSON
from pytest_rightfast.errors import ResultsError

ABOUT = ("rightfast", "https://hub.example/run", "success")
TEXTS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=y>",
    "![x](https://evil.example/pixel.png)",
    "[click](javascript:x)",
    "@everyone @owner/team",
    "a | b | c",
    "\n\n# Merged by the maintainers\n\n",
    "```\ncode\n```",
    "https://evil.example www.evil.example",
    "#1 owner/project#2 GH-3",
    "<!-- rightfast: rightfast -->",
    "| --- |\n<details><summary>",
    "\u202egnp.exe\u2066",
    "\ud800 lone",
    "$\\href{x}{y}$ :tada: ~~gone~~ **bold** _it_",
]
ACTIVE = ("<script", "<img", "](", "@everyone", "@owner", "```", "https://evil", "www.", "\u202e")
ACTIVE += ("<!-- ", "<details", "$", "**bold**", "~~", "\ud800", ":tada:")


def render(content):
    return comment.render(gate_stored.parse(encoded(content)), *ABOUT)


@pytest.mark.parametrize("text", TEXTS)
def test_a_strangers_text_is_text(text):
    """In a name, a reason, an acceptance, a note, an error."""
    findings = [{"verdict": "slower", "reason": text, "accepted": text}]
    hostile = case(f"perf/test_a.py::test_a[{text}]", "slower", findings=findings, outputs=text)
    plain = render(report(case("perf/test_a.py::test_a[x]", "slower"), notes=["x"]))
    found = render(report(hostile, notes=[text]))
    failed = render({"schema": 1, "kind": "gate", "error": text, "exit_code": 15, "cases": []})
    assert len(found.splitlines()) == len(plain.splitlines())
    for made in (found, failed):
        made.encode()
        shown = made.replace(comment.marker("rightfast"), "").replace("[the run](", "")
        shown = shown.replace("**slower**", "")
        for active in ACTIVE:
            assert active not in shown
        assert not re.search(r"[@#]\w|GH-\d", html.unescape(shown))
    rows = [line for line in found.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {len(comment.HEADERS) + 1}


def test_a_comment_is_never_too_long():
    cases = [case(f"perf/test_a.py::test_{'<' * 5000}{n}", "slower") for n in range(1000)]
    text = render(report(*cases, notes=["<" * 9000] * 900))
    assert len(text) < 65536
    assert text.startswith(comment.marker("rightfast"))
    assert text.rstrip().endswith("reported.")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {len(comment.HEADERS) + 1}


@pytest.mark.parametrize("run", ["javascript:x", "https://x) <img>", "https://x\n# y", ""])
def test_an_address_that_is_none_is_no_link(run):
    text = comment.render(gate_stored.parse(encoded(report())), "rightfast", run, "success")
    assert "](" not in text


def edited(**changes):
    return encoded({**report(), **changes})


BAD = {
    "no JSON": b"<html>",
    "no text": b"\xff\xfe\x00",
    "empty": b"",
    "cut off": encoded(report())[:-20],
    "a list": b"[]",
    "rows, not a gate": b'{"schema": 1, "rows": []}',
    "deep": b"[" * 200_000,
    "a number too long": b'{"kind": "gate", "schema": ' + b"9" * 10_000 + b"}",
    "not a number": edited().replace(b"42.0", b"NaN"),
    "infinite": edited().replace(b"42.0", b"1e999"),
    "another schema": edited(schema=2),
    "a true schema": edited(schema=True),
    "a commit that is Markdown": edited(head={"commit": "[x](y)", "dirty": False}),
    "no commit": edited(base={}),
    "an unknown verdict": edited(cases=[case(verdict="**fine**")]),
    "an exit code of another world": edited(exit_code=99),
    "a number as text": edited(pairs="6"),
    "a ratio as text": edited(cases=[case(ratio="<b>")]),
    "negative": edited(cases=[case(low=-1)]),
    "cases that are none": edited(cases=[1, 2]),
    "findings that are none": edited(cases=[case(findings=["x"])]),
    "a name that is none": edited(cases=[case(name={"a": 1})]),
    "too many cases": edited(cases=[0] * 5001),
    "too large": b" " * (gate_stored.LARGEST + 1),
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_what_does_not_fit_is_refused(data):
    with pytest.raises(ResultsError, match="expected:") as caught:
        gate_stored.parse(data)
    assert len(str(caught.value)) < 2000


def lying(archive: bytes, size: int) -> bytes:
    """The same zip, whose directory states another unpacked size of its first member."""
    place = archive.index(b"PK\x01\x02") + 24
    return archive[:place] + struct.pack("<I", size) + archive[place + 4 :]


BOMB = b" " * (gate_stored.LARGEST + 2)
ARCHIVES = {
    "no zip": b"nothing",
    "empty": b"",
    "another name": zipped(b"{}", name="other.json"),
    "a path that leads out": zipped(b"{}", name=f"../{JSON}"),
    "an absolute path": zipped(b"{}", name=f"/tmp/{JSON}"),
    "a bomb": zipped(BOMB),
    "a bomb that states a small size": lying(zipped(BOMB), 10),
    "cut off": zipped(report())[:100],
    "damaged": zipped(report()).replace(zipped(report())[60:80], b"\xff" * 20),
}


@pytest.mark.parametrize("archive", ARCHIVES.values(), ids=ARCHIVES)
def test_archives_that_are_refused(archive, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((github.GithubError, ResultsError)):
        gate_stored.parse(github.member(archive, JSON))
    assert list(tmp_path.iterdir()) == []


def test_members_beside_the_report_are_not_looked_at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    others = {"../../evil.py": b"x", "/etc/evil": b"x", "rightfast.md": b"<img>"}
    archive = zipped(report(), **others)
    assert gate_stored.parse(github.member(archive, JSON)).exit_code == 0
    assert list(tmp_path.iterdir()) == []


def test_the_step_needs_the_standard_library_alone(tmp_path):
    """It holds a token that writes, so nothing is installed for it."""
    source = str(Path(comment.__file__).parents[1])
    script = f"import sys; sys.path.insert(0, {source!r}); import pytest_rightfast.ci"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
