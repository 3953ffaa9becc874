"""Memory that processes share and that has no name, so nothing is left behind however they end."""

import errno
import mmap
import multiprocessing
import os
import platform
import shutil
import threading
import uuid
import weakref
from multiprocessing.reduction import DupFd
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from rightfast.datasets import forks

FOLDER = "/dev/shm"


class Segment:
    """A file of a memory file system, opened without a name and mapped by every process.

    The system frees it with the last process that has it, be that killed. Pages are committed by
    `commit`, not before, and a lack of room is an error there, not a SIGBUS at a store. Children
    have it by fork, or by the pickle that multiprocessing sends them.
    """

    _here: ClassVar[weakref.WeakValueDictionary[str, "Segment"]] = weakref.WeakValueDictionary()
    _guard = threading.RLock()

    def __init__(self, nbytes: int, folder: str | None = None) -> None:
        self.folder = folder or FOLDER
        try:
            flags = os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC
            fd = os.open(self.folder, flags, 0o600)
        except (OSError, AttributeError) as error:
            raise OSError(
                getattr(error, "errno", None) or errno.ENOTSUP,
                f"expected a memory file system (tmpfs) at {self.folder}, which Linux has, got: "
                f"{error}; mount one there",
            ) from None
        os.ftruncate(fd, max(1, nbytes))
        self._map(uuid.uuid4().hex, fd, nbytes)

    def _map(self, name: str, fd: int, nbytes: int) -> None:
        self.name, self.fd, self.nbytes = name, fd, nbytes
        self._closes = weakref.finalize(self, os.close, fd)
        self._closes.atexit = False
        self.memory = mmap.mmap(fd, max(1, nbytes))
        Segment._here[name] = self
        self.after_fork()
        forks.register(self)

    def after_fork(self) -> None:
        # Among threads: record locks are between processes. One lock for all who have the segment;
        # in a child a new one, as another thread of the parent may have held it.
        self.lock = threading.Lock()
        self.idle = threading.Condition(self.lock)  # no reader is left
        self.readers = 0  # threads that copy from the segment

    def array(self, offset: int, count: int, dtype: Any) -> NDArray[Any]:
        """``count`` elements from byte ``offset`` on, which all processes see."""
        return np.frombuffer(self.memory, dtype, count, offset)

    def view(self, offset: int, count: int, code: Literal["i", "q"]) -> memoryview:
        """`array` for single elements: quicker to read, of 4 bytes ("i") or 8 ("q")."""
        end = offset + (4 if code == "i" else 8) * count
        return memoryview(self.memory)[offset:end].cast(code)

    def commit(self, offset: int, nbytes: int) -> None:
        """Have the system set these bytes aside. Raises OSError (ENOSPC) where there is no room."""
        if not nbytes:
            return
        try:
            os.posix_fallocate(self.fd, offset, nbytes)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.ENOMEM):
                raise
            raise short_of_room(self.folder, nbytes) from None

    def discard(self, offset: int, nbytes: int) -> None:
        """Give these bytes back to the system; they read as zeros. Both at page boundaries."""
        if nbytes:
            self.memory.madvise(mmap.MADV_REMOVE, offset, nbytes)

    def __reduce__(self) -> Any:
        return _attach, (self.name, DupFd(self.fd), self.nbytes, self.folder)


def _in_child() -> None:
    Segment._guard = threading.RLock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_in_child)


def _attach(name: str, sent: Any, nbytes: int, folder: str) -> Segment:
    try:
        fd = sent.detach()
    except (OSError, EOFError, multiprocessing.AuthenticationError) as error:
        raise ValueError(
            "expected shared memory from a process that runs and whose child this one is, loaded "
            f"once, got {type(error).__name__}: it has no name by which others could find it; make "
            "it here anew, or send it through multiprocessing"
        ) from None
    with Segment._guard:
        known = Segment._here.get(name)
        if known is None:
            known = Segment.__new__(Segment)
            known.folder = folder
            known._map(name, fd, nbytes)
        else:
            with known.lock:  # closing any descriptor of a file drops the process's locks on it
                os.close(fd)
    return known


def check_room(folder: str, nbytes: int, remedy: str) -> None:
    """Raises OSError (ENOSPC) if a memory file system is short of ``nbytes``."""
    if nbytes > free_bytes(folder):
        raise short_of_room(folder, nbytes, remedy)


def free_bytes(folder: str) -> int:
    """Bytes that a file system has free."""
    return shutil.disk_usage(folder).free


def short_of_room(folder: str, nbytes: int, remedy: str = "") -> OSError:
    """The error that says what a memory file system holds."""
    usage = shutil.disk_usage(folder)
    held = []
    for entry in os.scandir(folder):
        if entry.is_file(follow_symlinks=False):
            held.append((entry.stat(follow_symlinks=False).st_size, entry.name))
    biggest = ", ".join(f"{name} ({readable(size)})" for size, name in sorted(held)[:-4:-1])
    return OSError(
        errno.ENOSPC,
        f"expected room for {readable(nbytes)} in {folder}, got {readable(usage.free)} free of "
        f"{readable(usage.total)}; {len(held)} files there with a name"
        + (f", the largest {biggest}" if biggest else "")
        + f", the rest is of processes that run; {remedy or 'take a smaller cache'}, remove what "
        "is left over there, or make it larger (docker run --shm-size, mount -o remount,size=)",
    )


def readable(nbytes: float) -> str:
    """Bytes with a binary unit: 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if nbytes < 1024:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1024
    return f"{nbytes:.4g} TiB"


# x86 keeps the order of stores, and of loads, by itself.
_ORDERED = platform.machine() in ("x86_64", "AMD64")


def fence() -> None:
    """Stores before this are seen by other processors before stores after it; loads likewise.

    By two locks: a release is not reordered with the acquire that follows it. Both are new: of one
    that all share, a forked child would wait for ever if a thread of its parent held it.
    """
    if not _ORDERED:
        for lock in (threading.Lock(), threading.Lock()):
            with lock:
                pass
