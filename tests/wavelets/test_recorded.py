"""Recorded transforms: every call of a sequence equals the function's own, and keeps doing so.

On the tape of the runtime with the native kernels, and on a GPU where there is one.
"""

import copy
import gc
import pickle
import threading
import warnings
from dataclasses import dataclass

import pytest
import torch
from rightfast_kernels.dwt import native

from rightfast import wavelets as ours
from rightfast.runtime import CudaGraphs, Graphs, NotRecordable, NotRecorded, Tape
from rightfast.wavelets import recorder, replays

from .gpu_cases import flat, random

pytestmark = [
    pytest.mark.filterwarnings("ignore:Level value"),
    pytest.mark.filterwarnings("error::rightfast.runtime.NotRecorded"),
]
ON_A_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
ON_A_TAPE = pytest.mark.skipif(not native.available, reason="the native kernels are not built")
DEVICES = [
    pytest.param("cpu", marks=ON_A_TAPE),
    pytest.param("cuda", marks=[ON_A_GPU, pytest.mark.gpu]),
]
PAIRS = {
    "lines": (ours.wavedec, ours.waverec, "db3", "symmetric", 2, -1),
    "lines of another axis": (ours.wavedec, ours.waverec, "db2", "smooth", 1, 1),
    "planes": (ours.wavedec2, ours.waverec2, "bior4.4", "symmetric", 2, (-2, -1)),
    "planes, Haar": (ours.wavedec2, ours.waverec2, "haar", "zero", 2, (-2, -1)),
    "planes, turned": (ours.wavedec2, ours.waverec2, ["db2", "haar"], "reflect", 1, [2, 1]),
    "volumes": (ours.wavedecn, ours.waverecn, "bior2.2", "periodization", 1, None),
    "two of three axes": (ours.wavedecn, ours.waverecn, "db2", "antireflect", 2, (0, 2)),
}
SHAPE = (6, 19, 22)
bound = pytest.mark.parametrize("bound", [False, True], ids=["copied", "bound"])
packed = pytest.mark.parametrize("packed", [False, True], ids=["tree", "packed"])


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


class Holding(Tape):
    """A tape looks for the very memory that it was recorded on; a GPU, for its address."""

    def __init__(self):
        self.held = []

    def capture(self, body, known, fed):
        self.held.append(known)
        return super().capture(body, known, fed)


def tools(device, name="planes", packed=False, bound=False, most=16):
    """(analysis, synthesis), recorded, and the same by the functions."""
    down, up, wavelet, mode, level, axes = PAIRS[name]
    kind = {"bound": bound, "most": most, "backend": Holding() if device == "cpu" else CudaGraphs()}
    return (
        ours.recorded(down, wavelet, mode, level, axes, packed=packed, **kind),
        ours.recorded(up, wavelet, mode, axes=axes, **kind),
        lambda x: down(x, wavelet, mode, level, axes),
        lambda c: up(c, wavelet, mode, axes),
    )


def tree(coeffs):
    return coeffs.unpack() if isinstance(coeffs, ours.Packed) else coeffs


def same(found, wanted):
    found, wanted = tree(found), tree(wanted)
    assert torch.utils._pytree.tree_structure(found) == torch.utils._pytree.tree_structure(wanted)
    for f, w in zip(flat(found), flat(wanted), strict=True):
        assert (f.dtype, f.device, f.shape) == (w.dtype, w.device, w.shape)
        assert torch.equal(f, w)


def on(device, key="", shape=SHAPE, dtype=torch.float64):
    return random(*shape, key=key, dtype=dtype).to(device)


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


def gradients(call, data, weights=None, twice=False):
    leaves = [x.detach().requires_grad_() for x in data]
    found = flat(call(*leaves))
    weights = weights or [random(*y.shape, key=i).to(y) for i, y in enumerate(found)]
    loss = sum((w * y**3).sum() for w, y in zip(weights, found, strict=True))
    grads = torch.autograd.grad(loss, leaves, create_graph=twice)
    if twice:
        grads += torch.autograd.grad(sum((g**2).sum() for g in grads), leaves)
    return [*(y.detach() for y in found), *grads]


@bound
@packed
@pytest.mark.parametrize("name", PAIRS)
def test_gradients_of_both_orders(device, name, packed, bound):
    analysis, synthesis, down, up = tools(device, name, packed, bound)
    for key in "abc":
        x = on(device, key)
        bands = flat(down(x))
        structure = torch.utils._pytree.tree_structure(down(x))
        for found, wanted, data in (
            (lambda x: tree(analysis(x)), down, [x]),
            (lambda x: synthesis(analysis(x)), lambda x: up(down(x)), [x]),
            (
                lambda *c: synthesis(torch.utils._pytree.tree_unflatten(c, structure)),
                lambda *c: up(torch.utils._pytree.tree_unflatten(c, structure)),
                bands,
            ),
        ):
            some = gradients(found, data, twice=True)
            for a, b in zip(some, gradients(wanted, data, twice=True), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    passes = [way for plan in analysis._plans.values() for way in (plan.forward, plan.backward)]
    assert all(map(len, passes))  # both directions are recorded


@packed
def test_several_forward_passes_and_then_their_backward_passes(device, packed):
    analysis, synthesis, down, up = tools(device, packed=packed)
    leaves = [on(device, key).requires_grad_() for key in range(5)]
    losses = [(synthesis(analysis(x)) ** 3).sum() for x in leaves]
    for x, loss in reversed(list(zip(leaves, losses, strict=True))):
        (found,) = torch.autograd.grad(loss, x)
        (wanted,) = torch.autograd.grad((up(down(x)) ** 3).sum(), x)
        torch.testing.assert_close(found, wanted)


def test_gradients_in_batches_and_by_torch_func(device):
    analysis, _, down, _ = tools(device, packed=True)
    x = on(device).requires_grad_()
    found, wanted = analysis(x).flat[:3], torch.cat([c.flatten() for c in flat(ordered(down(x)))])
    ones = torch.eye(3, dtype=x.dtype, device=device)
    (a,) = torch.autograd.grad(found, x, ones, is_grads_batched=True)
    (b,) = torch.autograd.grad(wanted[:3], x, ones, is_grads_batched=True)
    torch.testing.assert_close(a, b)
    y = x.detach()
    loss = lambda call: lambda x: sum((c**3).sum() for c in flat(call(x)))  # noqa: E731
    both = loss(lambda x: tree(analysis(x))), loss(down)
    for transform in (torch.func.grad, torch.func.hessian):
        small = y[:, :3, :2] if transform is torch.func.hessian else y
        torch.testing.assert_close(*(transform(one)(small) for one in both))
    torch.testing.assert_close(*(torch.func.jvp(one, (y,), (y,)) for one in both))
    torch.testing.assert_close(torch.vmap(lambda x: analysis(x).flat)(y).sum(), wanted.sum())


def ordered(coeffs):
    """The bands of planes in the order of their keys."""
    return [coeffs[0], *((v, h, d) for h, v, d in coeffs[1:])]


def test_training_after_inference(device):
    analysis, synthesis, down, _ = tools(device)
    x = on(device)
    with torch.inference_mode():
        for _ in range(3):
            same(synthesis(analysis(x.clone())), tools(device)[3](down(x)))
    y = x.clone().requires_grad_()
    weight = torch.ones_like(x).requires_grad_()
    (weight * synthesis(analysis(y))[:, :19]).sum().backward()
    torch.testing.assert_close(weight.grad, x)
    with torch.inference_mode():
        z = x.clone()
    same(analysis(z), down(x))


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


def test_threads_take_turns(device):
    analysis, synthesis, down, up = tools(device)
    wrong = []

    def work(key):
        x = on(device, key)
        wanted = up(down(x))
        for _ in range(20):
            if not torch.equal(synthesis(analysis(x)), wanted):
                wrong.append(key)

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


@ON_A_GPU
@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_dtypes_of_a_gpu(dtype):
    analysis, synthesis, down, up = tools("cuda", packed=True)
    for key in "abc":
        x = on("cuda", key, dtype=dtype).requires_grad_()
        coeffs = analysis(x)
        same(coeffs, down(x))
        (found,) = torch.autograd.grad(synthesis(coeffs).sum(), x)
        (wanted,) = torch.autograd.grad(up(down(x)).sum(), x)
        torch.testing.assert_close(found, wanted)


def test_nothing_is_said_where_nothing_is_wrong(device):
    analysis, synthesis, _, _ = tools(device, "planes, Haar")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            synthesis(analysis(on(device).requires_grad_())).sum().backward()
