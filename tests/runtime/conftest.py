"""Every test of what is recorded runs on the tape, and on a GPU where there is one."""

from __future__ import annotations

import pytest
import torch

from rightfast.runtime import CudaGraphs, Tape

CUDA = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]


@pytest.fixture(params=[Tape, pytest.param(CudaGraphs, marks=CUDA)], ids=["tape", "cuda"])
def backend(request):
    return request.param()
