"""Recorded transforms in use: packed results, errors, what is not recorded, copies."""

import copy
import pickle
import warnings
from dataclasses import dataclass

import pytest
import torch

from rightfast import wavelets as ours
from rightfast.runtime import CudaGraphs, Graphs, NotRecordable, NotRecorded, Tape
from rightfast.wavelets import recorder

from .gpu_cases import flat
from .recorded_cases import (
    DEVICES,
    ON_A_TAPE,
    PAIRS,
    RECORDED,
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


@pytest.mark.parametrize("name", PAIRS)
def test_packed_is_raveled(device, name):
    analysis, synthesis, down, up = tools(device, name, packed=True)
    called = ours.recorded(*PAIRS[name][:1], *PAIRS[name][2:], packed=True)
    x = on(device)
    coeffs = down(x)
    axes = PAIRS[name][5]
    row, places, shapes = ours.ravel_coeffs(coeffs, axes=axes)
    for found in (analysis(x), called(x)):
        assert torch.equal(found.flat, row)
        same(found, coeffs)
        same(ours.unravel_coeffs(found.flat, places, shapes, found.layout.function), coeffs)
        same(synthesis(found), up(coeffs))
        doubled = found._replace(flat=2 * found.flat)
        same(synthesis(doubled), up(doubled.unpack()))
        found.unpack()[0].zero_()
        assert not found.flat[: coeffs[0].numel()].any()


def test_what_does_not_fit_is_refused(device):
    analysis, synthesis, _, _ = tools(device, packed=True)
    found = analysis(on(device))
    lines = ours.recorded(ours.waverec, "db2")
    for call in (
        lambda: lines(found),
        lambda: synthesis(found._replace(flat=found.flat[1:])),
        lambda: synthesis(found._replace(flat=found.flat[None])),
    ):
        with pytest.raises(ValueError, match="expected coefficients packed by"):
            call()


def test_packed_of_anything_else(device):
    _, synthesis, _, _ = tools(device)
    found = tools(device, packed=True)[0](on(device))
    for other in ({"flat": found.flat.tolist()}, {"flat": None}, {"layout": None}):
        with pytest.raises(TypeError, match="expected coefficients as packed=True gives them, got"):
            synthesis(found._replace(**other))


def test_a_subclass_beside_recordings(device):
    """What it comes to depends neither on its being the first of its shape nor on its not being."""
    analysis, synthesis, _, _ = tools(device, packed=True)
    found = analysis(on(device))
    sub = found._replace(flat=found.flat.as_subclass(Sub))
    for _ in range(2):
        assert type(synthesis(sub)) is Sub
        assert type(synthesis(found)) is torch.Tensor
    assert len(synthesis) == 1


def test_sparse_data_after_a_recording(device):
    analysis, synthesis, _, _ = tools(device)
    x = on(device)
    low, *details = analysis(x)
    synthesis([low, *details])
    for call in (
        lambda: analysis(x.to_sparse()),
        lambda: synthesis([low.to_sparse(), *details]),
    ):
        with pytest.raises(TypeError, match=r"expected .* dense"):
            call()


@pytest.mark.parametrize(
    ("arguments", "options", "match"),
    [
        ((ours.dwt, "db2"), {}, "expected one of the functions wavedec,"),
        ((len, "db2"), {}, "expected one of the functions wavedec,"),
        ((ours.waverec, "db2", "zero", 2), {}, "expected neither level= nor packed="),
        ((ours.waverec2, "db2"), {"packed": True}, "expected neither level= nor packed="),
        ((ours.wavedec, "db2"), {"most": 0}, "expected most=1 or more, got 0"),
    ],
)
def test_arguments(arguments, options, match):
    with pytest.raises(ValueError, match=match):
        ours.recorded(*arguments, **options)


def test_errors_and_warnings_are_those_of_the_function(device):
    for data in (torch.ones(3, device=device), "a", None, torch.ones(0, 4, 0, device=device)):
        with pytest.raises((ValueError, TypeError)) as wanted:
            ours.wavedec2(data, "bior4.4", "symmetric", 2)
        with pytest.raises((ValueError, TypeError)) as found:
            tools(device)[0](data)
        assert str(found.value) == str(wanted.value)
    analysis = ours.recorded(ours.wavedec, "db4", level=3, backend=Tape())
    with pytest.warns(UserWarning, match="Level value"):
        analysis(on(device))


@ON_A_TAPE
def test_a_list_that_the_caller_changes():
    axes = [2, 1]
    analysis = ours.recorded(ours.wavedec2, "db2", level=1, axes=axes, backend=Tape())
    x = on("cpu")
    same(analysis(x), ours.wavedec2(x, "db2", level=1, axes=(2, 1)))
    axes.reverse()
    for data in (x, x[:3]):
        same(analysis(data), ours.wavedec2(data, "db2", level=1, axes=(2, 1)))


class Sub(torch.Tensor):
    pass


def not_recorded(device):
    """Data for which the function itself is called."""
    x = on(device)
    low, *details = ours.wavedec2(x, "bior4.4", "symmetric", 2)
    return {
        "a list": (x.tolist(), None),
        "an array": (x.cpu().numpy(), None),
        "a subclass": (x.as_subclass(Sub), None),
        "a missing approximation": (None, [None, *details]),
        "a missing band": (None, [low, (details[0][0], None, details[0][2]), details[1]]),
        "a tuple": (None, (low, *details)),
        "two dtypes": (None, [low.float(), *details]),
        "a longer approximation": (
            None,
            [torch.nn.functional.pad(low, (0, 1)), *details],
        ),
        "one entry": (None, [low]),
    }


@pytest.mark.parametrize("name", not_recorded("cpu"))
def test_what_is_not_recorded(device, name):
    analysis, synthesis, down, up = tools(device)
    x, coeffs = not_recorded(device)[name]
    for _ in range(2):
        if coeffs is None:
            same(analysis(x), down(x))
        else:
            same(synthesis(coeffs), up(coeffs))
    assert len(analysis) == len(synthesis) == 0


def test_other_circumstances(device, monkeypatch):
    analysis, synthesis, down, up = tools(device)
    x = on(device)
    with ours.backend("torch"):
        same(synthesis(analysis(x)), up(down(x)))
        assert ours.served() == "torch"
    assert len(analysis) == 0
    analysis(x)
    assert len(analysis) == 1
    with ours.backend("torch"):  # of a call that was recorded
        same(analysis(x), down(x))
        assert ours.served() == "torch"
    monkeypatch.setattr(recorder, "LARGEST", x.nbytes - 1)
    other = tools(device)[0]
    same(other(x), down(x))
    assert len(other) == 0
    bank = [torch.tensor(f, dtype=x.dtype).to(device) for f in ours.Wavelet("db2").filter_bank]
    bank[0].requires_grad_()
    learned = ours.recorded(ours.wavedec2, ours.Wavelet("mine", bank), level=1, backend=Tape())
    flat(learned(x))[0].sum().backward()
    assert bank[0].grad is not None
    assert len(learned) == 0
    level_0 = ours.recorded(ours.wavedec2, "db2", level=0, backend=Tape())
    assert level_0(x)[0] is x


def test_another_device_than_the_backends():
    x = on("cpu")
    analysis = ours.recorded(ours.wavedec2, "bior4.4", level=2)
    for _ in range(2):
        same(analysis(x), ours.wavedec2(x, "bior4.4", level=2))
    assert len(analysis) == 0


@dataclass(frozen=True)
class Options:
    pass


def test_within_a_pass_that_is_captured(device):
    """Its memory must not go into somebody else's recording."""
    analysis, synthesis, down, up = tools(device)
    analysis(on(device))
    backend = Tape() if device == "cpu" else CudaGraphs()
    graphs = Graphs(lambda _, x: synthesis(analysis(x)), record=True, backend=backend)
    for key in "abc":
        x = on(device, key)
        same(graphs(Options(), fed={"x": x}), up(down(x)))
        analysis(on(device, "other"))
    assert len(graphs) == 1


@packed
def test_compiled_in_one_graph(device, packed):
    analysis, synthesis, down, up = tools(device, packed=packed)
    x = on(device)
    analysis(x)

    def both(x):
        return synthesis(analysis(x)) * 2

    torch._dynamo.reset()
    compiled = torch.compile(both, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), 2 * up(down(x)))
    torch._dynamo.reset()


class Broken(Tape):
    def capture(self, body, known, fed):
        raise self.error


@ON_A_TAPE
@packed
@pytest.mark.parametrize("error", [NotRecordable("why", "it is broken"), RuntimeError("broken")])
def test_where_a_capture_fails(error, packed):
    backend = Broken()
    backend.error = error
    analysis = ours.recorded(
        ours.wavedec2, "bior4.4", "symmetric", 2, packed=packed, backend=backend
    )
    x, down = on("cpu").requires_grad_(), tools("cpu")[2]
    with pytest.warns(NotRecorded, match="broken"):
        same(analysis(x), down(x))
    for data in (x, x.detach()):
        same(analysis(data), down(data))
    with pytest.warns(NotRecorded, match="broken"):  # of the other direction
        flat(tree(analysis(x)))[1].sum().backward()
    band = flat(down(x))[1]
    torch.testing.assert_close(x.grad, torch.autograd.grad(band.sum(), x)[0])
    assert len(analysis) == 0


@pytest.mark.parametrize("again", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_has_recorded_nothing(device, again):
    analysis, _, down, _ = tools(device, packed=True)
    default = ours.recorded(*PAIRS["planes"][:1], *PAIRS["planes"][2:], packed=True)
    x = on(device)
    for one in (default,) if device == "cuda" else (analysis, default):
        coeffs = one(x)
        other = again(one)
        assert len(other) == 0
        same(other(x), down(x))
        same(coeffs, down(x))
    same(again(coeffs), coeffs)
    assert again(coeffs).layout == coeffs.layout


def test_nothing_is_said_where_nothing_is_wrong(device):
    analysis, synthesis, _, _ = tools(device, "planes, Haar")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            synthesis(analysis(on(device).requires_grad_())).sum().backward()
