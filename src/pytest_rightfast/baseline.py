"""Saved runs in pytest-benchmark's storage: which one is compared with, and how one is made.

The baseline is a run that bears a name, `main` unless said otherwise. It is never just the last
run: a project that got 5% slower each day would pass every day.
"""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from .options import Options, usage
from .results import write_atomically

MAIN = "main"


def choose(config: pytest.Config, options: Options) -> Path | None:
    """The saved run that this one is asked to be compared with, or None.

    pytest-benchmark is told to print its comparison with the same one.
    """
    found, compared = _wanted(config, options), config.getoption("--benchmark-compare")
    if options.baseline is not None:
        if compared:
            raise usage(
                "--perf-baseline compares with the saved run of its name",
                expected="one of --perf-baseline and --benchmark-compare",
                got="both",
                remedy="drop one of them",
            )
        found = find(config, options.baseline) if options.timing else None
    if found is not None:
        own = found.parent == storage(config)
        config.option.benchmark_compare = found.stem if own else str(found)
    return found


def _wanted(config: pytest.Config, options: Options) -> Path | None:
    """What `--benchmark-compare` means by a path, by the name of a saved run, or by nothing."""
    compared = config.getoption("--benchmark-compare")
    location = str(config.getoption("--benchmark-storage"))
    local = "://" not in location or location.startswith("file://")
    if compared is True:
        return find(config, MAIN) if local else None
    if not isinstance(compared, str):
        return None
    if Path(compared).is_file():
        return Path(compared)
    return find(config, compared) if local and re.fullmatch(r"[\w.-]+", compared) else None


def storage(config: pytest.Config) -> Path:
    """The folder of this machine and Python in pytest-benchmark's file storage."""
    from pytest_benchmark.utils import get_machine_id

    location = str(config.getoption("--benchmark-storage"))
    if "://" in location and not location.startswith("file://"):
        raise usage(
            "a baseline needs a file storage",
            expected="--benchmark-storage=file://path",
            got=location,
            remedy="drop --benchmark-storage, or name a folder",
        )
    return Path(location.removeprefix("file://")) / str(get_machine_id())  # type: ignore[no-untyped-call]


def find(config: pytest.Config, name: str) -> Path | None:
    """The newest saved run of this name: of this very machine, of this kind, or of any other.

    One from elsewhere still decides answers and counters; its times decide nothing.
    """
    own, pattern = storage(config), re.compile(rf"\d{{4,}}_{re.escape(name)}\.json")
    found = [path for path in own.parent.glob("*/*.json") if pattern.fullmatch(path.name)]

    def rank(path: Path) -> tuple[bool, bool, int]:
        here = path.parent == own
        return here and _host(path) == socket.gethostname(), here, int(path.name.split("_")[0])

    return max(found, key=rank, default=None)


def _host(path: Path) -> str | None:
    """The machine that a saved run was made on, if it says so."""
    try:
        benchmarks = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
        found: str | None = benchmarks[0]["extra_info"]["environment"]["host"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return found


def left_out(config: pytest.Config, deselected: int) -> bool:
    """Whether this run is a part of the suite only: what it does not have says nothing then."""
    option = config.option
    files = [str(argument) for argument in config.args if not os.path.isdir(argument)]
    ignored = any("--ignore" in str(argument) for argument in config.invocation_params.args)
    chosen = bool(deselected or option.keyword or option.markexpr or ignored)
    return chosen or bool(files or getattr(option, "lf", False))


def make(config: pytest.Config, name: str, benchmarks: list[Any], partial: bool, ok: bool) -> str:
    """Save this run as the baseline if it is whole and nothing failed; says what was done."""
    if not ok or partial or not benchmarks:
        why = "a part of the suite ran (name the folder, deselect nothing)"
        return f"this run does not become the baseline {name!r}: {why if partial else 'it failed'}"
    return f"this run was saved as the baseline {name!r}: {write(config, name, benchmarks).name}"


def write(config: pytest.Config, name: str, benchmarks: list[Any]) -> Path:
    """Save a run in the form and place of `--benchmark-save=NAME`, in one step."""
    hook = config.hook
    machine_info = hook.pytest_benchmark_generate_machine_info(config=config)
    hook.pytest_benchmark_update_machine_info(config=config, machine_info=machine_info)
    commit = hook.pytest_benchmark_generate_commit_info(config=config)
    hook.pytest_benchmark_update_commit_info(config=config, commit_info=commit)
    content = hook.pytest_benchmark_generate_json(
        config=config,
        benchmarks=benchmarks,
        include_data=True,
        machine_info=machine_info,
        commit_info=commit,
    )
    hook.pytest_benchmark_update_json(config=config, benchmarks=benchmarks, output_json=content)
    folder = storage(config)
    numbers = [int(path.name[:4]) for path in folder.glob("[0-9][0-9][0-9][0-9]_*.json")]
    path = folder / f"{max(numbers, default=0) + 1:04}_{name}.json"
    write_atomically(path, json.dumps(content, default=repr, indent=1))
    return path
