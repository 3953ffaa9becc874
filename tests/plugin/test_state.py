"""Global torch state: defaults, reading, restoring, differences."""

from __future__ import annotations

import pytest
import torch

from pytest_rightfast.state import DEFAULTS, changes, import_changes, restore, torch_state


@pytest.mark.parametrize("variable", ["0", "1"])
def test_defaults_are_those_of_a_fresh_torch(python, monkeypatch, variable):
    """Also in containers that allow TF32 by a variable."""
    monkeypatch.setenv("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", variable)
    done = python(
        """
        import torch
        from pytest_rightfast.state import DEFAULTS, import_changes, torch_state
        print(import_changes(DEFAULTS, torch_state()))
        """
    )
    assert done.stdout.strip() == "{}", done.stderr


def test_without_torch_the_defaults_hold(python):
    done = python(
        """
        import sys
        from pytest_rightfast.state import DEFAULTS, torch_state
        print(torch_state() == DEFAULTS, "torch" in sys.modules)
        """
    )
    assert done.stdout.split() == ["True", "False"], done.stderr


def test_differences_by_name():
    before = torch_state()
    after = {**before, "default_dtype": "torch.float64", "threads": 99}
    assert changes(before, before) == {}
    assert changes(before, after) == {
        "default_dtype": "torch.float32 -> torch.float64",
        "threads": f"{before['threads']} -> 99",
    }
    assert import_changes(before, after) == {"default_dtype": "torch.float32 -> torch.float64"}


def test_a_new_way_to_name_the_precision_is_read(monkeypatch):
    """torch raises when both ways were used; that is a state like any other."""
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        pytest.skip("this torch has one way")
    before = torch_state()
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        assert "float32_matmul_precision" in changes(before, torch_state())
    finally:
        restore(before)
    assert torch_state() == before


def test_every_name_of_the_state_has_a_default():
    assert set(torch_state()) - set(DEFAULTS) == {"threads"}
