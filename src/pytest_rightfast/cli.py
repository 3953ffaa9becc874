"""The console command `rightfast`: what stored results say, the machine, and the gate."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import metadata

from . import machine_report, plot, report
from .errors import PerfError

# Options of `rightfast gate` -> those of pytest that they stand for.
VALUES = {
    "--budget": ("SECONDS", "--perf-budget", "time for the whole gate (300)"),
    "--min-effect": ("SHARE", "--perf-min-effect", "slowdowns below this pass (3%%)"),
    "--fail-on": ("VERDICTS", "--perf-fail-on", "verdicts that fail, comma-separated"),
    "--json": ("FILE", "--perf-json", "write everything as JSON"),
    "--markdown": ("FILE", "--perf-markdown", "write the report as Markdown"),
    "--junit": ("FILE", "--junitxml", "write the verdicts as JUnit XML"),
    "--trace": ("DIR", "--perf-trace", "keep a trace of both sides of each slower case"),
    "--device": ("DEVICE", "--perf-device", "cpu (default), cuda or cuda:1"),
    "--threads": ("N", "--perf-threads", "torch CPU threads (1)"),
    "--cpus": ("LIST", "--perf-cpus", "pin the processes to these CPUs"),
    "-k": ("EXPRESSION", "-k", "only cases whose names fit"),
    "-m": ("MARKERS", "-m", "only cases with these markers"),
}
FLAGS = {
    "--tip": ("--perf-against-tip", "compare with REV itself, not with the merge base"),
    "--advisory": ("--perf-advisory", "report, never fail"),
}
# Each adds its subcommand, with `run` as the default that serves it.
COMMANDS = (report, plot, machine_report)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    cut = words.index("--") if "--" in words else len(words)
    parser = _parser()
    chosen, more = parser.parse_known_args(words[:cut])
    if chosen.command == "gate":
        chosen.paths += [word for word in more if not word.startswith("-")]  # after an option
        more = [word for word in more if word.startswith("-")]
    if more:
        parser.error(f"unrecognized arguments: {' '.join(more)}; options of pytest follow after --")
    if chosen.command == "gate":
        return _gate(chosen, words[cut + 1 :])
    try:
        return int(chosen.run(chosen))
    except PerfError as error:
        print(f"rightfast: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rightfast", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for command in COMMANDS:
        command.add_command(commands)
    gate = commands.add_parser(
        "gate",
        help="compare the working tree with a revision, in pairs of fresh processes",
        epilog="Further options for pytest follow after `--`. Exit codes: see docs/gate.md.",
    )
    gate.add_argument("revision", metavar="REV", help="base: where HEAD left this revision")
    gate.add_argument("paths", nargs="*", metavar="PATH", help="perf cases (perf)")
    for name, (value, stands_for, text) in VALUES.items():
        gate.add_argument(name, metavar=value, dest=stands_for, help=text)
    for name, (stands_for, text) in FLAGS.items():
        gate.add_argument(name, action="store_true", dest=stands_for, help=text)
    return parser


def _gate(chosen: argparse.Namespace, rest: list[str]) -> int:
    """The gate is a mode of pytest; this spells its options. `rest` goes to pytest as it is."""
    import pytest

    given = vars(chosen)
    words = ["--perf-against", chosen.revision]
    for _, stands_for, _ in VALUES.values():
        if given[stands_for] is not None:
            words += [stands_for, given[stands_for]]
    words += [stands_for for stands_for, _ in FLAGS.values() if given[stands_for]]
    installed = metadata.entry_points(group="pytest11", name="rightfast")
    plugin = [] if installed else ["-p", "pytest_rightfast.plugin"]
    # This package is imported already, which filterwarnings = error would not forgive.
    plugin += ["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*plugin, *(chosen.paths or ["perf"]), *words, *rest]))
