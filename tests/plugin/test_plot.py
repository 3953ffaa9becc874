"""Figures: every kind as PNG and SVG, what stands in them, and what cannot be drawn."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_rightfast import cli
from pytest_rightfast.plot import family
from pytest_rightfast.results import Row, save

pytest.importorskip("matplotlib")
KINDS = ("bars", "scaling", "history")


def rows(commit="a" * 40, when="2026-01-01", factor=1.0):
    found = []
    for size in (64, 4096, 2**20):
        for backend, slower in (("kernel", 1.0), ("torch", 3.0), ("bad", 0.0)):
            row = Row(f"t.py::test_a[{size}-{backend}]", f"t.py::test_a[{size}]", backend)
            row.moved_bytes, row.order = 8 * size, len(found)
            row.environment = {"commit": commit, "committed": when, "dirty": False}
            if slower:
                row.samples = [slower * factor * size * 1e-9 * n for n in (9, 10, 10, 11)]
            else:
                row.status, row.reason = "wrong", "no"
            found.append(row)
    return found


@pytest.fixture
def files(tmp_path):
    save(tmp_path / "new.json", rows("b" * 40, "2026-02-01", 0.5))
    save(tmp_path / "old.json", rows())
    return [str(tmp_path / "new.json"), str(tmp_path / "old.json")]


@pytest.mark.parametrize("suffix", ["png", "svg"])
@pytest.mark.parametrize("kind", KINDS)
def test_files(files, tmp_path, kind, suffix):
    figure = tmp_path / f"figure.{suffix}"
    assert cli.main(["plot", *files, "-o", str(figure), "--kind", kind]) == 0
    content = figure.read_bytes()
    assert content.startswith(b"\x89PNG" if suffix == "png" else b"<?xml")
    assert cli.main(["plot", *files, "-o", str(figure), "--kind", kind]) == 0
    assert figure.read_bytes() == content


@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_in_a_figure(kind):
    from pytest_rightfast import figures

    figure = getattr(figures, kind)([*rows(), *rows("b" * 40, "2026-02-01", 0.5)])
    figure.draw_without_rendering()
    axes = figure.axes
    words = {text.get_text() for text in figure.legends[0].get_texts()}
    assert any(word.startswith("kernel") for word in words)
    assert not any(word.startswith("bad") for word in words)
    assert "whiskers: middle half of the samples" in figure.legends[0].get_title().get_text()
    time = axes[0].xaxis if kind == "bars" else axes[0].yaxis
    assert time.get_scale() == "log"
    assert "time of one call" in time.get_label_text()
    ticks = [tick.get_text() for tick in time.get_ticklabels() + time.get_ticklabels(minor=True)]
    assert any(tick.endswith(("us", "ms", "ns")) for tick in ticks)
    # Nothing lies beyond the edge.
    box, page = figure.get_tightbbox(), figure.bbox_inches
    assert box.x0 >= -0.01
    assert box.y0 >= -0.01
    assert box.x1 <= page.width + 0.01
    assert box.y1 <= page.height + 0.01


def test_bars_say_who_has_none():
    from pytest_rightfast import figures

    figure = figures.bars(rows())
    said = [text.get_text() for text in figure.axes[0].texts]
    assert said.count("bad: wrong") == 3
    assert "640 ns" in said
    assert len(figure.axes[0].containers) == 12  # six bars, each with its whiskers


def test_commits_come_in_their_order_not_in_that_of_the_files():
    from pytest_rightfast import figures

    figure = figures.history([*rows("b" * 40, "2026-02-01", 0.5), *rows()])
    axis = figure.axes[0]
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["a" * 8, "b" * 8]
    times = list(axis.containers[0].lines[0].get_ydata())
    assert times[0] == pytest.approx(2 * times[1])


def test_no_empty_panels():
    from pytest_rightfast import figures

    four = [*rows(), *rows("b" * 40, "2026-02-01", 0.5)]
    four += [replace(row, id=row.id + "x", case=row.case + "x") for row in four[:3] + four[9:12]]
    figure = figures.history(four)
    assert len(figure.axes) == 6
    assert [axis.get_visible() for axis in figure.axes] == [True] * 4 + [False] * 2
    assert all(bool(axis.lines or axis.containers) for axis in figure.axes[:4])


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("w: forward[litevae-haar-256x256]", "w: forward[litevae-haar-N]"),
        ("w: forward[jpeg2000-bior2.2-16384]", "w: forward[jpeg2000-bior2.2-N]"),
        ("w: a[(64, 64)-x]", "w: a[N-x]"),
        ("w: a[64]", "w: a[N]"),
        ("w: plain", "w: plain"),
    ],
)
def test_families(case, name):
    assert family(case) == name


def refused(capsys, *words):
    assert cli.main(["plot", *map(str, words)]) == 2
    said = capsys.readouterr().err
    assert "expected:" in said
    assert "remedy:" in said
    return said


def test_what_cannot_be_drawn(files, tmp_path, capsys):
    figure = tmp_path / "figure.png"
    figure.write_bytes(b"before")
    new, _ = files
    assert "ends in .png or .svg" in refused(capsys, new, "-o", tmp_path / "figure.pdf")
    assert "at least two commits" in refused(capsys, new, "-o", figure, "--kind", "history")
    assert "at least two sizes" in refused(
        capsys, new, "-o", figure, "--kind", "scaling", "-k", "test_a[64-"
    )
    assert "nothing to draw" in refused(capsys, new, "-o", figure, "-k", "bad")
    many = tmp_path / "many.json"
    save(many, [Row(f"t.py::test_{n}", f"t.py::test_{n}", "b", samples=[1.0]) for n in range(151)])
    assert "choose cases with -k" in refused(capsys, many, "-o", figure)
    assert "is there twice" in refused(capsys, new, new, "-o", figure)
    assert figure.read_bytes() == b"before"


def test_without_matplotlib(files, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = refused(capsys, files[0], "-o", tmp_path / "figure.png")
    assert 'pip install "rightfast[plots]"' in said
    assert list(tmp_path.glob("*.png")) == []


def test_only_plots_import_matplotlib():
    source = Path(cli.__file__).parent
    holders = {
        path.name for path in source.glob("*.py") if "import matplotlib" in path.read_text()
    } | {path.name for path in source.glob("*.py") if "from matplotlib" in path.read_text()}
    assert holders == {"plot.py", "figures.py"}
