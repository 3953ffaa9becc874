"""Recorded transforms: every call of a sequence equals the function's own, and keeps doing so.

On the tape of the runtime with the native kernels, and on a GPU where there is one.
"""

import gc
import threading

import pytest
import torch

from rightfast import wavelets as ours
from rightfast.wavelets import replays

from .gpu_cases import flat
from .recorded_cases import (
    DEVICES,
    ON_A_GPU,
    PAIRS,
    RECORDED,
    SHAPE,
    bound,
    on,
    packed,
    same,
    tools,
    tree,
)

pytestmark = RECORDED


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@bound
@packed
@pytest.mark.parametrize("name", PAIRS)
def test_calls_in_a_row(device, name, packed, bound):
    analysis, synthesis, down, up = tools(device, name, packed, bound)
    x = on(device)
    for key in "abcd":
        x.copy_(on(device, key))
        coeffs = analysis(x)
        assert ours.served() == "kernel"
        same(coeffs, down(x))
        same(synthesis(coeffs), up(down(x)))
    if not bound:  # the last result is held while the next one is made
        assert len(analysis) == 2
        assert len(synthesis) == 1


@packed
def test_results_that_are_held_keep_their_values(device, packed):
    analysis, synthesis, down, up = tools(device, packed=packed)
    data = [on(device, key) for key in range(6)]
    held = [analysis(x) for x in data]
    back = [synthesis(coeffs) for coeffs in held]
    one = [flat(tree(analysis(x)))[1] for x in data]  # a band holds its neighbours' memory
    for x, coeffs, y, band in zip(data, held, back, one, strict=True):
        same(coeffs, down(x))
        same(y, up(down(x)))
        assert torch.equal(band, flat(down(x))[1])
    assert len(analysis) == len(synthesis) == replays.LENDERS + 1


def test_memory_that_nobody_holds_is_used_again(device):
    analysis = tools(device, packed=True)[0]
    x = on(device)
    places = [analysis(x).flat.data_ptr() for _ in range(5)]
    assert len(set(places)) == len(analysis) == 1
    places = [(coeffs := analysis(x)).flat.data_ptr() for _ in range(5)]
    assert len(set(places)) == len(analysis) == 2
    assert coeffs.flat.data_ptr() in places


def holders(x):
    """Ways to hold the memory of a result without the result."""
    w = torch.ones_like(x).requires_grad_()
    return {
        "a view": lambda y: y[1:2],
        "a storage": lambda y: y.untyped_storage(),
        "a backward pass to come": lambda y: (w * y).sum(),
        "an array": lambda y: y.numpy() if y.device.type == "cpu" else y.detach(),
        "dlpack": lambda y: torch.utils.dlpack.to_dlpack(y),
    }


@pytest.mark.parametrize("name", holders(torch.ones(1)))
def test_who_holds_memory_is_seen(device, name):
    analysis, synthesis, _, up = tools(device)
    x = on(device)
    coeffs = [analysis(x * k) for k in range(1, 5)]
    wanted = [up(c) for c in coeffs]
    held = [holders(wanted[0])[name](synthesis(c)) for c in coeffs]
    gc.collect()
    assert len(synthesis) == replays.LENDERS + 1
    if name == "a backward pass to come":
        for loss, y in zip(held, wanted, strict=True):
            assert loss.grad_fn.next_functions[0][0].name() == "MulBackward0"
            torch.testing.assert_close(loss, y.sum())
            loss.backward()  # what it saved has not been written to


def test_memory_that_was_given_back_is_left_alone(device):
    synthesis, coeffs = tools(device)[1], tools(device)[2](on(device))
    wanted = synthesis(coeffs)
    other = synthesis(coeffs)
    for held in (wanted, other):
        size = held.untyped_storage().nbytes()
        held.untyped_storage().resize_(0)
        held.untyped_storage().resize_(size + 64)
    del wanted, other, held
    for _ in range(3):
        same(synthesis(coeffs), tools(device)[3](coeffs))


def test_a_result_may_be_changed(device):
    analysis, synthesis, down, up = tools(device)
    x = on(device)
    for _ in range(4):
        coeffs = analysis(x)
        for band in flat(coeffs):
            band.mul_(2).requires_grad_()
        assert not any(band.requires_grad for band in flat(analysis(x)))
        same(synthesis(down(x)).zero_(), torch.zeros_like(up(down(x))))
    same(analysis(x), down(x))


@bound
def test_whatever_changes_between_calls(device, bound):
    """Shape, dtype, strides, place, a negation that torch has only noted."""
    analysis, synthesis, down, up = tools(device, "planes", False, bound)
    x, y = on(device), on(device, shape=(2, 30, 12))
    steps = [
        x,
        y,
        x.float(),
        x.transpose(1, 2),
        x[:, ::2],
        x[1:],
        x.expand(2, *SHAPE),
        y.clone(),
        torch._neg_view(x),
        x.to(torch.complex128) * 1j,
        (x * (1 + 2j)).conj(),
        x,
        torch.complex(x, -x).imag,
        x.long(),
        x[:0],
        torch.nn.Parameter(x, requires_grad=False),
    ]
    for _ in range(2):
        for step in steps:
            coeffs = down(step)
            same(analysis(step), coeffs)
            same(synthesis(coeffs), up(coeffs))
            turned = [c.mT.contiguous().mT for c in coeffs[:1]] + coeffs[1:]
            same(synthesis(turned), up(turned))


def test_places_to_read_from_are_bounded(device):
    analysis, _, down, _ = tools(device, bound=True)
    data = [on(device, key) for key in range(replays.MOST_PLACES + 4)]
    for _ in range(2):
        for x in data:
            same(analysis(x), down(x))
    assert len(analysis) <= replays.MOST_PLACES + 1


def test_a_bound_place_is_not_kept_alive(device):
    if device == "cpu":
        pytest.skip("a tape looks for the memory that was there")
    analysis, _, down, _ = tools(device, bound=True)
    for key in range(6):  # the allocator gives the same place again
        x = on(device, key)
        same(analysis(x), down(x))
        del x
    assert len(analysis) <= 3


def test_shapes_are_bounded(device):
    analysis, synthesis, down, up = tools(device, most=2)
    sizes = [8, 9, 10, 8, 9, 8, 11, 9]
    for size in sizes:
        x = on(device, shape=(size, 12))
        coeffs = analysis(x)
        same(coeffs, down(x))
        same(synthesis(coeffs), up(coeffs))
        assert len(analysis) <= 2
        assert len(synthesis) <= 2
        del coeffs


def test_threads_take_turns(device):
    analysis, synthesis, down, up = tools(device)
    wrong = []

    def work(key):
        x = on(device, key)
        wanted = up(down(x))
        try:
            for _ in range(20):
                assert torch.equal(synthesis(analysis(x)), wanted)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(key,)) for key in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@ON_A_GPU
@pytest.mark.gpu
@bound
def test_two_streams_at_once(bound):
    analysis, synthesis, down, up = tools("cuda", "planes", True, bound)
    data = [on("cuda", key, (8, 256, 260), torch.float32) for key in "ab"]
    wanted = [up(down(x)) for x in data]
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    torch.cuda.synchronize()
    found = [[], []]
    for _ in range(6):
        for stream, x, results in zip(streams, data, found, strict=True):
            with torch.cuda.stream(stream):
                results.append(synthesis(analysis(x)))
    torch.cuda.synchronize()
    for results, want in zip(found, wanted, strict=True):
        for result in results:
            assert torch.equal(result, want)
