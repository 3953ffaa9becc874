"""File descriptors that are opened where they are used, and that no child inherits."""

import contextlib
import os
import threading
from typing import Any

from rightfast.datasets import forks

LIMIT = 32  # files that a dataset keeps open


class Descriptors:
    """The open files of one dataset in one process, opened on first use.

    A forked child closes what it inherited, and opens its own. A pickle has none.
    """

    def __init__(self) -> None:
        self._open: dict[str, int] = {}
        self._lock = threading.Lock()
        forks.register(self)

    def get(self, path: str) -> int:
        fd = self._open.get(path)
        if fd is None:
            with self._lock:
                if path not in self._open:
                    self._open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                fd = self._open[path]
        return fd

    def after_fork(self) -> None:
        self._lock = threading.Lock()  # another thread of the parent may have held it
        self._close()

    def _close(self) -> None:
        while self._open:
            with contextlib.suppress(OSError):
                os.close(self._open.popitem()[1])

    def __del__(self) -> None:
        self._close()

    def __reduce__(self) -> Any:
        return Descriptors, ()
