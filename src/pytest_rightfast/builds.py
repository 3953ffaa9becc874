"""Run the project's stated build command in a checkout, once for each state of its stated inputs.

The build is in place (`setup.py build_ext --inplace`, `make`): what it adds or changes in the
checkout is kept, and copied into another checkout whose inputs are the same, so that a change of
Python files alone compiles nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_rightfast.errors import PerfError

TAIL_LINES = 30


class BuildError(PerfError):
    """The build command failed or is stated wrongly; the side can't be measured."""


@dataclass(frozen=True)
class Build:
    """`command`: a list, or a string for the shell; `{python}` is this interpreter, `{root}` the
    checkout. `inputs`: glob patterns from the checkout's top; empty means every file. `versions`:
    what the product depends on beside them (torch, compiler). `timeout` in seconds.
    """

    command: str | Sequence[str]
    inputs: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 3600.0


def key(build: Build, checkout: Path) -> str:
    """Hash of all that the product depends on: what `stated` says, and the inputs' content."""
    digest = hashlib.sha256(stated(build).encode())
    for path in _inputs(build, checkout):
        name = path.relative_to(checkout).as_posix()
        content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
        digest.update(json.dumps([name, len(content), os.access(path, os.X_OK)]).encode())
        digest.update(content)
    return digest.hexdigest()


def stated(build: Build) -> str:
    """Command, interpreter, flags and versions, as one text: all but the inputs' content."""
    known = {
        "command": build.command if isinstance(build.command, str) else list(build.command),
        "python": [sys.version, sys.executable, sysconfig.get_config_var("SOABI") or ""],
        "machine": sysconfig.get_platform(),
        "flags": {k: os.environ.get(k, "") for k in ("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS")},
        "inputs": list(build.inputs),
        "versions": dict(build.versions),
    }
    return json.dumps(known, sort_keys=True)


def _inputs(build: Build, checkout: Path) -> list[Path]:
    found: set[Path] = set()
    for pattern in build.inputs or ("**/*",):
        try:
            matched = {p for p in checkout.glob(pattern) if p.is_file() or p.is_symlink()}
        except (ValueError, NotImplementedError) as error:
            raise BuildError(
                f"build inputs: expected a pattern below the project, got {pattern!r}: {error}"
            ) from error
        found |= matched
    if not found:
        # A typing error would else make one key for every commit: the first product serves all.
        raise BuildError(
            f"build inputs {list(build.inputs)} match no file of {checkout}; state what the "
            "build reads, or leave inputs out to depend on every file"
        )
    return sorted(found)


def run(build: Build, checkout: Path, cached: Path, log: Path, env: Mapping[str, str]) -> bool:
    """Put the build's product into `checkout`; False where it was copied from `cached`.

    `cached` is this key's folder in the cache; the caller holds its lock. It exists whole or not
    at all. Raises BuildError with the end of the log.
    """
    if cached.is_dir():
        shutil.copytree(cached, checkout, symlinks=True, dirs_exist_ok=True)
        os.utime(cached)  # for `checkouts.prune`
        return False
    before = _states(checkout)
    _execute(build, checkout, log, env)
    after = _states(checkout)
    made = [name for name, state in after.items() if before.get(name) != state]
    partial = cached.with_name(cached.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        for name in made:
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(checkout / name, partial / name, follow_symlinks=False)
        partial.rename(cached)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return True


def _states(checkout: Path) -> dict[str, tuple[int, int, int]]:
    """Size, time and inode of every file but byte code: what tells a file that was written."""
    found = {}
    for folder, _, files in os.walk(checkout):
        if os.path.basename(folder) == "__pycache__":
            continue
        for file in files:
            path = os.path.join(folder, file)
            stat = os.lstat(path)
            found[os.path.relpath(path, checkout)] = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
    return found


def _execute(build: Build, checkout: Path, log: Path, env: Mapping[str, str]) -> None:
    words = {"{python}": sys.executable, "{root}": str(checkout)}
    command: str | list[str]
    if isinstance(build.command, str):
        command = build.command
        for word, value in words.items():
            command = command.replace(word, shlex.quote(value))
        shown = command
    else:
        command = [_filled(part, words) for part in build.command]
        shown = shlex.join(command)
    if not command or not shown.strip():
        raise BuildError("build command: expected a command, got an empty one; leave it out")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as sink:
        sink.write(f"$ {shown}\n".encode())
        sink.flush()
        try:
            code = _wait(command, checkout, sink.fileno(), env, build.timeout)
        except OSError as error:
            raise BuildError(f"the build `{shown}` can't be started: {error}") from error
        except subprocess.TimeoutExpired as error:
            raise BuildError(
                f"the build `{shown}` took more than {build.timeout:g} s in {checkout}; log {log}"
            ) from error
    if code:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        raise BuildError(
            f"the build `{shown}` failed ({code}) in {checkout}; log {log}; it ended:\n"
            + "\n".join(_telling(lines))
        )


def _telling(lines: Sequence[str]) -> list[str]:
    """The end of the log, and before it the first error: the later ones mostly follow from it."""
    cut = len(lines) - TAIL_LINES
    first = next((i for i, line in enumerate(lines[:cut]) if "error" in line.lower()), None)
    if cut <= 0 or first is None:
        return list(lines[-TAIL_LINES:])
    return [*lines[first : min(first + 3, cut)], "...", *lines[cut:]]


def _filled(part: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        part = part.replace(word, value)
    return part


def _wait(
    command: str | list[str], folder: Path, sink: int, env: Mapping[str, str], timeout: float
) -> int:
    process = subprocess.Popen(
        command,
        shell=isinstance(command, str),
        cwd=folder,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=sink,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return process.wait(timeout)
    except BaseException:  # Ctrl-C too: compilers must not run on
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
