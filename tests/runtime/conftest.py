"""A Triton whose driver writes launches down, for machines without a GPU."""

from __future__ import annotations

import pytest

from . import triton_fakes


@pytest.fixture
def recording(monkeypatch):
    """Triton's active driver for one test."""
    pytest.importorskip("triton", minversion="3.6", exc_type=ImportError)
    from triton.runtime.driver import driver as config

    from rightfast.runtime.triton_forms import FORMS, version

    if version() not in FORMS:
        pytest.skip(f"launches go through Triton {version()}: nothing is bound here")
    driver = triton_fakes.Driver()
    monkeypatch.setattr(config, "_active", driver)
    assert config.active is driver
    return driver
