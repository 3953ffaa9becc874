"""The wire between the gate and one side's worker: frames on a socket pair of its own.

Never stdout: the code under test prints there. A frame is `RFW1`, the length of the body as four
bytes (big-endian), then the body (messages.py), at most 64 MiB.
"""

from __future__ import annotations

import math
import select
import socket
import struct
import time
from collections.abc import Callable

from pytest_rightfast.errors import PerfError
from pytest_rightfast.messages import VERSION, Message, ProtocolError, decode, encode

MAGIC = b"RFW%d" % VERSION
LIMIT = 64 * 2**20
_HEAD = struct.Struct(">4sI")


class ClosedError(ProtocolError):
    """The other end is gone."""


class SlowError(PerfError):
    """No whole message within the time allowed."""


class Channel:
    """Messages over one end of a socket pair."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        end.setblocking(True)

    @classmethod
    def from_fd(cls, fd: int) -> Channel:
        """The worker's end. Programs that the case starts do not inherit it."""
        end = socket.socket(fileno=fd)
        end.set_inheritable(False)
        return cls(end)

    def send(self, number: int, message: Message) -> None:
        """Raises ProtocolError (not strict JSON, too long) or ClosedError."""
        body = encode(number, message)
        if len(body) > LIMIT:
            raise ProtocolError(f"a message of {len(body)} bytes, the limit is {LIMIT}")
        try:
            self._end.sendall(_HEAD.pack(MAGIC, len(body)) + body)
        except OSError as error:
            raise ClosedError(f"the other end of the wire is gone: {error}") from error

    def receive(
        self, timeout: float | None = None, alive: Callable[[], bool] = lambda: True
    ) -> tuple[int, Message]:
        """The next message, within `timeout` seconds (None: no limit).

        `alive` is asked several times a second: a dead worker's own children may hold its end of
        the wire open, and then no end-of-file ever comes. Raises SlowError, ClosedError,
        ProtocolError.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        magic, length = _HEAD.unpack(self._exactly(_HEAD.size, deadline, alive))
        if magic != MAGIC:
            raise ProtocolError(
                f"expected {MAGIC!r}, got {magic!r}: another version, or a foreign writer"
            )
        if length > LIMIT:
            raise ProtocolError(f"a message of {length} bytes is announced, the limit is {LIMIT}")
        return decode(self._exactly(length, deadline, alive))

    def _exactly(self, count: int, deadline: float, alive: Callable[[], bool]) -> bytes:
        got = bytearray()
        while len(got) < count:
            living = alive()  # asked before looking: what it wrote before its death still counts
            wait = min(0.2, deadline - time.monotonic()) if living else 0.0
            if not select.select([self._end], [], [], max(0.0, wait))[0]:
                if not living:
                    raise ClosedError(f"it died after {len(got)} of {count} bytes")
                if time.monotonic() >= deadline:
                    raise SlowError(f"{len(got)} of {count} bytes came in the time allowed")
                continue
            try:
                part = self._end.recv(min(count - len(got), 2**20))
            except ConnectionError as error:
                raise ClosedError(f"the wire broke: {error}") from error
            if not part:
                raise ClosedError(f"the wire ended after {len(got)} of {count} bytes")
            got += part
        return bytes(got)

    def close(self) -> None:
        self._end.close()
