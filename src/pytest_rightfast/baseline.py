"""The named baseline: a complete run in pytest-benchmark's storage that later runs compare with."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from .errors import ResultsError
from .options import usage
from .results import write_atomically


def storage(config: pytest.Config) -> Path:
    """The folder of this machine in pytest-benchmark's file storage."""
    from pytest_benchmark.utils import get_machine_id

    location = str(config.getoption("--benchmark-storage"))
    if "://" in location and not location.startswith("file://"):
        raise usage(
            "--perf-baseline needs a file storage",
            expected="--benchmark-storage=file://path",
            got=location,
            remedy="drop --benchmark-storage, or name a folder",
        )
    return Path(location.removeprefix("file://")) / str(get_machine_id())  # type: ignore[no-untyped-call]


def find(config: pytest.Config, name: str) -> Path | None:
    """The newest saved run of this name, made with this Python on this kind of machine."""
    pattern = re.compile(rf"\d{{4,}}_{re.escape(name)}\.json")
    found = [path for path in storage(config).glob("*.json") if pattern.fullmatch(path.name)]
    return max(found, key=lambda path: int(path.name.split("_")[0]), default=None)


def wanted(config: pytest.Config) -> Path | None:
    """The file that `--benchmark-compare` means by a path, or by the name a run was saved as."""
    compared = config.getoption("--benchmark-compare")
    if not isinstance(compared, str):
        return None
    if Path(compared).is_file():
        return Path(compared)
    location = str(config.getoption("--benchmark-storage"))
    local = "://" not in location or location.startswith("file://")
    return find(config, compared) if local and re.fullmatch(r"[\w.-]+", compared) else None


def medians(path: Path) -> dict[str, float]:
    """Median seconds by test id of a saved run."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {bench["fullname"]: bench["stats"]["median"] for bench in content["benchmarks"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultsError(
            f"cannot read the saved run {path}: {error!r}",
            expected="a file written by --benchmark-save or --perf-baseline",
            remedy="delete it; the next run makes a new one",
        ) from error


def write(config: pytest.Config, name: str, benchmarks: list[Any]) -> Path:
    """Save a run as the baseline, in the form and place of `--benchmark-save=NAME`."""
    hook = config.hook
    machine = hook.pytest_benchmark_generate_machine_info(config=config)
    hook.pytest_benchmark_update_machine_info(config=config, machine_info=machine)
    commit = hook.pytest_benchmark_generate_commit_info(config=config)
    hook.pytest_benchmark_update_commit_info(config=config, commit_info=commit)
    content = hook.pytest_benchmark_generate_json(
        config=config,
        benchmarks=benchmarks,
        include_data=True,
        machine_info=machine,
        commit_info=commit,
    )
    hook.pytest_benchmark_update_json(config=config, benchmarks=benchmarks, output_json=content)
    folder = storage(config)
    numbers = [int(path.name[:4]) for path in folder.glob("[0-9][0-9][0-9][0-9]_*.json")]
    path = folder / f"{max(numbers, default=0) + 1:04}_{name}.json"
    write_atomically(path, json.dumps(content, default=repr, indent=1))
    return path
