"""Launching on a GPU: the host's time for 101 launches of a kernel that does next to nothing, by
the launcher, by Triton and by a compiled kernel's own call; and a tuner's first step.

The device waits for the host in all of them, so its time is the host's. `perf/check_launch.py`
prints the time of one launch.
"""

import pytest
import torch

from pytest_rightfast import PerfCase, peer
from rightfast.runtime import best_of, forget_choices, launchable

LAUNCHES = 101  # odd: the kernel of one argument turns its argument round each time
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="a launch needs a CUDA device")


ARGUMENTS = {1: 1, 2: 4, 4: 8, 8: 16}  # of a kernel, by how many tensors it reads


def kernels():
    """The kernels' module: importing it needs Triton."""
    from . import launches

    return launches


def repeated(way):
    """A backend: `way(kernel)` gives a function that launches once with the arguments it gets."""
    ready = {}

    def run(*inputs):
        count = ARGUMENTS[len(inputs)]
        if count not in ready:
            ready[count] = way(kernels().KERNELS[count])
        out = inputs[0].clone() if count == 1 else torch.empty_like(inputs[0])
        given = kernels().arguments(count, out, inputs if count > 1 else ())
        launch = ready[count]
        for _ in range(LAUNCHES):
            launch(*given)
        return out

    return run


def ours(kernel):
    launch = launchable(kernel, BLOCK=128, num_warps=4)
    return lambda *given: launch((1,), *given)


def by_triton(kernel):
    return lambda *given: kernel[(1,)](*given, BLOCK=128, num_warps=4)


def by_compiled(kernel):
    compiled = {}

    def launch(*given):
        if not compiled:
            compiled[0] = kernel[(1,)](*given, BLOCK=128, num_warps=4)
        compiled[0][(1, 1, 1)](*given, 128)

    return launch


def answer(*inputs):
    return kernels().expected(ARGUMENTS[len(inputs)], inputs)


@pytest.fixture(params=ARGUMENTS, ids=lambda several: f"{ARGUMENTS[several]} arguments")
def tensors(request):
    def draw(generator):
        return tuple(torch.rand(128, generator=generator).cuda() for _ in range(request.param))

    return PerfCase(inputs=draw, reference=answer)


@gpu
@pytest.mark.perf_backends(
    ours=repeated(ours), triton=peer(repeated(by_triton)), compiled=peer(repeated(by_compiled))
)
def test_launches(perf, tensors, backend):
    perf(backend, case=tensors)


# Row sums in one go, and in pieces: what takes many times as long need not be timed ten times.


def in_pieces(count):
    return lambda x: torch.cat([part.sum(1) for part in x.chunk(count)])


CANDIDATES = {"whole": lambda x: x.sum(1), **{f"{n} pieces": in_pieces(n) for n in (16, 32, 64)}}


def first_step(prune):
    def run(x):
        forget_choices()
        return best_of(CANDIDATES, (x,), key=("sums", x.shape), writes=(), prune=prune)(x)

    return run


@pytest.mark.perf_backends(pruned=first_step(True), everything=first_step(False))
def test_first_step(perf, perf_device, backend):
    perf(
        backend,
        torch.rand(512, 64, device=perf_device),
        reference=lambda x: x.sum(1),
    )
