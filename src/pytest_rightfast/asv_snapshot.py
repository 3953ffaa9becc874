"""An asv environment without pip and network: a commit as the gate would measure it.

    // asv.conf.json
    "plugins": [".pytest_rightfast.asv_snapshot"],
    "environment_type": "snapshot",

The checkout and its build come from the gate's cache, made as `[tool.rightfast]` says; Python and
the installed packages are those that asv runs in.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from asv import util
from asv.console import log
from asv.environment import Environment, EnvironmentUnavailable

from . import builds, checkouts, config, git, sides
from .asv_side import CHECKOUT, TOP
from .errors import PerfError
from .machine import version


class Snapshot(Environment):  # type: ignore[misc]
    """A checkout of one commit at a time, built in place."""

    tool_name = "snapshot"

    def __init__(self, conf: Any, python: str, requirements: Any, variables: Any) -> None:
        here = ".".join(platform.python_version_tuple()[:2])
        if python not in (here, "same"):
            raise EnvironmentUnavailable(
                f"snapshot uses the Python that runs asv: expected {here} in `pythons`, "
                f"got {python}; leave it out, or use virtualenv"
            )
        if requirements:
            raise EnvironmentUnavailable(
                f"snapshot installs nothing: expected no requirements, got {dict(requirements)}; "
                "leave them out of `matrix`, or use virtualenv"
            )
        # Part of the environment's name: another torch starts a line of its own in the history.
        torch = version("torch")
        # asv's own constructor makes the name of these two.
        self._python, self._requirements = here, {"torch": torch} if torch else {}
        super().__init__(conf, here, self._requirements, variables)

    @classmethod
    def matches(cls, python: str) -> bool:
        return python == ".".join(platform.python_version_tuple()[:2])

    def check_presence(self) -> bool:
        return True

    def create(self) -> None:
        Path(self._path).mkdir(parents=True, exist_ok=True)

    def install_project(self, conf: Any, repo: Any, commit_hash: str) -> None:
        """Check the commit out and build it. A failed build is said, and asv skips the commit."""
        try:
            build = config.load(Path.cwd()).build
            source = git.resolve(Path(repo._path), commit_hash, merge_base=False)
            checkout = checkouts.prepare(source, build)
        except builds.BuildError as error:
            log.error(f"{commit_hash[:8]} cannot be built: {error}")
            raise util.ProcessError(["build", commit_hash], 1, "", str(error)) from error
        except PerfError as error:
            raise util.UserError(str(error)) from error
        known = {
            "commit": commit_hash,
            "checkout": str(checkout.root),
            "top": str(checkout.root / (conf.repo_subdir or "")),
            "build": _stated(build),
        }
        self.create()
        util.write_json(str(self._state), known)
        self._set_commit_hash(commit_hash)

    @property
    def _state(self) -> Path:
        return Path(self._path) / "snapshot.json"

    def _known(self) -> dict[str, str]:
        """On disk, because `asv run --parallel` builds in other processes."""
        try:
            known: dict[str, str] = json.loads(self._state.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        try:
            current = known.get("build") == _stated(config.load(Path.cwd()).build)
        except PerfError as error:
            raise util.UserError(str(error)) from error
        return known if current and Path(known.get("checkout", "")).is_dir() else {}

    def _get_installed_commit_hash(self) -> str | None:
        return self._known().get("commit")

    def run(self, args: list[str], **kwargs: Any) -> Any:
        known = self._known()
        if not known:
            raise util.UserError(f"{self.name}: no commit is checked out")
        env = dict(kwargs.pop("env", None) or os.environ)
        self._set_commit_hash(known["commit"])
        env |= self._global_env_vars
        env |= {CHECKOUT: known["checkout"], TOP: known["top"]}
        plugin = Path(__file__).resolve().parent.parent
        if not sides.is_installed(plugin):
            # For asv's own process, which drops PYTHONPATH; it imports nothing of the project.
            paths = [str(plugin), *filter(None, [env.get("ASV_PYTHONPATH")])]
            env["ASV_PYTHONPATH"] = os.pathsep.join(paths)
        if kwargs.get("timeout") is None:
            kwargs["timeout"] = self._install_timeout
        return util.check_output([sys.executable, *args], env=env, **kwargs)


def _stated(build: builds.Build | None) -> str:
    return builds.stated(build) if build else ""
