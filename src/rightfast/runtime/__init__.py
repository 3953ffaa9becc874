"""A small runtime for anybody's kernels: recorded passes that cannot replay the wrong thing.

`Graphs` records a pass and replays it, `Buffers` is the scratch memory that goes with it;
`CudaGraphs` records on a GPU, `Tape` on the CPU, for tests. `best_of` picks the fastest of several
ways that agree, `launchable` launches a Triton kernel at little cost. See docs/runtime.md.
"""

from rightfast.runtime.backend import Backend, NotRecordable, NotRecorded, Recording
from rightfast.runtime.buffers import Buffers
from rightfast.runtime.choice import Choice
from rightfast.runtime.cuda import CudaGraphs
from rightfast.runtime.graphs import Graphs
from rightfast.runtime.launcher import Launch, cdiv, launchable
from rightfast.runtime.tape import Tape
from rightfast.runtime.tuner import (
    best_of,
    capturing,
    choices,
    export_choices,
    forget_choices,
    pin_choices,
)
from rightfast.runtime.watch import opaque

__all__ = [
    "Backend",
    "Buffers",
    "Choice",
    "CudaGraphs",
    "Graphs",
    "Launch",
    "NotRecordable",
    "NotRecorded",
    "Recording",
    "Tape",
    "best_of",
    "capturing",
    "cdiv",
    "choices",
    "export_choices",
    "forget_choices",
    "launchable",
    "opaque",
    "pin_choices",
]
