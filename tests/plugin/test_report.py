"""`rightfast report`: split files merge into what a live run printed; others are refused."""

from __future__ import annotations

import csv
import io
import random

import pytest

from pytest_rightfast import cli, merge
from pytest_rightfast.results import Row, load, save

PROJECT = """
    def wrong(x):
        return x + 1

    from pytest_rightfast import PerfCase, peer

    @pytest.fixture(params=[64, 4096], ids=str)
    def wave(request):
        return PerfCase(
            inputs=lambda g: (torch.randn(request.param, generator=g),),
            reference=np.exp, moved_bytes=lambda x: 2 * x.nbytes)

    @pytest.mark.perf_backends(ours=torch.exp, slow=lambda x: x.exp().clone(), bad=peer(wrong))
    def test_exp(perf, wave, backend):
        perf(backend, case=wave)

    def test_alone(perf):
        perf(torch.sin, torch.randn(8), reference=np.sin)
"""


@pytest.fixture
def live(project):
    """A run with its file, and what it printed as tables."""
    project.file("test_a.py", PROJECT)
    project.file("test_b.py", PROJECT)
    result = project.run("test_b.py", "test_a.py", "--perf-json=live.json")
    assert result.ret == 0
    lines = result.outlines
    begin = lines.index("cpu, 1 thread, system heap")
    end = next(i for i, line in enumerate(lines) if i > begin and not line.strip())
    assert end - begin > 14
    return project, "\n".join(lines[begin:end]) + "\n"


def report(capsys, *words):
    capsys.readouterr()  # of the runs before
    code = cli.main(["report", *map(str, words)])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("by", ["backend", "case", "status", "chance"])
def test_split_files_report_what_the_live_run_said(live, capsys, by):
    project, printed = live
    rows = load(project.path / "live.json")
    draw = random.Random(3)
    parts: dict[object, list[Row]] = {}
    for row in rows:
        parts.setdefault(draw.random() if by == "chance" else getattr(row, by), []).append(row)
    files = [project.path / f"part{number}.json" for number in range(len(parts))]
    for file, part in zip(files, parts.values()):
        save(file, part)
    draw.shuffle(files)
    assert len(files) > 1
    assert report(capsys, *files) == (0, printed, "")
    code, text, _ = report(capsys, "--format=json", *files)
    (project.path / "merged.json").write_text(text)
    assert code == 0
    assert load(project.path / "merged.json") == rows
    assert report(capsys, project.path / "merged.json")[1] == printed


def test_runs_of_parts_come_in_the_order_of_the_whole(live, capsys):
    project, printed = live
    files = []
    for word in ("slow", "alone", "bad or ours"):
        files.append(project.path / f"{word[:4]}.json")
        assert (
            project.run("test_b.py", "test_a.py", "-k", word, f"--perf-json={files[-1]}").ret == 0
        )
    whole = load(project.path / "live.json")
    assert [row.id for row in merge.merged(files)] == [row.id for row in whole]
    names = [line[:23].split() for line in printed.splitlines()]
    lines = report(capsys, *files)[1].splitlines()
    assert [line[:23].split() for line in lines] == names


def row(backend="ours", device="cpu", **environment):
    identity = f"t.py::test_a[{backend}]"
    found = {"commit": "a" * 40, "dirty": False, "host": "h", **environment}
    found_row = Row(identity, "t.py::test_a", backend, device=device, environment=found)
    found_row.samples = [1e-6, 2e-6, 3e-6]
    return found_row


def test_devices_and_commits_have_tables_of_their_own(tmp_path, capsys):
    other = {"commit": "b" * 40, "committed": "2026-01-01", "dirty": True}
    save(tmp_path / "a.json", [row(), row(device="cuda", gpu="H")])
    save(tmp_path / "b.json", [row(**other), row("theirs", **other)])
    code, text, _ = report(capsys, tmp_path / "a.json", tmp_path / "b.json")
    assert code == 0
    titles = [line for line in text.splitlines() if "heap" in line]
    assert titles == [
        f"cpu, 1 thread, system heap, commit {'a' * 12}, without changes",
        f"cpu, 1 thread, system heap, commit {'b' * 12}, with changes",
        "cuda, 1 thread, system heap",
    ]


BAD = {
    "truncated": '{"schema": 2, "rows": [{"id": "a", ',
    "empty": "",
    "older": '{"schema": 1, "rows": []}',
    "foreign": '{"benchmarks": []}',
    "gate": '{"schema": 1, "kind": "gate", "cases": []}',
}


@pytest.mark.parametrize("kind", [*BAD, "absent", "duplicate", "copy", "itself"])
def test_bad_files_are_named_and_overwrite_nothing(tmp_path, capsys, kind):
    good, bad, output = (tmp_path / name for name in ("good.json", "bad.json", "out.csv"))
    save(good, [row()])
    output.write_text("before")
    if kind in BAD:
        bad.write_text(BAD[kind])
    elif kind == "copy":
        bad.write_bytes(good.read_bytes())
    names = {"duplicate": good, "itself": good}
    target = good if kind == "itself" else output
    words = [good] if kind == "itself" else [good, names.get(kind, bad)]
    before = good.read_bytes()
    code, out, said = report(capsys, "--format=csv", "-o", target, *words)
    assert (code, out) == (2, "")
    for word in ("remedy:", names.get(kind, bad).name if kind != "copy" else "bad.json"):
        assert word in said
    if kind != "absent":
        assert "expected:" in said
    assert output.read_text() == "before"
    assert good.read_bytes() == before


def test_csv_has_a_line_for_each_row_with_its_numbers(live, capsys):
    project, _ = live
    code, text, _ = report(capsys, "--format=csv", project.path / "live.json")
    lines = list(csv.DictReader(io.StringIO(text)))
    rows = load(project.path / "live.json")
    assert code == 0
    assert [line["id"] for line in lines] == [one.id for one in rows]
    assert [float(line["median"]) for line in lines if line["median"]] == [
        one.median for one in rows if one.samples
    ]
    ours, slow, bad = lines[:3]
    assert float(ours["ratio"]) == 1.0
    assert float(slow["ratio"]) == pytest.approx(float(slow["median"]) / float(ours["median"]))
    assert (bad["status"], bad["median"], bad["ratio"]) == ("wrong", "", "")


def test_markdown_shows_the_same_cells(live, capsys):
    project, printed = live
    code, text, _ = report(
        capsys, "--format=markdown", "-k", "test_a.py", project.path / "live.json"
    )
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert code == 0
    assert lines[0].split("|")[1].strip() == "case"
    assert len(lines) == 2 + 7
    assert r"a: exp\[64\]" in lines[2]
    for word in lines[3].replace("\\", "").split("|")[2:6]:
        assert word.strip() in printed
    assert r"- WRONG peer bad:" in text


def test_words_choose_cases(live, capsys):
    project, _ = live
    file = project.path / "live.json"
    code, text, _ = report(capsys, "-k", "alone", "--format=csv", file)
    assert code == 0
    assert len(text.splitlines()) == 3
    code, _, said = report(capsys, "-k", "nothing-like-it", file)
    assert code == 2
    assert "no case fits -k nothing-like-it" in said
