"""Named memory that a pass cuts to its shapes: the one place where circuits allocate for passes."""

import numpy as np
import torch
from torch import Tensor


class Buffers:
    """One backing storage per name, cut anew per shape and kept while large enough."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype, self.device = dtype, device
        self._storages: dict[str, Tensor] = {}

    def cut(self, name: str, *shape: int) -> Tensor:
        """Uninitialised memory of that shape."""
        size = int(np.prod(shape))
        found = self._storages.get(name)
        if found is None or found.numel() < size:
            found = self._storages[name] = torch.empty(size, dtype=self.dtype, device=self.device)
        return found[:size].view(shape)
