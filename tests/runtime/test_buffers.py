"""`Buffers` by itself; what it does for recordings is in `test_classes.py`."""

from __future__ import annotations

import copy

import pytest
import torch

from rightfast.runtime import Buffers


def test_a_name_is_one_memory_at_one_address():
    buffers = Buffers()
    first = buffers.get("h", (8, 4))
    address = first.data_ptr()
    assert buffers.get("h", (2, 4)).data_ptr() == address
    assert buffers.get("h", [4, 4], torch.int32).data_ptr() == address
    assert buffers.get("other", (8, 4)).data_ptr() != address
    assert buffers.addresses().keys() == {"h", "other"}


def test_zeros_when_the_shape_or_type_is_another_and_else_what_was_left():
    buffers = Buffers()
    assert not buffers.get("h", (4, 4)).any()
    buffers.get("h", (4, 4)).fill_(7.0)
    assert (buffers.get("h", (4, 4)) == 7.0).all()
    assert not buffers.get("h", (2, 4)).any()
    buffers.get("h", (2, 4)).fill_(7.0)
    assert not buffers.get("h", (4, 4)).any()
    buffers.get("h", (4, 4)).fill_(7.0)
    assert not buffers.get("h", (4, 4), torch.int32).any()


def test_what_need_not_be_cleaned_is_not():
    buffers = Buffers(zeroed=False)
    buffers.get("h", (4,)).fill_(7.0)
    assert (buffers.get("h", (3,)) == 7.0).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bool, torch.complex64, torch.bfloat16])
def test_types(dtype):
    made = Buffers().get("h", (3, 5), dtype)
    assert (made.shape, made.dtype, made.is_contiguous()) == ((3, 5), dtype, True)
    assert not made.any()


def test_an_empty_shape_keeps_the_memory():
    buffers = Buffers()
    buffers.get("h", (100,))
    assert buffers.get("h", (0, 5)).shape == (0, 5)
    assert buffers.nbytes == 400
    assert Buffers().get("new", (0,)).numel() == 0


def test_a_negative_size():
    with pytest.raises(ValueError, match=r"0 or more for buffer 'h', got \(2, -1\)"):
        Buffers().get("h", (2, -1))
    buffers = Buffers()
    buffers.get("h", (2,))
    with pytest.raises(ValueError, match="0 or more"):
        buffers.get("h", (-1,))


def test_another_device():
    buffers = Buffers()
    buffers.get("h", (2,))
    assert buffers.get("h", (2,), device="meta").device.type == "meta"
    assert not buffers.get("h", (2,)).any()


def test_autograd_does_not_keep_the_buffer():
    buffers = Buffers()
    x = torch.ones(3, requires_grad=True)
    buffers.get("h", (3,)).copy_(x)
    assert not buffers.get("h", (3,)).requires_grad


def test_made_in_inference_mode_and_used_outside():
    buffers = Buffers()
    with torch.inference_mode():
        buffers.get("h", (3,))
    buffers.get("h", (3,)).add_(1.0)
    buffers.get("h", (2,)).add_(1.0)


def test_clear_and_copies():
    buffers = Buffers(zeroed=False)
    buffers.get("h", (3,))
    copied = copy.deepcopy(buffers)
    assert (copied.nbytes, copied.zeroed) == (0, False)
    buffers.clear()
    assert buffers.nbytes == 0


def test_what_is_too_large_is_let_go_where_there_is_no_recording():
    buffers = Buffers()
    held = []
    for n in (16, 4096, 1024, 16):
        buffers.get("h", (n,))
        held.append(buffers.nbytes)
    assert held == [64, 16384, 16384, 64]


def test_a_pass_that_cuts_a_buffer_twice_keeps_the_larger():
    buffers = Buffers()
    before = buffers.begin()
    buffers.get("h", (4096,))
    buffers.get("h", (16,))
    assert buffers.end(before) == {"h"}
    assert buffers.nbytes == 16384


def test_it_knows_its_own():
    buffers = Buffers()
    own, other = buffers.get("h", (4,)), torch.zeros(4)
    assert buffers.holds(own[1:])
    assert not buffers.holds(other)
    old = own
    buffers.get("h", (400,))
    assert not buffers.holds(old)
