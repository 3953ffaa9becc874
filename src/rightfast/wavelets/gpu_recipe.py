"""What a transform on a GPU comes to, noted the first time: tensors to make, kernels to launch.

Working out grids and arguments takes longer on the host than small kernels take on the GPU. It
depends on nothing but the plan, and the shape, dtype and device of what comes in, so it is done
once: `Tape` runs and notes, a `Recipe` does the same again on other tensors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Launch = Callable[..., Any]
Step = tuple[Launch, tuple[int], tuple[int, ...], tuple[int, ...]]


@dataclass
class Recipe:
    """Launches in order. Tensors are numbered: those given first, then those that it makes."""

    made: list[tuple[tuple[int, ...], torch.dtype]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def run(self, given: list[Tensor]) -> None:
        """Again, on other tensors of the same shapes, dtypes and device."""
        tensors, device = given, given[0].device
        for shape, dtype in self.made:
            tensors.append(torch.empty(shape, dtype=dtype, device=device))
        for launch, grid, places, numbers in self.steps:
            launch(grid, *[tensors[place] for place in places], *numbers)


class Tape:
    """Runs a transform for the first time, on ``given``, and notes how: `recipe`."""

    def __init__(self, given: Sequence[Tensor]) -> None:
        self.tensors = list(given)
        # One tensor in two places may be two tensors the next time.
        alone = len({id(tensor) for tensor in given}) == len(given)
        self.recipe: Recipe | None = Recipe() if alone else None

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """A tensor for what lies between two launches."""
        found = self.tensors[0].new_empty(tuple(shape), dtype=dtype)
        self.tensors.append(found)
        if self.recipe:
            self.recipe.made.append((tuple(shape), dtype))
        return found

    def launch(
        self, launch: Launch, blocks: int, tensors: Sequence[Tensor], *numbers: int
    ) -> None:
        """A kernel that takes these tensors, then these numbers."""
        launch((blocks,), *tensors, *numbers)
        if self.recipe:
            places = tuple(self._place(tensor) for tensor in tensors)
            self.recipe.steps.append((launch, (blocks,), places, numbers))

    def other(self, tensor: Tensor) -> Tensor:
        """A tensor that was made in another way, which a recipe cannot do again."""
        self.recipe = None
        self.tensors.append(tensor)
        return tensor

    def _place(self, tensor: Tensor) -> int:
        return next(i for i, known in enumerate(self.tensors) if known is tensor)
