"""The runtime under the libraries, for anybody's kernels: a tuner and a launcher.

Importing it imports neither torch nor Triton.
"""

from .choice import Choice
from .launcher import Launch, cdiv, launchable
from .tuner import (
    also_capturing,
    best_of,
    capturing,
    choices,
    export_choices,
    forget_choices,
    pin_choices,
)

__all__ = [
    "Choice",
    "Launch",
    "also_capturing",
    "best_of",
    "capturing",
    "cdiv",
    "choices",
    "export_choices",
    "forget_choices",
    "launchable",
    "pin_choices",
]
