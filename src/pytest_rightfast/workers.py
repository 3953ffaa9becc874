"""Start one side's worker, talk to it, notice its death, and end it with all that it started."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from pytest_rightfast.errors import PerfError
from pytest_rightfast.messages import (
    VERSION,
    Bye,
    Done,
    Failed,
    Hello,
    Message,
    ProtocolError,
    Ready,
)
from pytest_rightfast.protocol import Channel, ClosedError, SlowError

# The plugin must be the gate's own on both sides, also where a side's tree holds another copy. -P
# keeps the working directory off sys.path; the folder itself is taken off again at once, since it
# may be site-packages and would then stand before the side's own code.
BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); import pytest_rightfast; del sys.path[0]; "
    "from pytest_rightfast.worker import main; sys.exit(main(int(sys.argv[2])))"
)
TAIL_BYTES = 4000
# torch's profiler announces itself at every start, whatever its log level.
NOISE = re.compile(r"USDT:[^\n]*profiler_(?:start|stop)\n?")


class WorkerError(PerfError):
    """A worker died, hung or spoke nonsense: its cases are not measured, and say why."""


Reply = TypeVar("Reply", bound=Message)


def boot_command(python: str = sys.executable) -> list[str]:
    """Command that starts a worker; `Worker` appends the number of its descriptor."""
    plugin = Path(__file__).resolve().parent.parent
    return [python, "-P", "-c", BOOT, str(plugin)]


class Worker:
    """One process. Use as a context manager: leaving it, also by Ctrl-C, leaves no process.

    `log` receives its stdout and stderr; a pipe would block a worker that prints much.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        environment: Mapping[str, str],
        log: Path,
        command: Sequence[str] | None = None,
    ) -> None:
        self.name, self.log, self._number = name, log, 0
        self._ended: str | None = None  # why, once it is
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        with theirs, log.open("wb") as sink:
            # A session of its own: Ctrl-C reaches the gate alone, which then ends the whole group.
            self._process = subprocess.Popen(
                [*(boot_command() if command is None else command), str(theirs.fileno())],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._ended is not None

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.kill()

    def hello(self, hello: Hello, timeout: float) -> Ready:
        """First exchange; refuses another version of the protocol."""
        ready = self.request(hello, Ready, timeout)
        if ready.version != VERSION:
            self.kill()
            raise WorkerError(
                f"{self.name}: expected protocol {VERSION}, got {ready.version}; "
                "both sides must run the same rightfast"
            )
        return ready

    def request(self, message: Message, expected: type[Reply], timeout: float) -> Reply:
        """Send and wait up to `timeout` seconds. Raises WorkerError; then the worker is ended.

        A reply `Failed` (the case's code raised) is raised as WorkerError too, but the worker
        lives on.
        """
        self._number += 1
        kind = type(message).__name__.lower()
        if self._ended is not None:
            raise WorkerError(
                f"{self.name}: {kind} asked of a worker that has ended: {self._ended}"
            )
        try:
            self._channel.send(self._number, message)
            number, reply = self._channel.receive(timeout, self._living)
        except SlowError as error:
            raise self._end(kind, f"no answer within {timeout:g} s ({error})") from error
        except ClosedError as error:
            raise self._end(kind, self._death(error)) from error
        except ProtocolError as error:
            raise self._end(kind, f"unreadable answer: {error}") from error
        if isinstance(reply, Failed) and number == self._number:
            raise WorkerError(f"{self.name}: {kind}: {reply.error}\n{reply.traceback}".rstrip())
        if number != self._number or not isinstance(reply, expected):
            got = f"number {number} {type(reply).__name__}"
            wanted = f"number {self._number} {expected.__name__}"
            raise self._end(kind, f"expected {wanted}, got {got}")
        return reply

    def _living(self) -> bool:
        return self._process.poll() is None

    def _death(self, error: ClosedError) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)
        code = self._process.returncode
        if code is None:
            return f"it closed the wire but runs on ({error})"
        if code < 0:
            with suppress(ValueError):
                return f"killed by {signal.Signals(-code).name} ({error})"
        return f"exited with {code} ({error})"

    def _end(self, kind: str, why: str) -> WorkerError:
        self.kill(why)
        said = self.tail()
        return WorkerError(f"{self.name}: {kind}: {why}" + (f"; it said:\n{said}" if said else ""))

    def tail(self) -> str:
        """The end of what it printed."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - TAIL_BYTES))
                return NOISE.sub("", file.read().decode(errors="replace")).strip()
        except OSError:
            return ""

    def close(self, timeout: float = 5.0) -> None:
        """Ask it to end, wait, then end it."""
        if self._ended is None:
            with suppress(WorkerError):
                self.request(Bye(), Done, timeout)
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(timeout)
        self.kill()

    def kill(self, why: str = "closed") -> None:
        """End the process and everything in its session's group (loader workers, compilers)."""
        if self._ended is not None:
            return  # once only: later, the group's number may be another's
        self._ended = why
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._channel.close()
