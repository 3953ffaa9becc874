"""An interrupted run keeps what it finished, and resumes; nothing else is taken for finished."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace

import pytest

from pytest_rightfast import machine
from pytest_rightfast.errors import ResultsError
from pytest_rightfast.journal import Journal, path_of, read
from pytest_rightfast.results import Row, load, save

PROJECT = """
    import os, signal
    from pathlib import Path
    NOTES = Path(__file__).with_name("notes.txt")

    @pytest.mark.parametrize("name", ["a", "b", "c"])
    def test_it(perf, name):
        with NOTES.open("a") as file:
            file.write(name)

        def call(x):
            if name == "b" and os.environ.get("STOP") == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if name == "b" and os.environ.get("STOP") == "interrupt":
                raise KeyboardInterrupt
            return x.exp()

        perf(call, torch.randn(8), reference=np.exp)

    @pytest.mark.xfail(strict=True)
    def test_wrong(perf):
        perf(torch.sin, torch.randn(8), reference=np.exp)
"""
RESUMED = ("--perf-json=rows.json", "--perf-resume")


@pytest.fixture
def committed(project):
    """The project in a repository; gives what runs further git commands."""

    def git(command):
        subprocess.run(["git", *command.split()], cwd=project.path, check=True)

    project.file("test_it.py", PROJECT)
    # pytester keeps the output of the run under way beside the project.
    (project.path / ".gitignore").write_text("notes.txt\nstdout\nstderr\nrunpytest-*\n.*\n")
    for command in ("init -q", "add -A", "-c user.name=a -c user.email=b commit -qm a"):
        git(command)
    machine._commit.cache_clear()
    yield git
    machine._commit.cache_clear()


@pytest.fixture
def stopped(project, committed, monkeypatch):
    """A run that was stopped in its second case."""

    def stop(how, *options):
        monkeypatch.setenv("STOP", how)
        result = project.apart("--perf-json=rows.json", *options)
        monkeypatch.delenv("STOP")
        (project.path / "notes.txt").unlink()
        return result

    return stop


@pytest.mark.parametrize("how", ["interrupt", "kill"])
def test_finished_cases_are_kept_and_not_run_again(project, stopped, how):
    file = project.path / "rows.json"
    result = stopped(how)
    if how == "interrupt":
        said = ["  INTERRUPTED subject call, by no fault *", "2 of 4 cases: 1 ok, 1 interrupted"]
        how_on = "interrupted after 1 of 4 cases: *--perf-json rows.json and --perf-resume"
        result.stdout.fnmatch_lines([*said, how_on])
        assert "ERROR" not in result.stdout.str()
    assert result.ret not in (0, 1)
    assert path_of(file).exists() == (how == "kill")
    before = read(path_of(file)) if how == "kill" else load(file)
    assert [(row.id[-3:], row.status) for row in before][:1] == [("[a]", "ok")]
    result = project.apart(*RESUMED)
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"1 cases taken from *{file.name}{'.partial' * (how == 'kill')}"])
    rows = load(file)
    assert [row.id.rpartition("_")[2] for row in rows] == ["it[a]", "it[b]", "it[c]", "wrong"]
    assert [row.status for row in rows] == ["ok"] * 3 + ["wrong"]
    assert rows[0].samples == before[0].samples
    assert not path_of(file).exists()
    # A test body runs to build its case; a whole file measures nothing again, and stays as it is.
    text = file.read_text()
    result = project.apart(*RESUMED)
    result.stdout.fnmatch_lines(["4 cases taken from *"])
    assert result.ret == 0
    assert [row.samples for row in load(file)] == [row.samples for row in rows]
    assert len(file.read_text()) == len(text)


CHANGES = {
    "none": "",
    "code": "4 rows of *: uncommitted changes differ",
    "commit": "4 rows of *: commit differs",
    "heap": "4 rows of * kept: *",
    "repeats": "3 rows of *: --perf-repeats differs",
    "timing": "3 rows of *: --benchmark-disable differs",
    "time": "3 rows of *: --benchmark-max-time or --benchmark-min-rounds differs",
    "rounds": "3 rows of *: --benchmark-max-time or --benchmark-min-rounds differs",
}
ASKED = {
    "repeats": "--perf-repeats=2",
    "timing": "--benchmark-disable",
    "time": "--benchmark-max-time=0.03",
    "rounds": "--benchmark-min-rounds=4",
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_rows_are_measured_again(project, committed, change):
    assert project.run("--perf-json=rows.json").ret == 0
    options = [ASKED[change]] if change in ASKED else []
    if change == "heap":
        rows = [replace(row, heap="cold") for row in load(project.path / "rows.json")]
        save(project.path / "rows.json", rows)
    if change == "code":
        project.file("more.py", "x = 1\n")
    if change == "commit":
        committed("-c user.name=a -c user.email=b commit -q --allow-empty -m b")
    machine._commit.cache_clear()
    result = project.run(*RESUMED, *options)
    assert result.ret == 0
    # What is wrong has no time, and so no options, either way.
    taken = 4 if change == "none" else 1 if change in ASKED else 0
    lines = [f"{taken} cases taken from *", CHANGES[change]]
    result.stdout.fnmatch_lines(lines[: 1 + (change != "none")])
    assert ("not taken" in result.stdout.str()) == (change not in ("none", "heap"))
    heaps = [row.heap for row in load(project.path / "rows.json")]
    assert sorted(heaps) == ["cold"] * 4 * (change == "heap") + ["system"] * 4


def test_rows_that_are_not_selected_are_kept(project, committed):
    """Whatever this run selects, also if that is nothing, and in the order of the whole."""
    file = project.path / "rows.json"
    assert project.run("--perf-json=rows.json").ret == 0
    before = load(file)
    for selection, taken in (("nothing", 0), ("wrong", 1), ("[b] or [c]", 2)):
        result = project.run(*RESUMED, "-k", selection)
        assert result.ret == (5 if selection == "nothing" else 13 if selection == "wrong" else 0)
        said = [f"{taken} cases taken from *", f"{4 - taken} rows of *rows.json kept: *"]
        result.stdout.fnmatch_lines(said)
        assert load(file) == before


def test_an_interrupt_loses_nothing_of_the_run_before(project, stopped):
    """The first run ended with c and the wrong one; the second is stopped before them."""
    file = project.path / "rows.json"
    assert project.apart("--perf-json=rows.json").ret == 0
    before = load(file)
    stopped("interrupt", "--perf-resume", "--benchmark-min-rounds=4")
    rows = load(file)
    assert [row.id for row in rows] == [row.id for row in before]
    assert rows[2:] == before[2:]
    assert rows[0].samples != before[0].samples


@pytest.mark.parametrize("partial", [False, True])
def test_rows_of_other_code_are_not_lost(project, committed, partial):
    """They may be replaced by new rows of the same case; a run that would drop them is refused."""
    file = project.path / "rows.json"
    assert project.run("--perf-json=rows.json").ret == 0
    if partial:
        journal = Journal(file)
        journal.keep(load(file))
        file = journal.path
    text = file.read_text()
    project.file("more.py", "x = 1\n")
    machine._commit.cache_clear()
    result = project.run(*RESUMED, "-k", "[b]")
    assert result.ret == 4
    said = ["*would lose 3 rows of *", "*expected:*", "*got:*3 whose uncommitted changes differ"]
    result.stderr.fnmatch_lines([*said, "*remedy:*"])
    assert file.read_text() == text
    assert path_of(project.path / "rows.json").exists() == partial


def test_a_run_that_is_refused_leaves_the_file(project, committed):
    assert project.run("--perf-json=rows.json").ret == 0
    text = (project.path / "rows.json").read_text()
    assert project.run(*RESUMED, "no_such_file.py").ret == 4
    assert project.run(*RESUMED, "--perf-device=cuda:99").ret == 4
    assert (project.path / "rows.json").read_text() == text


def test_a_bad_file_stops_the_run_and_is_left_as_it_is(project):
    project.file("test_it.py", PROJECT)
    file = project.path / "rows.json"
    for text in ("", '{"benchmarks": []}', '{"schema": 1, "rows": []}', '{"schema": 2, "rows": ['):
        file.write_text(text)
        result = project.run(*RESUMED)
        assert result.ret == 4
        result.stderr.fnmatch_lines(["*rows.json*", "*expected:*", "*got:*", "*remedy:*"])
        assert file.read_text() == text


def test_resume_needs_a_file(project):
    result = project.run("--perf-resume")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--perf-resume*", "*expected:*", "*remedy:*"])


def test_a_journal_that_was_cut_off_keeps_its_whole_lines(tmp_path):
    journal, rows = Journal(tmp_path / "r.json"), [Row(n, n, "b", samples=[1.0]) for n in "ab"]
    for row in rows:
        journal.keep([row])
    assert read(journal.path) == rows
    text = journal.path.read_text()
    for cut in range(1, 30):
        journal.path.write_text(text[:-cut])
        assert read(journal.path) == rows[:1]
    with pytest.raises(ResultsError, match="with --perf-resume"):
        load(journal.path)
    journal.drop()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{}\n", '{"schema": 1, "kind": "partial"}\n', "x\n"])
def test_what_is_no_journal(tmp_path, text):
    path = tmp_path / "r.json.partial"
    path.write_text(text)
    with pytest.raises(ResultsError, match=r"(?s)no journal.*expected:.*remedy:"):
        read(path)


def test_a_damaged_line_is_named(tmp_path):
    journal = Journal(tmp_path / "r.json")
    journal.keep([Row("a", "a", "b")])
    for line in (
        "{",
        json.dumps({"id": "a"}),
        '{"id": "a", "case": "a", "backend": "b", "loops": "x"}',
    ):
        journal.path.write_text(journal.path.read_text() + line + "\n")
        with pytest.raises(ResultsError, match="line 3"):
            read(journal.path)
        journal._started = False
        journal.keep([Row("a", "a", "b")])


def test_a_value_that_is_no_json_is_not_written(tmp_path):
    journal = Journal(tmp_path / "r.json")
    journal.keep([Row("a", "a", "b", error=float("nan"))])
    assert "cannot be written" in journal.note
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ResultsError):
        save(tmp_path / "r.json", [Row("a", "a", "b", error=float("nan"))])
