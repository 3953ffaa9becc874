import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pytest_rightfast import checkouts, git
from pytest_rightfast.builds import Build, BuildError

MAKE = ["{python}", "make.py"]
# Counts its runs outside the checkout, reads its input, and writes its product in place.
SCRIPT = """
import os, pathlib, sys
with open(os.environ["RUNS"], "a") as file: file.write("x")
print("building", flush=True)
text = pathlib.Path("kernel.c").read_text()
if "bad" in text: sys.exit("kernel.c:1: error: bad")
pathlib.Path("pkg/out").mkdir(exist_ok=True)
pathlib.Path("pkg/out/kernel.so").write_text("compiled " + text)
pathlib.Path("pkg/version.py").write_text("built = True")
"""


@pytest.fixture
def project(repo, tmp_path, monkeypatch):
    monkeypatch.setenv("RUNS", str(tmp_path / "runs"))
    repo.put("make.py", SCRIPT)
    repo.put("kernel.c", "one")
    repo.put("pkg/__init__.py", "")
    repo.put("pkg/version.py", "built = False")
    repo.commit()
    return repo


def runs(tmp_path):
    file = tmp_path / "runs"
    return len(file.read_text()) if file.exists() else 0


def head(repo):
    return git.resolve(repo.root, "HEAD")


def leftovers(cache):
    return [p for p in cache.rglob("*") if "partial" in p.name]


class TestPrepare:
    def test_a_commit_is_checked_out_once(self, project, tmp_path):
        first = checkouts.prepare(head(project))
        second = checkouts.prepare(head(project))
        assert (first.fresh, second.fresh) == (True, False)
        assert first.root == second.root
        assert (first.root / "pkg/__init__.py").exists()
        assert first.root.is_relative_to(tmp_path / "cache")

    def test_the_users_repository_is_left_as_it_was(self, project):
        before = project.state()
        checkouts.prepare(head(project), Build(MAKE, ("kernel.c",)))
        assert project.state() == before

    def test_a_dirty_tree_gets_its_own_folder(self, project):
        clean = checkouts.prepare(head(project))
        project.put("pkg/new.py", "1")
        with git.working_tree(project.root) as source:
            dirty = checkouts.prepare(source)
        assert dirty.root != clean.root
        assert (dirty.root / "pkg/new.py").exists()
        assert not (clean.root / "pkg/new.py").exists()

    def test_the_aa_arm_gets_a_second_copy(self, project):
        roots = {checkouts.prepare(head(project), arm=arm).root for arm in ("", "again")}
        assert len(roots) == 2

    def test_a_half_made_side_is_made_anew(self, project):
        first = checkouts.prepare(head(project)).root
        (first.parent / "ready.json").unlink()
        (first / "pkg/__init__.py").unlink()
        again = checkouts.prepare(head(project))
        assert again.fresh
        assert again.root != first  # a compiler of the killed gate may still write there
        assert (again.root / "pkg/__init__.py").exists()

    def test_a_mark_that_is_not_whole_counts_for_nothing(self, project):
        side = checkouts.prepare(head(project)).root.parent
        (side / "ready.json").write_text('{"tree": ')
        assert checkouts.prepare(head(project)).fresh

    @pytest.mark.parametrize(
        "error",
        [OSError(28, "No space left on device"), git.FullError("error: unable to write file big")],
        ids=["ours", "gits"],  # git's words as seen on a full tmpfs
    )
    def test_a_full_disk_is_explained_and_leaves_nothing_half_made(
        self, project, monkeypatch, error
    ):
        def full(*_):
            raise error

        monkeypatch.setattr(git, "extract", full)
        with pytest.raises(checkouts.CacheError, match=r"(No space|unable).*free.*RIGHTFAST"):
            checkouts.prepare(head(project))
        assert not [p for p in (checkouts.cache_folder() / "sides").iterdir() if p.is_dir()]

    def test_an_interrupt_leaves_nothing_half_made(self, project, monkeypatch):
        def interrupt(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(git, "extract", interrupt)
        with pytest.raises(KeyboardInterrupt):
            checkouts.prepare(head(project))
        assert not [p for p in (checkouts.cache_folder() / "sides").iterdir() if p.is_dir()]

    def test_two_gates_make_a_side_once(self, project, tmp_path):
        source, found = head(project), []
        build = Build(MAKE, ("kernel.c",))
        threads = [
            threading.Thread(target=lambda: found.append(checkouts.prepare(source, build)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(c.fresh for c in found) == [False, False, False, True]
        assert runs(tmp_path) == 1

    def test_the_cache_folder_is_the_users_unless_named(self, monkeypatch):
        monkeypatch.delenv("RIGHTFAST_CACHE")
        assert checkouts.cache_folder().name == "rightfast"

    def test_prune_removes_what_is_old_or_half_made_only(self, project):
        old = checkouts.prepare(head(project), Build(MAKE, ("kernel.c",)))
        past = time.time() - 30 * 86400
        os.utime(old.root.parent / "ready.json", (past, past))
        project.put("pkg/new.py", "1")
        project.commit()
        new = checkouts.prepare(head(project))
        assert checkouts.prune(14) == [old.root.parent]
        assert new.root.exists()
        assert not old.root.exists()


class TestBuild:
    BUILD = Build(MAKE, ("kernel.c",))

    def test_built_in_place(self, project):
        side = checkouts.prepare(head(project), self.BUILD)
        assert side.built
        assert (side.root / "pkg/out/kernel.so").read_text() == "compiled one"
        assert "building" in side.log.read_text()

    def test_a_change_of_other_files_compiles_nothing(self, project, tmp_path):
        checkouts.prepare(head(project), self.BUILD)
        project.put("pkg/more.py", "1")
        project.commit()
        side = checkouts.prepare(head(project), self.BUILD)
        assert side.fresh
        assert not side.built
        assert runs(tmp_path) == 1
        assert (side.root / "pkg/out/kernel.so").read_text() == "compiled one"
        assert (side.root / "pkg/version.py").read_text() == "built = True"

    def test_a_changed_input_is_built_anew(self, project, tmp_path):
        checkouts.prepare(head(project), self.BUILD)
        project.put("kernel.c", "two")
        project.commit()
        side = checkouts.prepare(head(project), self.BUILD)
        assert (side.root / "pkg/out/kernel.so").read_text() == "compiled two"
        assert runs(tmp_path) == 2

    @pytest.mark.parametrize(
        "other",
        [Build([*MAKE, "--fast"], ("kernel.c",)), Build(MAKE, ("kernel.c",), {"torch": "9"})],
    )
    def test_another_command_or_version_is_built_anew(self, project, tmp_path, other):
        checkouts.prepare(head(project), self.BUILD)
        checkouts.prepare(head(project), other)
        assert runs(tmp_path) == 2

    def test_other_compiler_flags_are_built_anew(self, project, tmp_path, monkeypatch):
        checkouts.prepare(head(project), self.BUILD)
        monkeypatch.setenv("CFLAGS", "-O0")
        checkouts.prepare(head(project), self.BUILD)
        assert runs(tmp_path) == 2

    def test_no_stated_inputs_depend_on_every_file(self, project, tmp_path):
        checkouts.prepare(head(project), Build(MAKE))
        project.put("pkg/more.py", "1")
        project.commit()
        checkouts.prepare(head(project), Build(MAKE))
        assert runs(tmp_path) == 2

    def test_inputs_that_match_nothing_are_refused(self, project):
        with pytest.raises(BuildError, match=r"\['kernal.c'\] match no file"):
            checkouts.prepare(head(project), Build(MAKE, ("kernal.c",)))

    def test_a_failing_build_shows_its_end_and_is_not_kept(self, project, tmp_path):
        project.put("kernel.c", "bad")
        project.commit()
        for _ in range(2):
            with pytest.raises(BuildError, match=r"failed \(1\)(.|\n)*kernel.c:1: error") as caught:
                checkouts.prepare(head(project), self.BUILD)
        assert runs(tmp_path) == 2
        log = str(caught.value).split("log ")[1].split(";")[0]
        assert "building" in Path(log).read_text()
        cache = checkouts.cache_folder()
        assert not [p for p in cache.glob("builds/*") if p.is_dir()]
        assert not [p for p in cache.glob("sides/*") if p.is_dir()]

    def test_a_shell_line_with_placeholders(self, project):
        line = "echo {root} > where && {python} make.py"
        side = checkouts.prepare(head(project), Build(line, ("kernel.c",)))
        assert (side.root / "where").read_text().strip() == str(side.root)

    def test_a_command_that_is_not_there(self, project):
        with pytest.raises(BuildError, match="can't be started"):
            checkouts.prepare(head(project), Build(["no-such-compiler"], ("kernel.c",)))

    def test_an_empty_command_is_refused(self, project):
        with pytest.raises(BuildError, match="got an empty one"):
            checkouts.prepare(head(project), Build([], ("kernel.c",)))

    def test_a_build_that_hangs_is_ended_with_its_children(self, project, tmp_path):
        pid = tmp_path / "pid"
        line = f"sleep 60 & echo $! > {pid}; wait"
        with pytest.raises(BuildError, match=r"more than 0\.5 s"):
            checkouts.prepare(head(project), Build(line, ("kernel.c",), timeout=0.5))
        child = int(pid.read_text())
        for _ in range(50):
            if not _alive(child):
                break
            time.sleep(0.1)
        assert not _alive(child)

    def test_a_killed_build_is_not_taken_for_whole(self, project, tmp_path):
        """The gate is killed while it builds: the next one builds again."""
        project.put("make.py", SCRIPT.replace("print(", "import time; time.sleep(5)\nprint("))
        project.commit()
        code = (
            "from pathlib import Path; from pytest_rightfast import checkouts, git, builds\n"
            f"source = git.resolve(Path({str(project.root)!r}), 'HEAD')\n"
            "checkouts.prepare(source, builds.Build(['{python}', 'make.py'], ('kernel.c',)))\n"
        )
        gate = subprocess.Popen([sys.executable, "-c", code])
        while runs(tmp_path) == 0:
            time.sleep(0.05)
        gate.kill()
        gate.wait()
        sides = checkouts.cache_folder() / "sides"
        assert [p for p in sides.iterdir() if p.is_dir()]
        assert not list(sides.glob("*/ready.json"))
        project.put("make.py", SCRIPT)
        project.commit()
        assert checkouts.prepare(head(project), self.BUILD).built

    def test_the_build_sees_no_repository_and_no_path_of_the_users(self, project, monkeypatch):
        monkeypatch.setenv("PYTHONPATH", str(project.root))
        monkeypatch.setenv("RIGHTFAST_CACHE", str(project.root / ".cache"))
        line = "env > seen; git rev-parse --show-toplevel > top 2>&1; true"
        side = checkouts.prepare(head(project), Build(line, ("kernel.c",)))
        seen = (side.root / "seen").read_text()
        assert "PYTHONPATH" not in seen
        assert "SETUPTOOLS_SCM_PRETEND_VERSION=0.0.0" in seen
        assert "not a git repository" in (side.root / "top").read_text()


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
