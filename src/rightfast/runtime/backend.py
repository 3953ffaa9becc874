"""What a backend of `Graphs` has to do: capture a pass once, replay it any number of times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from torch import Tensor

T = TypeVar("T")


class NotRecordable(Exception):
    """Why a pass cannot be recorded.

    Attributes:
        kind: a word for the kind of reason; each kind is warned of once an object.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class NotRecorded(RuntimeWarning):
    """A pass that was to be recorded runs eagerly, with the right answer; the text says why."""


class Recording(Protocol):
    """Work that was captured, on the memory that it was captured with."""

    def replay(self) -> None:
        """Do the same work on the same memory again."""


class Backend(Protocol):
    """One way of recording work on a kind of device. `CudaGraphs` and `Tape` are two.

    Attributes:
        device: the type of device whose tensors it records, as in `torch.device.type`.
    """

    device: str

    def capturing(self) -> bool:
        """Whether the caller is recording on his own: nothing may be recorded or replayed then."""

    def settings(self) -> tuple[object, ...]:
        """Settings of torch that decide what a pass computes on this device; part of the key."""

    def refuses(self, tensors: Sequence[Tensor]) -> str | None:
        """Why work on these tensors cannot be recorded here, or None."""

    def order(self) -> None:
        """Called before work on memory that earlier calls worked on, maybe elsewhere."""

    def capture(
        self, body: Callable[[], T], known: Sequence[Tensor], fed: Sequence[Tensor]
    ) -> tuple[T, Recording]:
        """Call `body` so that its work is recorded and leaves no effect on any tensor.

        Args:
            body: the pass, its arguments bound.
            known: tensors whose memory outlives the recording: the pass may read and write it.
            fed: tensors that are overwritten before each replay: the pass may read them.

        Returns:
            What `body` returned, whose tensors have no meaning before the first replay, and the
            recording. It holds the memory that was made in the pass; the caller holds the rest.

        Raises:
            NotRecordable: `body` does what cannot be replayed: it waits for a value on the host,
                or uses memory that is not known.
        """
