"""Command line, ini and markers, frozen into one object that is passed down."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .errors import PerfError
from .heap import HEAPS


@dataclass(frozen=True)
class Options:
    """What this run was asked to do. Times are in seconds."""

    device: str = "cpu"
    threads: tuple[int, ...] = (1,)
    cpus: tuple[int, ...] | None = None
    json: Path | None = None
    baseline: str | None = None
    save_baseline: str | None = None
    timing: bool = True
    max_time: float = 1.0
    min_rounds: int = 5
    repeats: int = 1
    heap: str = "system"
    profile: bool = False
    trace: Path | None = None
    shard: tuple[int, int] | None = None
    resume: bool = False


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("rightfast", "performance cases, verified before they are timed")
    group.addoption(
        "--perf-device", default="cpu", metavar="DEVICE", help="cpu (default), cuda or cuda:1"
    )
    group.addoption(
        "--perf-threads",
        default="1",
        metavar="N[,N]",
        help="torch CPU threads; several numbers run each case once per number (default: 1)",
    )
    group.addoption(
        "--perf-cpus", metavar="LIST", help="pin the process to these CPUs, such as 0-3,8"
    )
    group.addoption(
        "--perf-json", metavar="FILE", type=Path, help="write all rows with their raw samples"
    )
    group.addoption(
        "--perf-baseline",
        metavar="NAME",
        help="compare with the saved run of this name; make it if there is none",
    )
    group.addoption(
        "--perf-save-baseline",
        metavar="NAME",
        help="this run becomes the baseline of that name, if it is whole and nothing fails",
    )

    group.addoption(
        "--perf-repeats",
        metavar="N",
        default="1",
        help="measure each case in N fresh processes, which take turns; the median of theirs",
    )
    group.addoption(
        "--perf-heap",
        choices=HEAPS,
        default="system",
        help="large blocks: as the system does, kept mapped (warm), or mapped anew (cold)",
    )
    group.addoption(
        "--perf-profile", action="store_true", help="time by operator, in a pass of its own"
    )
    group.addoption(
        "--perf-shard", metavar="I/N", help="only every Nth case, from the Ith on, as 2/8"
    )
    group.addoption(
        "--perf-resume",
        action="store_true",
        help="take the cases that --perf-json's file holds already from there",
    )
    group.addoption(
        "--perf-against", metavar="REV", help="the gate: compare with where HEAD left this revision"
    )
    group.addoption(
        "--perf-against-tip",
        action="store_true",
        help="compare with the revision itself, not with the merge base",
    )
    group.addoption(
        "--perf-budget", metavar="SECONDS", type=float, help="time for the whole gate (300)"
    )
    group.addoption(
        "--perf-min-effect", metavar="SHARE", help="slowdowns below this pass the gate (3%%)"
    )
    group.addoption(
        "--perf-fail-on",
        metavar="VERDICTS",
        help='verdicts that fail the gate, such as "slower,wrong,gone,undecided"',
    )
    group.addoption(
        "--perf-trace",
        metavar="DIR",
        type=Path,
        help="write a trace of each case; of the gate, of both sides of each slower case",
    )
    group.addoption(
        "--perf-advisory", action="store_true", help="the gate reports but does not fail"
    )
    group.addoption(
        "--perf-markdown", metavar="FILE", type=Path, help="write the gate's report as Markdown"
    )


def read_options(config: pytest.Config) -> Options:
    """Parse and check; a bad value is a usage error that names the option."""
    get = config.getoption
    return Options(
        device=_device(get("--perf-device")),
        threads=_threads(get("--perf-threads")),
        cpus=_cpus(get("--perf-cpus")),
        json=get("--perf-json"),
        baseline=_name(config, "--perf-baseline"),
        save_baseline=_name(config, "--perf-save-baseline"),
        timing=bool(get("--benchmark-enable")) or not get("--benchmark-disable"),
        max_time=float(get("--benchmark-max-time")),
        min_rounds=int(get("--benchmark-min-rounds")),
        repeats=_repeats(get("--perf-repeats")),
        heap=get("--perf-heap"),
        profile=get("--perf-profile"),
        trace=get("--perf-trace"),
        shard=_shard(get("--perf-shard")),
        resume=get("--perf-resume"),
    )


def usage(option: str, *, expected: str, got: object, remedy: str | None = None) -> Exception:
    """A `pytest.UsageError` in the house style."""
    return pytest.UsageError(str(PerfError(option, expected=expected, got=got, remedy=remedy)))


def find_device(name: str) -> Any:
    """The `torch.device` of that name, if torch finds it on this machine."""
    import torch

    try:
        device = torch.device(name)
        module = getattr(torch, device.type)
        there = device.type == "cpu" or module.is_available()
        there = there and (device.index or 0) < module.device_count()
    except (RuntimeError, AttributeError):
        there = False
    if not there:
        kind = torch.accelerator.current_accelerator()
        found = (
            [f"{kind.type}:{i}" for i in range(torch.accelerator.device_count())] if kind else []
        )
        raise usage(
            "--perf-device",
            expected=f"a device that torch finds on this machine: {', '.join(['cpu', *found])}",
            got=name,
            remedy="name one of these",
        )
    return device


def _device(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z_]*(:[0-9]{1,3})?", text) or text.startswith("cpu:"):
        raise usage(
            "--perf-device",
            expected="cpu, cuda or cuda:1",
            got=text,
            remedy="see --perf-device in docs/suite.md",
        )
    return text


def _name(config: pytest.Config, option: str) -> str | None:
    name: str | None = config.getoption(option)
    if name is None or re.fullmatch(r"[\w.-]+", name):
        return name
    remedy = "use letters, digits, dots, dashes and underscores"
    raise usage(option, expected="a name such as main", got=name, remedy=remedy)


def _threads(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(re.fullmatch(r"\s*0*[1-9][0-9]{0,3}\s*", part) for part in parts):
        raise usage("--perf-threads", expected="positive numbers such as 1 or 1,2", got=text)
    return tuple(dict.fromkeys(int(part) for part in parts))


def _repeats(text: str) -> int:
    if not re.fullmatch(r"0*[1-9][0-9]{0,2}", str(text)):
        raise usage("--perf-repeats", expected="a number of processes such as 5", got=text)
    return int(text)


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = re.fullmatch(r"0*([1-9][0-9]{0,3})/0*([1-9][0-9]{0,3})", text)
    if not found or int(found[1]) > int(found[2]):
        raise usage(
            "--perf-shard",
            expected="a part of a whole, from 1/8 to 8/8",
            got=text,
            remedy="count the parts from 1, and no further than there are parts",
        )
    return int(found[1]), int(found[2])


def _cpus(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    if not hasattr(os, "sched_getaffinity"):
        raise usage("--perf-cpus", expected="Linux", got=os.name, remedy="leave the option out")
    chosen: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not re.fullmatch(r"\s*[0-9]{1,6}(-[0-9]{1,6})?\s*", part):
            raise usage("--perf-cpus", expected="a list such as 0-3,8", got=text)
        chosen.update(range(int(first), int(last or first) + 1))
    there = os.sched_getaffinity(0)
    if not chosen or not chosen <= there:
        raise usage("--perf-cpus", expected=f"some of {sorted(there)}", got=text)
    return tuple(sorted(chosen))
