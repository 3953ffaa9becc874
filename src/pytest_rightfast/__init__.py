"""A pytest plugin for performance cases that are verified before they are timed."""

from .adapt_asv import from_asv
from .adapt_table import from_table
from .case import RESERVED, Backend, Call, PerfCase, peer, subject
from .compile_counters import compiled
from .errors import CaseError, PerfError, ResultsError, StateError, Unsupported, WrongAnswer
from .schedules import Schedule, drawn, sizes, swaps, toggled
from .steps import CallLog, Step, act, call, put, swap
from .triton_aot import KernelSpec

__all__ = [
    "RESERVED",
    "Backend",
    "Call",
    "CallLog",
    "CaseError",
    "KernelSpec",
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
    "compiled",
    "drawn",
    "from_asv",
    "from_table",
    "peer",
    "put",
    "sizes",
    "subject",
    "swap",
    "swaps",
    "toggled",
]
