"""Signal extension modes: PyWavelets' names and numbers, and how a mode argument is read."""

import sys
import warnings
from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from rightfast_kernels.dwt.extension import MODES

# The names that PyWavelets has renamed and still takes, with a DeprecationWarning.
_OLD_NAMES = {
    "zpd": "zero",
    "cpd": "constant",
    "sym": "symmetric",
    "ppd": "periodic",
    "sp1": "smooth",
    "per": "periodization",
}


class Modes:
    """The signal extension modes, by name and by PyWavelets' number.

    ====================  ======================================
    zero                   0  0 | x1 x2 ... xn | 0  0
    constant              x1 x1 | x1 x2 ... xn | xn xn
    symmetric             x2 x1 | x1 x2 ... xn | xn xn-1
    reflect               x3 x2 | x1 x2 ... xn | xn-1 xn-2
    periodic              xn-1 xn | x1 x2 ... xn | x1 x2
    smooth                straight lines through the two samples at each edge
    antisymmetric         -x2 -x1 | x1 x2 ... xn | -xn -xn-1
    antireflect           2x1-x3 2x1-x2 | x1 x2 ... xn | 2xn-xn-1 2xn-xn-2
    periodization         periodic with the fewest coefficients: ceil(n / 2) in each band
    ====================  ======================================
    """

    zero = 0
    symmetric = 1
    constant = 2
    smooth = 3
    periodic = 4
    periodization = 5
    reflect = 6
    antisymmetric = 7
    antireflect = 8

    modes: ClassVar[list[str]] = list(MODES)

    @staticmethod
    def from_object(mode: Any) -> int:
        """The number of a mode given by name or number.

        Raises ValueError for an unknown mode, TypeError for neither a name nor a number.
        """
        return _NUMBERS[as_mode(mode)]


_NUMBERS: dict[str, int] = {name: getattr(Modes, name) for name in MODES}
_NAMES: dict[int, str] = {number: name for name, number in _NUMBERS.items()}


def warn(message: str, category: type[Warning]) -> None:
    """Warns at the line that called this package; not while torch.compile traces, which cannot."""
    if torch.compiler.is_compiling():
        return
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("rightfast."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def as_mode(mode: Any) -> str:
    """The name of a mode given by name, old name, or PyWavelets' number."""
    if isinstance(mode, str):
        if mode in _NUMBERS:
            return mode
        if mode in _OLD_NAMES:
            warn(
                f"{mode} has been renamed to {_OLD_NAMES[mode]}; use the new name",
                DeprecationWarning,
            )
            return _OLD_NAMES[mode]
        raise ValueError(f"Unknown mode name {mode!r}; expected one of {Modes.modes}.")
    if isinstance(mode, int):
        if mode in _NAMES:
            return _NAMES[mode]
        raise ValueError(f"Invalid mode {mode}; expected a number in 0..8 or a name: {Modes.modes}")
    raise TypeError(f"expected a mode name or number, got {type(mode).__name__}")


def modes_per_axis(mode: Any, count: int) -> list[str]:
    """One mode for each of ``count`` axes, from one for all or a sequence of them.

    Raises ValueError if the sequence is of another length, or for anything else.
    """
    if isinstance(mode, (str, int)):
        return [as_mode(mode)] * count
    if not isinstance(mode, Iterable):
        raise ValueError(f"modes must be a str, Mode or iterable, got {type(mode).__name__}")
    given = [as_mode(m) for m in mode]
    if len(given) == 1:
        return given * count
    if len(given) != count:
        raise ValueError(
            "The number of modes must match the number of axes to be transformed: "
            f"got {len(given)} modes for {count} axes."
        )
    return given
