"""`[tool.rightfast]` of the project's pyproject.toml: how it is built and how it is judged.

[tool.rightfast]
build = "{python} setup.py build_ext --inplace"   # run in each checkout; a list or a string
build-inputs = ["setup.py", "src/**/*.cpp"]       # what the build depends on; default: all
roots = ["src"]                                   # import roots; default: src, or the top
min-effect = "3%"                                 # smaller slowdowns pass
fail-on = ["slower", "wrong", "gone"]             # verdicts that fail; the default is sensible
budget = 300                                      # seconds for the whole gate
advisory = false                                  # report, never fail

[tool.rightfast.cases."*softmax*"]                # the last pattern that fits wins
min-effect = "10%"
accuracy-limit = 2.0                              # allowed growth of the error to float64
"""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .builds import Build
from .errors import PerfError
from .exits import DEFAULT_FAIL_ON, parse_fail_on
from .machine import version
from .verdicts import Verdict


class ConfigError(PerfError):
    """`[tool.rightfast]` holds something that is not known or not of its type."""


@dataclass(frozen=True)
class CaseConfig:
    """Overrides for the cases that a pattern fits; None keeps the general value."""

    min_effect: float | None = None
    accuracy_limit: float | None = None


@dataclass(frozen=True)
class Config:
    """Effects are fractions (0.03 is 3%), the budget is in seconds."""

    build: Build | None = None
    roots: tuple[str, ...] = ()
    min_effect: float = 0.03
    fail_on: frozenset[Verdict] = DEFAULT_FAIL_ON
    budget: float = 300.0
    advisory: bool = False
    cases: Mapping[str, CaseConfig] = field(default_factory=dict)

    def case(self, name: str) -> CaseConfig:
        found = CaseConfig()
        for pattern, one in self.cases.items():
            if fnmatch.fnmatchcase(name, pattern):
                found = one
        return found


def parse_effect(value: object, where: str) -> float:
    """`"3%"`, `3%` or 0.03, between 0 and 1."""
    try:
        text = str(value).strip()
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        number = -1.0
    if not 0 < number < 1:
        raise ConfigError(
            f"{where} is no effect",
            expected='"3%" or 0.03',
            got=repr(value),
            remedy="write a share above 0 and below 1",
        )
    return number


def load(root: Path) -> Config:
    """Read `[tool.rightfast]`; a project without it gets the defaults."""
    path = root / "pyproject.toml"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Config()
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {error}", remedy="mend the file") from error
    return parse(content.get("tool", {}).get("rightfast", {}), str(path))


def parse(table: Mapping[str, Any], path: str) -> Config:
    known = {
        "build": str | list,
        "build-inputs": list,
        "roots": list,
        "min-effect": str | float,
        "fail-on": list,
        "budget": int | float,
        "advisory": bool,
        "cases": dict,
    }
    _check(table, known, f"[tool.rightfast] in {path}")
    build = None
    if "build" in table:
        versions = {"torch": version("torch") or "none"}
        build = Build(table["build"], tuple(table.get("build-inputs", ())), versions)
    try:
        fail_on = parse_fail_on(",".join(table["fail-on"])) if "fail-on" in table else None
    except ValueError as error:
        raise ConfigError(f"[tool.rightfast] in {path}: {error}") from error
    return Config(
        build,
        tuple(table.get("roots", ())),
        parse_effect(table.get("min-effect", 0.03), "min-effect"),
        DEFAULT_FAIL_ON if fail_on is None else fail_on,
        float(table.get("budget", 300)),
        bool(table.get("advisory", False)),
        {pattern: _case(pattern, one, path) for pattern, one in table.get("cases", {}).items()},
    )


def _case(pattern: str, table: Any, path: str) -> CaseConfig:
    where = f'[tool.rightfast.cases."{pattern}"] in {path}'
    if not isinstance(table, dict):
        raise ConfigError(
            f"{where} is no table",
            expected="a table",
            got=repr(table),
            remedy='write [tool.rightfast.cases."pattern"] and its keys below',
        )
    _check(table, {"min-effect": str | float, "accuracy-limit": int | float}, where)
    effect = table.get("min-effect")
    return CaseConfig(
        None if effect is None else parse_effect(effect, where), table.get("accuracy-limit")
    )


def _check(table: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
    for key, value in table.items():
        if key not in known:
            raise ConfigError(
                f"{where}: unknown key {key!r}",
                expected=sorted(known),
                got=key,
                remedy="see Configuration in docs/gate.md",
            )
        if not isinstance(value, known[key]):
            raise ConfigError(
                f"{where}: {key}",
                expected=known[key],
                got=repr(value),
                remedy="see Configuration in docs/gate.md",
            )
