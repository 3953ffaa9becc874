"""Real processes, real editable installs (setuptools, no network)."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_rightfast import provenance, sides
from pytest_rightfast.provenance import ModuleFile

SRC = str(Path(sides.__file__).parents[1])
WORKER = """
import json, site, sys
sys.path.insert(0, {src!r})
for folder in {sites!r}:
    site.addsitedir(folder)
{before}
from pytest_rightfast import provenance, sides
layout = sides.Layout(**json.loads({layout!r}))
{enter}
seen = {{}}
for name in {imports!r}:
    try:
        __import__(name); seen[name] = "imported"
    except ModuleNotFoundError as error:
        seen[name] = str(error)
{after}
files = provenance.loaded(layout)
print(json.dumps([seen, [f.as_json() for f in files], provenance.foreign(files)]))
"""


def work(layout, imports, *, sites=(), enter=True, before="", after="", python=sys.executable):
    """Run a worker-like process; returns what was imported, the files, and the complaint."""
    code = WORKER.format(
        src=SRC,
        sites=[str(s) for s in sites],
        layout=json.dumps(layout.as_json()),
        imports=imports,
        enter="sides.enter(layout)" if enter else "",
        before=before,
        after=after,
    )
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [python, "-P", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=layout.own)
    assert done.returncode == 0, done.stderr
    seen, files, complaint = json.loads(done.stdout)
    return seen, [ModuleFile(**f) for f in files], complaint


def tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def make_two(kind, root):
    """A working tree (head, with one module and one package more) and base's checkout."""
    at = "src/" if kind == "src" else ""
    common = {f"{at}wavy/__init__.py": "", f"{at}wavy/core.py": "side = 'base'"}
    more = {f"{at}wavy/core.py": "side = 'head'", f"{at}wavy/extra.py": "", f"{at}tides.py": ""}
    where = f'[tool.setuptools.packages.find]\nwhere = ["{at or "."}"]\n'
    project = '[project]\nname = "wavy"\nversion = "1"\n[tool.setuptools]\npy-modules = ["tides"]\n'
    if at:
        project += 'package-dir = {"" = "src"}\n'
    base = tree(root / "cache/base", common)
    head = tree(root / "work", {**common, **more, "pyproject.toml": project + where})
    return base, head


@pytest.fixture(params=["src", "flat"])
def two(request, tmp_path):
    return make_two(request.param, tmp_path)


def layout_of(own, foreign, shared=()):
    roots, others = sides.find_roots(own), sides.find_roots(foreign)
    names = sorted(sides.top_level_names([*roots, *others]))
    return sides.Layout(str(own), roots, names, [str(foreign)], [str(s) for s in shared])


@pytest.fixture(scope="module", params=["src", "flat"])
def editable(request, tmp_path_factory):
    """Base, head, and site-packages with an editable install of head: a line of .pth for `src`,
    a finder when flat."""
    root = tmp_path_factory.mktemp(request.param)
    base, head = make_two(request.param, root)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation"]
    command += [
        "--no-deps",
        "--no-index",
        "--prefix",
        str(root / "prefix"),
        "--editable",
        str(head),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return base, head, next((root / "prefix").glob("lib/python*/site-packages"))


class TestEditableInstallOfHead:
    def test_without_care_head_wins_and_is_noticed(self, editable):
        base, head, site = editable
        _, files, complaint = work(layout_of(base, head), ["wavy.core"], sites=[site], enter=False)
        assert {f.origin for f in files} == {"foreign"}
        assert "wavy" in complaint
        assert str(head) in complaint

    def test_with_care_base_runs_its_own(self, editable):
        base, head, site = editable
        seen, files, complaint = work(layout_of(base, head), ["wavy.core"], sites=[site])
        assert seen == {"wavy.core": "imported"}
        assert complaint == ""
        assert {f.name for f in files if f.origin == "own"} >= {"wavy", "wavy.core"}

    def test_what_base_lacks_is_not_supplied_by_head(self, editable):
        base, head, site = editable
        layout = layout_of(base, head)
        seen, _, complaint = work(layout, ["tides", "wavy.extra"], sites=[site])
        assert "No module named 'tides' on this side" in seen["tides"]
        assert "No module named 'wavy.extra'" in seen["wavy.extra"]
        assert complaint == ""

    def test_head_itself_runs_from_its_own_checkout(self, editable, tmp_path):
        _, head, site = editable
        copy = tmp_path / "cache/head"
        shutil.copytree(head, copy)
        seen, files, complaint = work(layout_of(copy, head), ["tides", "wavy.extra"], sites=[site])
        assert set(seen.values()) == {"imported"}
        assert complaint == ""
        assert all(str(copy) in f.file for f in files)


FIRST = """
import importlib.util
class Redirecting:  # as scikit-build-core and meson-python put theirs: before all others
    def find_spec(self, name, path=None, target=None):
        if name == "wavy":
            return importlib.util.spec_from_file_location(
                name, {file!r}, submodule_search_locations=[{folder!r}])
sys.meta_path.insert(0, Redirecting())
"""


class TestOtherWaysIn:
    def code(self, head):
        folder = next(head.rglob("wavy"))
        return FIRST.format(file=str(folder / "__init__.py"), folder=str(folder))

    def test_a_finder_that_stands_first_is_overruled(self, two):
        base, head = two
        _, files, complaint = work(layout_of(base, head), ["wavy.core"], before=self.code(head))
        assert complaint == ""
        assert {f.origin for f in files} == {"own"}

    def test_a_finder_that_gets_in_later_is_noticed(self, two):
        base, head = two
        after = self.code(head) + "\nimport wavy"
        _, _, complaint = work(layout_of(base, head), [], after=after)
        assert "outside its own checkout" in complaint

    def test_a_plain_install_does_not_win(self, two, tmp_path):
        base, head = two
        site = tree(tmp_path / "site", {"wavy/__init__.py": "", "wavy/core.py": ""})
        _, _, complaint = work(layout_of(base, head), ["wavy.core"], sites=[site])
        assert complaint == ""

    def test_a_plain_install_that_won_is_noticed(self, two, tmp_path):
        base, head = two
        site = tree(tmp_path / "site", {"wavy/__init__.py": ""})
        layout = layout_of(base, head)
        _, _, complaint = work(layout, ["wavy"], sites=[site], enter=False)
        assert "wavy from" in complaint

    def test_the_users_working_tree_is_taken_off_the_path(self, two):
        base, head = two
        tree(head, {"vendor/helper.py": ""})
        before = f"sys.path.insert(0, {str(head / 'vendor')!r})"
        seen, _, _ = work(layout_of(base, head), ["helper"], before=before)
        assert seen["helper"] == "No module named 'helper'"

    def test_a_virtual_environment_inside_the_working_tree_stays(self, tmp_path, two):
        base, head = two
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", str(head / ".venv")], check=True
        )
        site = next((head / ".venv").glob("lib/python*/site-packages"))
        (site / "third.py").write_text("")
        (site / "ours.pth").write_text("\n".join(p for p in sys.path if "site-packages" in p))
        python = head / ".venv/bin/python"
        seen, files, complaint = work(layout_of(base, head), ["third", "wavy"], python=python)
        assert seen == {"third": "imported", "wavy": "imported"}
        assert complaint == ""
        assert "third" not in {f.name for f in files}

    def test_a_namespace_portion_of_the_working_tree(self, tmp_path):
        base = tree(tmp_path / "base", {"src/space/a.py": ""})
        head = tree(tmp_path / "head", {"src/space/a.py": "", "src/space/b.py": ""})
        layout = layout_of(base, head)
        before = f"sys.path.append({str(head / 'src')!r})"
        seen, _, complaint = work(layout, ["space.a", "space.b"], before=before)
        assert seen["space.a"] == "imported"
        assert "No module named 'space.b'" in seen["space.b"]
        assert complaint == ""
        _, _, complaint = work(layout, ["space.b"], before=before, enter=False)
        assert "space.b" in complaint

    def test_a_namespace_portion_that_comes_first_later(self, tmp_path):
        """As pytest's `pythonpath` puts the working tree's folders there."""
        base = tree(tmp_path / "base", {"src/space/a.py": "", "src/space/deep/c.py": ""})
        head = tree(tmp_path / "head", {"src/space/a.py": "", "src/space/b.py": ""})
        after = f"""
sys.path.insert(0, {str(head / "src")!r})
import space.a, space.deep.c
try:
    import space.b
except ModuleNotFoundError:
    seen["space.b"] = "not there"
"""
        seen, files, complaint = work(layout_of(base, head), [], after=after)
        assert seen == {"space.b": "not there"}
        assert complaint == ""
        assert {f.origin for f in files} == {"own"}

    def test_files_served_to_both_sides_are_shared(self, two):
        base, head = two
        perf = tree(head, {"perf/cases.py": ""}) / "perf"
        layout = layout_of(base, head, [perf])
        after = f"sys.path.append({str(perf)!r}); import cases"
        _, files, complaint = work(layout, [], after=after)
        assert [f.origin for f in files] == ["shared"]
        assert complaint == ""

    @pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs the map of a process")
    def test_a_library_loaded_by_path_is_noticed(self, tmp_path, two):
        base, head = two
        library = head / "libwavy.so"
        source = tree(tmp_path / "c", {"a.c": "int one(void) { return 1; }"}) / "a.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        after = f"import ctypes; ctypes.CDLL({str(library)!r})"
        _, files, complaint = work(layout_of(base, head), [], after=after)
        assert [f.name for f in files] == [".so"]
        assert "libwavy.so" in complaint


class TestNames:
    def test_packages_modules_extensions_and_namespaces(self, tmp_path):
        files = ("pack/__init__.py", "mod.py", "ext.cpython-311-x86_64-linux-gnu.so", "space/a.py")
        other = ("docs/a.md", "my-scripts/b.py", "data.json", "pytest_rightfast/__init__.py")
        root = tree(tmp_path, dict.fromkeys((*files, *other), ""))
        assert sides.top_level_names([str(root)]) == {"pack", "mod", "ext", "space"}

    def test_roots_stated_or_src_or_the_top(self, tmp_path):
        assert sides.find_roots(tmp_path) == [str(tmp_path)]
        (tmp_path / "src").mkdir()
        assert sides.find_roots(tmp_path) == [str(tmp_path / "src")]
        assert sides.find_roots(tmp_path, ["python"]) == [str(tmp_path / "python")]


class TestEnvironment:
    def test_caches_of_its_own_and_no_way_to_the_other_side(self, two, tmp_path):
        base, head = two
        paths = [str(head), str(tmp_path / "tools"), "relative"]
        given = {"PYTHONPATH": os.pathsep.join(paths), "TRITON_CACHE_DIR": "/shared", "KEPT": "1"}
        env = sides.environment(given, tmp_path / "b", layout_of(base, head), tmp_path / "cache")
        other = sides.environment(given, tmp_path / "h", layout_of(head, base), tmp_path / "cache")
        for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR"):
            assert Path(env[name]).is_dir()
            assert env[name] != other[name]
        assert env["PYTHONPATH"].split(os.pathsep) == [
            *sides.find_roots(base),
            paths[1],
            os.path.abspath("relative"),  # the worker's own folder is another
        ]
        assert env["KEPT"] == "1"
        assert env["GIT_CEILING_DIRECTORIES"] == str(tmp_path / "cache")


def test_a_clean_side_has_no_complaint():
    assert provenance.foreign([ModuleFile("a", "/x/a.py", "own")]) == ""


def test_many_strays_are_counted():
    strays = [ModuleFile(f"m{i}", f"/x/m{i}.py", "foreign") for i in range(5)]
    assert "and 2 more" in provenance.foreign(strays)
