"""`rightfast plot FILE... -o FIG`: stored runs as a figure, without measuring again."""

from __future__ import annotations

import argparse
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import merge, results
from .errors import PerfError
from .report import add_selection, refuse_inputs
from .rows import Row

KINDS = ("bars", "scaling", "history")
FORMATS = (".png", ".svg")


def add_command(commands: Any) -> None:
    """The subcommand and its options."""
    parser = commands.add_parser("plot", help="draw files from --perf-json, as PNG or SVG")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FIG", required=True, help="a .png or .svg file"
    )
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default="bars",
        help="a bar a backend (default), time over size, or over commits",
    )
    add_selection(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Read all, draw, then write: what fails overwrites nothing."""
    if chosen.output.suffix not in FORMATS:
        raise PerfError(
            f"{chosen.output} is no kind of figure that is drawn",
            expected=f"a name that ends in {' or '.join(FORMATS)}",
            got=chosen.output.suffix or "no suffix",
            remedy="-o figure.svg",
        )
    refuse_inputs(chosen.output, chosen.files)
    rows = merge.selected(merge.merged(chosen.files), chosen.words)
    results.write_atomically(chosen.output, image(rows, chosen.kind, chosen.output.suffix))
    return 0


def image(rows: Sequence[Row], kind: str, suffix: str) -> bytes:
    """The figure's file. Raises PerfError without matplotlib, or if there is nothing to draw."""
    try:
        import matplotlib
    except ImportError as error:
        raise PerfError(
            f"plots need matplotlib: {error}",
            expected="matplotlib 3.8 or newer",
            remedy='pip install "rightfast[plots]"',
        ) from error
    from . import figures

    if not any(row.median for row in rows):
        raise PerfError(
            "there is nothing to draw",
            expected="rows with a time",
            got=f"{len(rows)} rows, all wrong or not timed",
            remedy="`rightfast report` on the same files says why",
        )
    # The same rows give the same file.
    settings: Any = {"svg.hashsalt": "rightfast", "font.size": 9.0}
    with matplotlib.rc_context(settings):
        figure = getattr(figures, kind)(rows)
        out = io.BytesIO()
        metadata = {"Date": None} if suffix == ".svg" else {}
        figure.savefig(out, format=suffix[1:], dpi=150, metadata=metadata)
    return out.getvalue()


SIZE = re.compile(r"\(?\b\d+(?:(?:x|, ?)\d+)*\b\)?")


def family(case: str) -> str:
    """A case's name with its size left out: cases that differ in nothing else are one line.

    `forward[litevae-haar-256x256]` -> `forward[litevae-haar-N]`
    """
    head, bracket, rest = case.partition("[")
    parts = ["N" if SIZE.fullmatch(part) else part for part in rest.removesuffix("]").split("-")]
    return f"{head}[{'-'.join(parts)}]" if bracket else case
