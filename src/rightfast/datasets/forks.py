"""What a child has to forget when a process forks."""

import os
import weakref
from typing import Protocol


class Forgets(Protocol):
    def after_fork(self) -> None:
        """Called in the child, where the thread that forked is the only one."""


process = os.getpid()  # without a system call
_known: "weakref.WeakSet[Forgets]" = weakref.WeakSet()


def register(thing: Forgets) -> None:
    """``thing.after_fork()`` runs in every child that is forked while ``thing`` lives."""
    _known.add(thing)


def _in_child() -> None:
    global process
    process = os.getpid()
    for thing in list(_known):
        thing.after_fork()


os.register_at_fork(after_in_child=_in_child)
