import os
import time

import pytest

from pytest_rightfast import git


@pytest.fixture
def forked(repo):
    """main moved on after the branch left it: base is where it left."""
    repo.put("a.py", "1\n")
    start = repo.commit("start")
    repo.git("checkout", "--quiet", "-b", "feature")
    repo.put("a.py", "2\n")
    head = repo.commit("feature")
    repo.git("checkout", "--quiet", "main")
    repo.put("b.py", "1\n")
    tip = repo.commit("main moves on")
    repo.git("checkout", "--quiet", "feature")
    return repo, start, head, tip


class TestResolve:
    def test_the_merge_base_by_default_not_the_tip(self, forked):
        repo, start, _, tip = forked
        assert git.resolve(repo.root, "main").commit == start
        assert git.resolve(repo.root, "main", merge_base=False).commit == tip

    def test_tags_and_short_hashes(self, forked):
        repo, start, _, _ = forked
        repo.git("tag", "--annotate", "--message", "x", "v1", start)
        assert git.resolve(repo.root, "v1").commit == start
        assert git.resolve(repo.root, start[:8]).commit == start

    def test_an_unknown_revision_is_named(self, forked):
        with pytest.raises(git.GitError, match=r"got 'mian', which git does not know; `git branch"):
            git.resolve(forked[0].root, "mian")

    def test_a_repository_without_a_commit_says_so(self, repo):
        with pytest.raises(git.GitError, match="no commit yet"):
            git.resolve(repo.root, "main")

    def test_an_option_is_no_revision(self, forked):
        with pytest.raises(git.GitError, match="expected a revision, got '--all'"):
            git.resolve(forked[0].root, "--all")

    def test_no_common_ancestor(self, forked):
        repo = forked[0]
        repo.git("checkout", "--quiet", "--orphan", "island")
        repo.commit("alone")
        with pytest.raises(git.GitError, match="no common ancestor"):
            git.resolve(repo.root, "main")

    def test_no_commit_yet(self, repo, forked):
        repo.git("checkout", "--quiet", "--orphan", "empty")
        with pytest.raises(git.GitError, match="expected a commit at HEAD"):
            git.resolve(repo.root, "main")

    def test_variables_that_a_hook_sets_do_not_lead_elsewhere(self, forked, monkeypatch, tmp_path):
        repo, start, _, _ = forked
        monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
        monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
        assert git.resolve(repo.root, "main").commit == start


class TestShallow:
    @pytest.fixture
    def shallow(self, forked, tmp_path):
        repo, _, _, _ = forked
        clone = tmp_path / "clone"
        origin = f"file://{repo.root}"
        repo.git("clone", "--quiet", "--depth=1", "--no-single-branch", origin, str(clone))
        return clone

    def test_without_merge_base_the_error_names_the_fetch(self, shallow):
        with pytest.raises(git.GitError, match=r"`git fetch --unshallow`.*--deepen=100"):
            git.resolve(shallow, "origin/main")

    def test_an_unknown_revision_in_a_shallow_clone_names_the_fetch(self, shallow):
        with pytest.raises(git.GitError, match=r"shallow: `git fetch --unshallow origin`"):
            git.resolve(shallow, "v9")

    def test_the_named_command_works(self, shallow, repo, forked):
        repo.git("fetch", "--quiet", "--unshallow", cwd=shallow)
        assert git.resolve(shallow, "origin/main").commit == forked[1]


class TestTroubles:
    def test_not_a_repository(self, tmp_path):
        (tmp_path / "plain").mkdir()
        with pytest.raises(git.GitError, match=r"plain: expected a git working tree, got none"):
            git.toplevel(tmp_path / "plain")

    def test_git_missing(self, repo, monkeypatch):
        monkeypatch.setenv("PATH", "")
        with pytest.raises(git.GitError, match="expected `git` on PATH"):
            git.toplevel(repo.root)

    def test_folder_missing(self, tmp_path):
        with pytest.raises(git.GitError, match="nowhere: expected a git working tree"):
            git.toplevel(tmp_path / "nowhere")

    def test_a_failing_command_carries_gits_words(self, repo):
        with pytest.raises(git.GitError, match=r"`git cat-file -p nonsense` failed"):
            git.run(repo.root, "cat-file", "-p", "nonsense")


class TestWorkingTree:
    def extracted(self, repo, tmp_path):
        folder = tmp_path / "out"
        folder.mkdir()
        with git.working_tree(repo.root) as source:
            git.extract(source, folder)
        return source, folder

    def test_a_clean_tree_is_the_commits(self, forked):
        repo, _, head, _ = forked
        with git.working_tree(repo.root) as source:
            assert not source.dirty
            assert source.commit == head
            assert source.tree == repo.git("rev-parse", "HEAD^{tree}")

    def test_results_of_runs_are_no_change(self, forked):
        repo, _, _, _ = forked
        repo.put(".benchmarks/Linux/0001_main.json", "{}")
        repo.put("deep/.rightfast/last.json", "{}")
        with git.working_tree(repo.root) as source:
            assert not source.dirty
        repo.put("benchmarks/case.py", "")
        with git.working_tree(repo.root) as source:
            assert source.dirty

    def test_tracked_staged_and_untracked_but_not_ignored_nor_deleted(self, repo, tmp_path):
        repo.put(".gitignore", "*.log\n")
        for name in ("kept", "changed", "removed"):
            repo.put(f"{name}.py", "old\n")
        repo.commit()
        repo.put("changed.py", "new\n")
        repo.put("staged.py", "staged\n")
        repo.git("add", "staged.py")
        repo.put("deep/untracked.py", "untracked\n")
        repo.put("ignored.log", "noise\n")
        (repo.root / "removed.py").unlink()
        source, folder = self.extracted(repo, tmp_path)
        assert source.dirty
        names = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
        expected = [".gitignore", "changed.py", "deep/untracked.py", "kept.py", "staged.py"]
        assert names == expected
        assert (folder / "changed.py").read_text() == "new\n"

    def test_the_users_repository_is_left_as_it_was(self, repo, tmp_path):
        repo.put("a.py", "1\n")
        repo.commit()
        repo.put("a.py", "2\n")
        repo.put("b.py", "new\n")
        before = repo.state()
        self.extracted(repo, tmp_path)
        assert repo.state() == before

    def test_an_edit_in_the_second_of_the_commit_is_seen(self, repo):
        then = time.time_ns() - 10**10
        file = repo.put("b.py", "1\n")
        os.utime(file, ns=(then, then))
        repo.commit()
        repo.put("b.py", "2\n")
        for path in (file, repo.root / ".git/index"):
            os.utime(path, ns=(then, then))
        with git.working_tree(repo.root) as source:
            assert source.dirty

    def test_run_from_a_subfolder_it_still_takes_the_whole_tree(self, repo, tmp_path):
        repo.put("sub/a.py", "1\n")
        repo.put("b.py", "1\n")
        repo.commit()
        repo.put("b.py", "2\n")
        with git.working_tree(git.toplevel(repo.root / "sub")) as source:
            assert source.dirty


class TestExtract:
    def test_export_ignore_drops_nothing(self, repo, tmp_path):
        repo.put(".gitattributes", "perf export-ignore\n")
        repo.put("perf/test_a.py", "1\n")
        repo.commit()
        git.extract(git.resolve(repo.root, "HEAD"), tmp_path)
        assert (tmp_path / "perf/test_a.py").exists()

    def test_modes_links_and_odd_names(self, repo, tmp_path):
        repo.put("run.sh", "#!/bin/sh\n").chmod(0o755)
        (repo.root / "link").symlink_to("run.sh")
        repo.put("a name\twith\u00e4.py", "1\n")
        repo.commit()
        out = tmp_path / "out"
        out.mkdir()
        git.extract(git.resolve(repo.root, "HEAD"), out)
        assert (out / "run.sh").stat().st_mode & 0o111
        assert (out / "link").is_symlink()
        assert (out / "a name\twith\u00e4.py").exists()

    def test_a_sparse_checkout_of_the_user_does_not_thin_it(self, repo, tmp_path):
        repo.put("in/a.py", "1\n")
        repo.put("out/b.py", "1\n")
        repo.commit()
        repo.git("sparse-checkout", "set", "in")
        assert not (repo.root / "out").exists()
        target = tmp_path / "target"
        target.mkdir()
        git.extract(git.resolve(repo.root, "HEAD"), target)
        assert (target / "out/b.py").exists()

    def test_submodules_are_named(self, repo, make_repo, tmp_path):
        inner = make_repo(tmp_path / "inner")
        inner.put("x.py", "1\n")
        inner.commit()
        repo.put("a.py", "1\n")
        repo.git("-c", "protocol.file.allow=always", "submodule", "add", str(inner.root), "vendor")
        repo.commit()
        assert git.submodules(git.resolve(repo.root, "HEAD")) == ("vendor",)
