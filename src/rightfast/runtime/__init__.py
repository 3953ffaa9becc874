"""The runtime under the libraries, for anybody's kernels: a tuner and a launcher."""

from rightfast.runtime.choice import Choice
from rightfast.runtime.launcher import Launch, cdiv, launchable
from rightfast.runtime.tuner import (
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
