"""Cuts of the fused GPU kernels that are tried out on the transforms at hand."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from torch import Tensor

from rightfast.wavelets.gpu_cuts import Cut
from rightfast.wavelets.gpu_recipe import Tape

CUTS: dict[str, Cut | None] = {
    "usual": None,
    "plain": Cut(16),
    "two rows a round": Cut(32, batch=2),
    "two rows a round, looking ahead": Cut(32, batch=2, ahead=1),
    "looking ahead": Cut(32, ahead=2),
}
First = Callable[..., None]  # runs a transform on a tape, and on the tensors that it was given
_on = False


@contextmanager
def tuned() -> Iterator[None]:
    """Inside, the first transform of a kind on a GPU finds out how its kernels are best cut.

    A kind is the wavelet, mode, levels, shape and dtype. A few cuts are compiled (seconds each) and
    run on the tensors at hand; those that agree with the usual cut's result are timed, and one that
    is 10% faster serves this kind from then on, as `rightfast.runtime.best_of` decides;
    `rightfast.runtime.choices` lists what it has found. Transforms of which all levels are small,
    and those of Haar, have one cut.

        with wavelets.tuned():
            wavelets.wavedec2(x, "bior4.4", level=3)
    """
    from rightfast.wavelets import gpu

    global _on
    before, _on = _on, True
    gpu.forget()
    try:
        yield
    finally:
        _on = before


def best_cut(key: Hashable, given: Sequence[Tensor], inputs: int, first: First) -> Cut | None:
    """The cut for a transform that is seen for the first time; None: the usual one."""
    if not _on:
        return None
    from rightfast.runtime import best_of  # not at the start of every program

    ways = {name: partial(_run, first, cut, inputs) for name, cut in CUTS.items()}
    writes = range(inputs, len(given))
    chosen = best_of(ways, given, key=key, writes=writes)
    return next(cut for name, cut in CUTS.items() if ways[name] is chosen)


def _run(first: First, cut: Cut | None, inputs: int, *given: Tensor) -> Sequence[Tensor]:
    first(Tape(given, cut), *given)
    return given[inputs:]
