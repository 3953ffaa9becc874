"""Where the gate can't run it exits 15, says why and what to do, and leaves nothing behind."""

import os
import subprocess
import sys

import pytest

from pytest_rightfast import locks


@pytest.fixture
def refused(foreign):
    """A project whose gate is to be refused before any worker starts."""
    foreign.start()
    before = foreign.state()

    def gate(*options, words, code=15):
        outcome = foreign.gate(*options)
        assert outcome.code == code, outcome.said
        assert words in outcome.said
        assert foreign.left_behind() == []
        assert foreign.state() == before
        return outcome

    gate.project = foreign
    return gate


def test_unknown_revision(refused):
    outcome = refused("--perf-against=nowhere", words="expected a revision, got 'nowhere'")
    assert "nowhere" in outcome.data["error"]
    assert outcome.data["exit_code"] == 15
    assert "could not run" in outcome.markdown


def test_not_a_git_repository(foreign):
    (foreign.root / ".git").rename(foreign.around / "elsewhere")
    outcome = foreign.gate()
    assert outcome.code == 15
    assert "expected a git working tree" in outcome.said


def test_a_shallow_clone_is_told_what_to_fetch(refused):
    foreign = refused.project
    foreign.toy(("x / 2", "x * 0.5"))
    foreign.commit()
    shallow = foreign.around / "shallow"
    url = f"file://{foreign.root}"
    foreign.git("clone", "--quiet", "--depth=1", "--no-single-branch", url, str(shallow))
    foreign.root, source = shallow, foreign.root
    outcome = foreign.gate("--perf-against=origin/main")
    foreign.root = source
    assert outcome.code == 15
    assert "git fetch --unshallow" in outcome.said


def test_base_does_not_build(foreign):
    good = (foreign.root / "src/toy/_core.c").read_text()
    foreign.edit("src/toy/_core.c", ("#include <Python.h>", '#error "base is broken"'))
    foreign.start()
    foreign.put("src/toy/_core.c", good)
    foreign.commit()
    before = foreign.state()
    outcome = foreign.gate()
    assert outcome.code == 15
    assert "base is broken" in outcome.said
    assert "build.py` failed (1)" in outcome.said
    assert foreign.state() == before
    assert foreign.left_behind() == []


def test_two_gates_at_once(refused):
    lock = refused.project.around / "lock"
    with locks.measuring(lock):
        refused(words=f"this machine is measuring already (process {os.getpid()}")


@pytest.mark.parametrize("place", ["RIGHTFAST_CACHE", "TMPDIR"])
def test_a_full_disk(foreign, place, tmp_path):
    """A file system of 64 KB, or where none may be mounted, a folder that takes no file."""
    foreign.start()
    (foreign.root / "new.bin").write_bytes(os.urandom(200_000))  # what is not committed goes there
    full = tmp_path / "full"
    full.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(full)]
    mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    if mounted:
        (full / "filler").write_bytes(b"x" * 60 * 1024)
    elif os.getuid() == 0:
        pytest.skip("root writes anywhere, and may mount nothing here")
    else:
        full.chmod(0o500)
    foreign.extra[place] = str(full)
    try:
        outcome = foreign.gate()
        left = [p.name for p in full.iterdir() if p.name not in ("filler", "sides")]
        halves = list(full.glob("sides/*/"))
    finally:
        full.chmod(0o700)
        if mounted:
            subprocess.run(["umount", str(full)], check=True)
    assert outcome.code == 15, outcome.said
    assert any(w in outcome.said for w in ("unable to write", "No space", "diskspace", "denied"))
    assert f"another folder in {place}" in outcome.said
    assert left == []
    assert halves == []


@pytest.mark.parametrize("option", ["--perf-json", "--perf-markdown"])
def test_a_report_that_cannot_be_written_is_refused_at_the_start(foreign, option):
    """Before anything else is looked at, as other options that make no sense."""
    foreign.start()
    outcome = foreign.gate("--perf-against=nowhere", f"{option}=/proc/nowhere/out.json")
    assert outcome.code == 4
    assert f"{option} names what cannot be written" in outcome.said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--perf-fail-on=slwoer"], "expected verdicts of"),
        (["--perf-min-effect=3"], "--perf-min-effect is no effect"),
        (["perf/test_none.py"], "perf/test_none.py is not there"),
        (["."], "must lie apart from the code"),
    ],
)
def test_options_that_make_no_sense(refused, options, words):
    refused(*options, words=words)


def test_xdist_is_refused(refused):
    pytest.importorskip("xdist")
    refused("-n2", words="the gate starts its own processes", code=4)


def test_configuration_that_makes_no_sense(foreign):
    foreign.edit("pyproject.toml", ("build-inputs", "build-outputs"))
    foreign.start()
    outcome = foreign.gate()
    assert outcome.code == 15
    assert "unknown key 'build-outputs'" in outcome.said


def test_the_command_line_is_the_same_gate(foreign):
    foreign.start()
    main = "import sys; from pytest_rightfast.cli import main; sys.exit(main())"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            main,
            "gate",
            "nowhere",
            "perf",
            "--json",
            "cli.json",
            "-k",
            "double",
        ],
        cwd=foreign.root,
        env=foreign.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 15
    assert "'nowhere'" in done.stdout
    assert (foreign.root / "cli.json").exists()


def test_collect_only_judges_nothing(foreign):
    foreign.start()
    foreign.put("perf/test_toy.py", "def test_nothing(perf):\n    pass\n")
    outcome = foreign.gate("--collect-only")
    assert outcome.code == 0
    assert "test_nothing" in outcome.said
    assert outcome.data is None
