"""Workspaces: the buffers of a pass, and their views.

A workspace belongs to one pass at a time: `Pool.take` hands one out, and it comes back when the
pass's state is dropped. So a result that is still held is never overwritten, and a loop that drops
its results allocates nothing.
"""

import torch
from torch import Tensor

from rightfast.circuits.binding import Bound, bind
from rightfast.circuits.plan import ONE, ZERO, Plan
from rightfast.runtime import Buffers

SPARE = 2  # workspaces kept for the next passes
SIZES = 32  # batch sizes whose views a workspace keeps


class Workspace:
    """Buffers for one pass at a time, and their views for each batch size.

    The views have addresses of the buffers, so these drop them (`clear`) before a storage moves.
    """

    def __init__(self, plan: Plan, dtype: torch.dtype, device: torch.device) -> None:
        self.plan, self.dtype, self.device = plan, dtype, device
        self._buffers = Buffers(zeroed=False)
        self._buffers.attach(self)
        self._bound: dict[tuple[int, bool], Bound] = {}
        self._last: tuple[int, bool] | None = None

    def bind(self, batch: int, keep: bool) -> Bound:
        """Views for a batch size; ``keep``: for a backward pass too."""
        key = (batch, keep)
        found = self._bound.pop(key, None)
        if found is None:
            found = bind(self.plan, self._cut, batch, keep)
        self._bound[key] = found
        if key != self._last:  # another batch size has been written over them
            found.n[ONE], found.n[ZERO] = 0.0, -torch.inf
            self._last = key
        if len(self._bound) > SIZES:
            del self._bound[next(iter(self._bound))]
        return found

    def _cut(self, name: str, *shape: int) -> Tensor:
        return self._buffers.get(name, shape, self.dtype, self.device)

    def __len__(self) -> int:
        return len(self._bound)

    def clear(self) -> None:
        """Forgets the views, not the buffers."""
        self._bound.clear()


class Pool:
    """Workspaces of one circuit that no pass uses at the moment."""

    def __init__(self, plan: Plan, dtype: torch.dtype, device: torch.device) -> None:
        self.plan, self.dtype, self.device = plan, dtype, device
        self._free: list[Workspace] = []
        self.guard, self.careful = False, False
        """Whether the last pass found numbers that are slow, or sums too small for the fast way:
        what the next pass starts with. No result depends on it."""

    def take(self) -> Workspace:
        """One that no other pass has."""
        return self._free.pop() if self._free else Workspace(self.plan, self.dtype, self.device)

    def give_back(self, workspace: Workspace) -> None:
        """For the next pass."""
        if len(self._free) < SPARE:
            self._free.append(workspace)
