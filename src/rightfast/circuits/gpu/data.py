"""Data as the kernels read it."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Data:
    """Data [batch, variables] as it is, and what is missing in it; on a GPU nobody waits to see
    whether it is right: a value that a variable does not have gives NaN."""

    x: Tensor
    missing: Tensor | None

    @property
    def batch(self) -> int:
        """Samples."""
        return len(self.x)
