"""One pass on one layout, recorded on memory of its own and replayed: what `recorded` is made of.

`rightfast.runtime.Graphs` checks more at a call than a small transform takes, and copies every
result. A pass here depends on nothing but the shapes, the dtype and the device of what it is given,
by which `recorded` finds it, so only the runtime's backends are used.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from sys import getrefcount
from typing import Any

import torch
from torch import Tensor

from rightfast.runtime import Backend, NotRecordable
from rightfast.wavelets.layout import Layout

# How many recordings of a pass lend their results until nobody holds them any more. In
# `y = f(x)` the last result is held while the next one is computed, so it takes two.
LENDERS = 2
# A pass that was bound to so many places copies what comes from others.
MOST_PLACES = 8
_use_count: Callable[[int], int] | None = getattr(torch._C, "_storage_Use_Count", None)
Place = tuple[int, ...] | None
Work = Callable[[Sequence[Tensor], Sequence[Tensor]], None]


class Side:
    """What comes in or goes out: tensors of these shapes, or one that has them in a row."""

    def __init__(self, shapes: Sequence[torch.Size], packed: bool) -> None:
        self.packed, self._row = packed, Layout("wavedec", tuple(shapes), 1)

    def make(self, like: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """New memory: as it is given, and its bands."""
        with torch.inference_mode(False):  # which may end before this does
            flat = like.new_empty(sum(self._row.sizes))
            bands = self._row.views(flat)
        return ([flat] if self.packed else bands), bands

    def bands(self, given: Sequence[Tensor]) -> list[Tensor]:
        """The bands of what is given."""
        return self._row.views(given[0]) if self.packed else list(given)

    def joined(self, bands: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """What is given for these bands."""
        if not self.packed:
            return tuple(bands)
        return (torch.cat([band.reshape(-1) for band in bands]),)


class Slot:
    """One recording and its results."""

    recording: Any

    def __init__(self, outputs: Side, like: Tensor, lends: bool) -> None:
        self.results, self.bands = outputs.make(like)
        self._lends = lends
        self._storage = self.bands[0].untyped_storage()
        self._number, self._address = self._storage._cdata, self._storage.data_ptr()
        self._own = _use_count(self._number) if _use_count else 0
        self._handles = getrefcount(self._storage)

    def free(self) -> bool:
        """Whether nobody holds a tensor on its memory (no caller, no backward pass to come), nor
        has given that memory back."""
        return not self._lends or (
            _use_count(self._number) == self._own  # type: ignore[misc]
            and getrefcount(self._storage) == self._handles  # `untyped_storage()` of a caller
            and self._storage.data_ptr() == self._address
        )

    def hand_out(self) -> tuple[Tensor, ...]:
        """The results as tensors of their own; of copies, unless they are lent."""
        if self._lends:
            return tuple(map(Tensor.detach, self.results))
        whole = self.results[0].new_empty(0)
        with torch.no_grad():
            whole.set_(self._storage.clone())  # type: ignore[no-untyped-call]
        return tuple(
            whole.as_strided(x.shape, x.stride(), x.storage_offset()) for x in self.results
        )


class Pass:
    """``work(bands given, bands to fill)``, recorded and replayed.

    With ``bound``, what is given is read where it is, by recordings that hold its addresses, not
    its memory: each replay serves a call with live tensors there. Else it is copied. ``lock`` is
    that of all passes of a transform, which puts their streams in order.
    """

    def __init__(
        self,
        backend: Backend,
        lock: AbstractContextManager[Any],
        work: Work,
        inputs: Side,
        outputs: Side,
        bound: bool,
    ) -> None:
        self._backend, self._lock, self._work, self._bound = backend, lock, work, bound
        self._inputs, self._outputs = inputs, outputs
        self._copied: tuple[list[Tensor], list[Tensor]] | None = None
        self._slots: dict[Place, list[Slot]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._slots.values()))

    def __call__(self, given: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The results for what is given, which has the shapes, dtype and device of this pass.

        Raises NotRecordable; the pass is of no use then.
        """
        with self._lock:
            place = self._place(given) if self._bound else None
            for slot in self._slots.get(place, ()):
                if slot.free():
                    break
            else:
                slot = self._recorded(place, given)
            self._backend.order()
            if place is None:
                self._feed(given)
            slot.recording.replay()
            return slot.hand_out()

    def _place(self, given: Sequence[Tensor]) -> Place:
        """The addresses to read from; None: it must be copied."""
        place = tuple(map(Tensor.data_ptr, given))
        if place not in self._slots and len(self._slots) >= MOST_PLACES:
            return None
        as_read = all(map(Tensor.is_contiguous, given)) and not (
            any(map(Tensor.is_neg, given)) or any(map(Tensor.is_conj, given))
        )
        return place if as_read else None

    def _feed(self, given: Sequence[Tensor]) -> None:
        assert self._copied is not None
        if len(given) == 1:
            self._copied[0][0].copy_(given[0])
        else:
            torch._foreach_copy_(self._copied[0], list(given))

    def _recorded(self, place: Place, given: Sequence[Tensor]) -> Slot:
        try:
            with torch.inference_mode(False), torch.no_grad():
                return self._record(place, given)
        except NotRecordable:
            raise
        except Exception as error:  # whatever is wrong with the work comes up without a recording
            raise NotRecordable("capture", repr(error)) from error

    def _record(self, place: Place, given: Sequence[Tensor]) -> Slot:
        """Works once for real, which compiles the kernels, then once more to be captured."""
        slots = self._slots.setdefault(place, [])
        slot = Slot(self._outputs, given[0], _use_count is not None and len(slots) < LENDERS)
        self._backend.order()
        known, fed = list(slot.results), list[Tensor]()
        if place is not None:
            known += given
            bands = self._inputs.bands(given)
        else:
            self._copied = self._copied or self._inputs.make(given[0])
            fed, bands = self._copied
            self._feed(given)
        self._work(bands, slot.bands)
        _, slot.recording = self._backend.capture(lambda: self._work(bands, slot.bands), known, fed)
        slots.append(slot)
        return slot
