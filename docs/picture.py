"""The report in the README: the gate on docs/example and its change.diff, as text and as SVG.

    python docs/picture.py        # writes docs/gate.txt and docs/gate.svg
    COMMAND | python docs/picture.py -     # only draws what a command printed, as SVG

Standard library, git, and the gate itself.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
COMMAND = "rightfast gate main"
COLOURS = {
    "wrong": "#ff7b72",
    "slower": "#ff7b72",
    "costlier": "#ffa657",
    "failed": "#ff7b72",
    "same": "#7ee787",
    "faster": "#7ee787",
    "passed": "#7ee787",
}
WORD = re.compile(rf"\b({'|'.join(COLOURS)})\b", re.IGNORECASE)
WIDE, HIGH, EDGE = 7.83, 18, 16  # of a character at 13 px, of a line, of the margin
MOST = 118  # characters of a line


def main() -> None:
    if sys.argv[1:] == ["-"]:
        sys.stdout.write(draw(sys.stdin.read()))
        return
    text = f"$ {COMMAND}\n{report()}"
    (DOCS / "gate.txt").write_text(text, encoding="utf-8")
    (DOCS / "gate.svg").write_text(draw(text), encoding="utf-8")


def report() -> str:
    """What the gate says of the example's change, from its heading on."""
    with tempfile.TemporaryDirectory() as name:
        project = Path(name) / "fastops"
        shutil.copytree(DOCS / "example", project)
        for words in (
            ["init", "--quiet", "--initial-branch=main"],
            ["add", "--all"],
            ["-c", "user.name=a", "-c", "user.email=a@example.invalid", "commit", "-qm", "base"],
            ["apply", "change.diff"],
        ):
            subprocess.run(["git", *words], cwd=project, check=True)
        command = [sys.executable, "-m", "pytest_rightfast", *COMMAND.split()[1:]]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    _, heading, rest = done.stdout.partition("= rightfast gate =")
    if not heading:
        sys.exit(done.stdout + done.stderr)
    lines = rest.partition("\n")[2].splitlines()
    last = next(i for i, line in enumerate(lines) if re.match(r"(failed|passed)\b", line))
    return "\n".join(lines[: last + 1]) + "\n"


def draw(text: str) -> str:
    """The text as a terminal would show it."""
    lines = [part for line in text.rstrip().splitlines() for part in folded(line)]
    width = 2 * EDGE + WIDE * max(map(len, lines))
    height = 2 * EDGE + HIGH * len(lines)
    rows = (
        f'<text x="{EDGE}" y="{EDGE + HIGH * (i + 0.75):.1f}">{coloured(line)}</text>'
        for i, line in enumerate(lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13" fill="#e6edf3" '
        f'xml:space="preserve">\n<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n'
        + "\n".join(rows)
        + "\n</svg>\n"
    )


def folded(line: str) -> list[str]:
    """A long line in pieces, as a terminal breaks it, but at a space."""
    parts = []
    while len(line) > MOST:
        cut = line.rfind(" ", 40, MOST)
        cut = cut if cut > 0 else MOST
        parts.append(line[:cut])
        line = "      " + line[cut:].lstrip()
    return [*parts, line]


def coloured(line: str) -> str:
    def paint(match: re.Match[str]) -> str:
        return f'<tspan fill="{COLOURS[match[0].lower()]}">{match[0]}</tspan>'

    # SVG folds runs of spaces in most places where it is shown, whatever `xml:space` says.
    return WORD.sub(paint, html.escape(line.replace(" ", "\u00a0")))


if __name__ == "__main__":
    main()
