"""A pytest plugin for performance cases that are verified before they are timed."""

from .case import RESERVED, Backend, Call, PerfCase, peer
from .errors import CaseError, PerfError, ResultsError, StateError, Unsupported, WrongAnswer
from .schedules import Schedule, drawn, sizes, swaps, toggled
from .steps import CallLog, Step, act, call, put, swap

__all__ = [
    "RESERVED",
    "Backend",
    "Call",
    "CallLog",
    "CaseError",
    "PerfCase",
    "PerfError",
    "ResultsError",
    "Schedule",
    "StateError",
    "Step",
    "Unsupported",
    "WrongAnswer",
    "act",
    "call",
    "drawn",
    "peer",
    "put",
    "sizes",
    "swap",
    "swaps",
    "toggled",
]
