"""A small runtime for anybody's kernels: recorded passes that cannot replay the wrong thing.

`Graphs` records a pass and replays it, `Buffers` is the scratch memory that goes with it;
`CudaGraphs` records on a GPU, `Tape` on the CPU, for tests. See docs/runtime.md.
"""

from rightfast.runtime.backend import Backend, NotRecordable, NotRecorded, Recording
from rightfast.runtime.buffers import Buffers
from rightfast.runtime.cuda import CudaGraphs
from rightfast.runtime.graphs import Graphs
from rightfast.runtime.tape import Tape
from rightfast.runtime.watch import opaque

__all__ = [
    "Backend",
    "Buffers",
    "CudaGraphs",
    "Graphs",
    "NotRecordable",
    "NotRecorded",
    "Recording",
    "Tape",
    "opaque",
]
