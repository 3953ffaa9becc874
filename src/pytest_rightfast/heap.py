"""How malloc treats large blocks, the same for all backends of a run: `--perf-heap`.

With glibc, a block above a threshold is mapped anew at each call and unmapped when it is freed, and
freed memory at the top of the heap is given back: each call then takes a page fault for every page
that it writes, which can cost more than the work. The threshold moves with what was freed before,
so the order of the cases decides which backend pays (seen: 3 to 5 times).

    system  as it is
    warm    nothing is mapped or given back: after the first call, blocks are those of calls before
    cold    every block from 16 KiB on is mapped anew

Allocators of a library's own (numpy's below 1 KiB, CUDA's) are not touched.
"""

from __future__ import annotations

import ctypes

from .errors import PerfError

HEAPS = ("system", "warm", "cold")
COLD_BYTES = 16 * 1024
# mallopt(3)
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_DEFAULTS = {_TRIM_THRESHOLD: 128 * 1024, _MMAP_THRESHOLD: 128 * 1024, _MMAP_MAX: 65536}
_SETTINGS = {
    "system": _DEFAULTS,
    "warm": {**_DEFAULTS, _MMAP_MAX: 0, _TRIM_THRESHOLD: -1},
    "cold": {**_DEFAULTS, _MMAP_THRESHOLD: COLD_BYTES},
}


def put_in_force(heap: str) -> None:
    """For this process, until another is put in force.

    `system` after another one is glibc's defaults without their dynamic threshold, which no call
    brings back. Raises PerfError where malloc is not glibc's.
    """
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018  only glibc has it
        mallopt = libc.mallopt
    except (OSError, AttributeError, TypeError):
        mallopt = None
    if mallopt is None or not all(mallopt(*setting) for setting in _SETTINGS[heap].items()):
        raise PerfError(
            f"--perf-heap {heap} cannot be put in force",
            expected="glibc's malloc, which mallopt(3) steers",
            got="another C library or allocator",
            remedy="use --perf-heap system",
        )
