"""What a transform on a GPU comes to, noted the first time: tensors to make, kernels to launch.

Working out grids and arguments takes longer on the host than small kernels take on the GPU. It
depends on nothing but the plan, and the shape, dtype and device of what comes in, so it is done
once: `Tape` runs and notes, a `Recipe` does the same again on other tensors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import torch
from rightfast_kernels.dwt import native
from torch import Tensor

from rightfast.wavelets.gpu_cuts import Cut

LINE = 32  # numbers, float32, in a line of memory
Launch = Callable[..., Any]
# A launch, its grid, what takes its tensors from among all, and its numbers.
Step = tuple[Launch, tuple[int], Callable[[Sequence[Any]], tuple[Any, ...]], tuple[int, ...]]


@dataclass
class Recipe:
    """Launches in order. Tensors are numbered: none at all, those given, those that it makes.

    Attributes:
        made: shape and dtype of what lies between two launches.
        steps: what is launched.
        sizes: the shapes of the results, the last tensors given, and of what is made, in a row, if
            one call can make them all; ``count`` of them are results.
    """

    made: list[tuple[tuple[int, ...], torch.dtype]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    count: int = 0

    def together(self, given: Sequence[Tensor], inputs: int) -> None:
        """Makes results that nobody gave along with the rest, if all are of one kind."""
        if all(dtype == given[0].dtype for _, dtype in self.made):
            shapes = [*(x.shape for x in given[inputs:]), *(shape for shape, _ in self.made)]
            self.count = len(given) - inputs
            self.sizes = [n for shape in shapes for n in shape]

    def results(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The results for other inputs of the same shapes, dtypes and device."""
        like = inputs[0]
        if like.requires_grad:
            like = like.detach()  # else torch notes a derivative
        one = len(self.sizes) == like.ndim
        made = (
            [like.new_empty(self.sizes)] if one else native.empty_many(like, self.sizes, like.ndim)
        )
        self._launch([None, *inputs, *made])
        return made[: self.count]

    def run(self, given: Sequence[Tensor]) -> None:
        """The same where the results are given."""
        device = given[0].device
        made = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in self.made]
        self._launch([None, *given, *made])

    def _launch(self, tensors: Sequence[Tensor | None]) -> None:
        for launch, grid, take, numbers in self.steps:
            launch(grid, *take(tensors), *numbers)


class Tape:
    """Runs a transform for the first time, on ``given``, and notes how: `recipe`."""

    def __init__(self, given: Sequence[Tensor], cut: Cut | None = None) -> None:
        self.cut = cut  # of the kernels over two axes; None: the usual one
        self.tensors: list[Tensor | None] = [None, *given]
        # One tensor in two places may be two tensors the next time.
        self.views: list[tuple[Tensor, int]] = []
        alone = len({id(tensor) for tensor in given}) == len(given)
        self.recipe: Recipe | None = Recipe() if alone else None

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """A tensor for what lies between two launches."""
        like = self.tensors[1]
        assert like is not None
        found = like.new_empty(tuple(shape), dtype=dtype)
        self.tensors.append(found)
        if self.recipe:
            self.recipe.made.append((tuple(shape), dtype))
        return found

    def padded(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """The same, whose rows begin where lines of memory do."""
        whole = self.empty((*shape[:-1], -(-shape[-1] // LINE) * LINE), dtype)
        return self.seen_as(whole[..., : shape[-1]], whole)

    def launch(
        self, launch: Launch, blocks: int, tensors: Sequence[Tensor | None], *numbers: int
    ) -> None:
        """A kernel that takes these tensors, then these numbers."""
        launch((blocks,), *tensors, *numbers)
        if self.recipe:
            places = [self._place(tensor) for tensor in tensors]
            self.recipe.steps.append((launch, (blocks,), itemgetter(*places), numbers))

    def seen_as(self, view: Tensor, tensor: Tensor) -> Tensor:
        """``view``, which stands for a whole tensor of another shape."""
        self.views.append((view, self._place(tensor)))
        return view

    def _place(self, tensor: Tensor | None) -> int:
        for view, place in self.views:
            if view is tensor:
                return place
        return next(i for i, known in enumerate(self.tensors) if known is tensor)
