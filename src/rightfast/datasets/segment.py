"""Memory that processes share and that has no name, so nothing is left behind however they end."""

import errno
import mmap
import os
import platform
import shutil
import threading
import weakref
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import DupFd
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rightfast.datasets.locks import Locks

FOLDER = "/dev/shm"


class Segment:
    """A file of a memory file system, opened without a name and mapped by every process.

    The system frees it with the last process that has it, be that killed. Pages are committed by
    `commit`, not before, and a lack of room is an error there, not a SIGBUS at a store. Children
    have it by fork, or by the pickle that multiprocessing sends them; others by a pickle, for as
    long as the process that made it has the segment.
    """

    _here: ClassVar[weakref.WeakValueDictionary[str, "Segment"]] = weakref.WeakValueDictionary()
    _guard = threading.RLock()

    def __init__(self, nbytes: int, folder: str | None = None) -> None:
        folder = folder or FOLDER
        try:
            flags = os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC
            fd = os.open(folder, flags, 0o600)
        except (OSError, AttributeError) as error:
            raise OSError(
                getattr(error, "errno", None) or errno.ENOTSUP,
                f"expected a memory file system (tmpfs) at {folder}, which Linux has, got: "
                f"{error}; mount one there",
            ) from None
        os.ftruncate(fd, max(1, nbytes))
        self._map(fd, folder)

    def _map(self, fd: int, folder: str) -> None:
        self.fd, self.folder, self.name = fd, folder, _name(os.fstat(fd))
        self._closes = weakref.finalize(self, os.close, fd)
        self._closes.atexit = False
        self.memory = mmap.mmap(fd, 0)
        self.locks = Locks(fd)
        Segment._here[self.name] = self

    def array(self, offset: int, count: int, dtype: Any) -> NDArray[Any]:
        """``count`` elements from byte ``offset`` on, which all processes see."""
        return np.frombuffer(self.memory, dtype, count, offset)

    def view(self, offset: int, count: int) -> memoryview:
        """`array` of int64 for single elements: quicker to read."""
        return memoryview(self.memory)[offset : offset + 8 * count].cast("q")

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

    def __reduce__(self) -> Any:
        # A child that is being started is given the descriptor, and needs nothing of us later.
        starting = get_spawning_popen() is not None
        sent = DupFd(self.fd) if starting else f"/proc/{os.getpid()}/fd/{self.fd}"
        return _attach, (self.name, sent, self.folder)


def _in_child() -> None:
    Segment._guard = threading.RLock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_in_child)


def _name(found: os.stat_result) -> str:
    return f"{found.st_dev}-{found.st_ino}"


def _attach(name: str, sent: Any, folder: str) -> Segment:
    with Segment._guard:
        known = Segment._here.get(name)
        if known is None:
            fd = _open(name, sent) if isinstance(sent, str) else sent.detach()
            known = Segment.__new__(Segment)
            known._map(fd, folder)
    return known


def _open(name: str, path: str) -> int:
    """Another process's file. Looked at before: to close one of ours would end our locks on it."""
    try:
        if _name(os.stat(path)) == name:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC)
        found = "another file"
    except OSError as error:
        found = str(error)
    raise ValueError(
        "expected shared memory of a process that runs and has not closed it, got "
        f"{found}; keep it open there, or make it here anew"
    )


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


# x86 keeps the order of loads, of stores, and of a store after a load, by itself (TSO), and that of
# a string instruction or a non-temporal loop of memcpy before what follows it.
_ORDERED = platform.machine() in ("x86_64", "AMD64")


def fence() -> None:
    """Loads and stores before this come before those after it, as all other processors see them.

    Elsewhere by two locks. What is before cannot move past the release of the first, nor what is
    after to before the acquire of the second, and these two keep their order: on aarch64 a
    load-acquire does not pass an earlier store-release (Arm ARM B2.3, "barrier-ordered-before"),
    be they exclusives or LSE atomics, and all stores are seen by all others at once. Both are new:
    of one that all share, a forked child would wait for ever if a thread of its parent held it.
    """
    if not _ORDERED:
        for lock in (threading.Lock(), threading.Lock()):
            with lock:
                pass
