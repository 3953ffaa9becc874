"""Every test of what is recorded runs on the tape, and on a GPU where there is one; a Triton whose
driver writes launches down, for machines without a GPU."""

from __future__ import annotations

import pytest
import torch

from rightfast.runtime import CudaGraphs, Tape

from . import triton_fakes

CUDA = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]


@pytest.fixture(params=[Tape, pytest.param(CudaGraphs, marks=CUDA)], ids=["tape", "cuda"])
def backend(request):
    made = request.param()
    with torch.device(made.device):  # where a test's own tensors are
        yield made


@pytest.fixture(params=["python", "c"])
def recording(request, monkeypatch):
    """Triton's active driver for one test, of launchers in Python and of those in C."""
    pytest.importorskip("triton", minversion="3.6", exc_type=ImportError)
    from triton.runtime.driver import driver as config

    from rightfast.runtime import launch_native
    from rightfast.runtime.triton_forms import FORMS, version

    if version() not in FORMS:
        pytest.skip(f"launches go through Triton {version()}: nothing is bound here")
    if request.param == "c" and launch_native.built is None:
        pytest.skip("_launch.c was not built: setup.py says why")
    driver = triton_fakes.Driver()
    monkeypatch.setattr(launch_native, "enabled", request.param == "c")
    monkeypatch.setattr(launch_native, "library", lambda: driver.library)
    monkeypatch.setattr(config, "_active", driver)
    assert config.active is driver
    return driver
