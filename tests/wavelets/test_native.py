"""The native kernels: their operators, instruction sets, threads, and who is served by them."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
import pywt
import torch
from rightfast_kernels.dwt import extension, native
from torch import Tensor

from rightfast import wavelets as ours

from .common import FEW, MODES, assert_close, fits, leaves, norm, signal

pytestmark = [
    pytest.mark.skipif(not native.available, reason="the native kernels were not built"),
    pytest.mark.filterwarnings("ignore:Level value"),
]


@pytest.fixture(autouse=True)
def _only_kernels():
    with ours.backend("kernel"):
        yield
    native.cpu()


def sets():
    """The instruction sets of this processor, widest first."""
    found = []
    for name in ("avx512", "avx2", "baseline"):
        try:
            found.append(native.cpu(name))
        except ValueError:
            continue
    native.cpu()
    return found


SETS = sets() if native.available else []


def test_the_modes_are_those_of_the_extension():
    assert sorted(native.MODES) == sorted(extension.MODES)
    assert [pywt.Modes.from_object(mode) for mode in native.MODES] == list(range(9))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", [*FEW, "bior4.4", "db11", "dmey"])
@pytest.mark.parametrize("name", SETS)
def test_every_instruction_set_of_lengths_1_to_70(name, wavelet, mode):
    native.cpu(name)
    for n in range(1, 71):
        if not fits(n, mode):
            continue
        x = signal(2, n, key=wavelet + mode)
        expected = pywt.dwt(x, wavelet, mode)
        scale = max(norm(x), norm(*expected))
        for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
            bands = ours.dwt(torch.from_numpy(x).to(dtype), wavelet, mode)
            for a, e in zip(bands, expected, strict=True):
                assert_close(a, e, scale, tolerance)
            back = ours.idwt(*(torch.from_numpy(e).to(dtype) for e in expected), wavelet, mode)
            assert_close(back, pywt.idwt(*expected, wavelet, mode), scale, tolerance)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("shape", [(3, 21, 34), (40, 33), (2, 9, 3, 35), (5, 18, 20, 17)])
def test_every_instruction_set_over_every_choice_of_axes(name, shape):
    native.cpu(name)
    x = signal(*shape)
    for count in (1, 2, 3):
        for axes in itertools.permutations(range(len(shape)), count):
            expected = pywt.wavedecn(x, "db3", "symmetric", 1, axes)
            actual = ours.wavedecn(torch.from_numpy(x), "db3", "symmetric", 1, axes)
            for a, e in zip(leaves(actual), leaves(expected), strict=True):
                assert_close(a, e, norm(x))
            back = ours.waverecn(actual, "db3", "symmetric", axes)
            assert_close(back, pywt.waverecn(expected, "db3", "symmetric", axes), norm(x))


def everything(x, wavelet, mode):
    """Bands, signal and both gradients of a transform over the last two axes."""
    x = x.clone().requires_grad_()
    bands = leaves(ours.wavedec2(x, wavelet, mode, 2))
    (down,) = torch.autograd.grad(bands, x, [b.detach() * 2 for b in bands])
    given = [b.detach().requires_grad_() for b in bands]
    levels = [given[0], tuple(given[1:4]), tuple(given[4:7])]
    back = ours.waverec2(levels, wavelet, mode)
    return [*bands, down, back, *torch.autograd.grad(back, given, back.detach() * 3)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", ["haar", "bior4.4"])
@pytest.mark.parametrize("shape", [(1, 300, 401), (7, 130, 96), (64, 64, 64)])
def test_two_threads_give_the_bits_of_one(shape, wavelet, mode):
    x = torch.from_numpy(signal(*shape, dtype=np.float32))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = everything(x, wavelet, mode)
        torch.set_num_threads(2)
        two = everything(x, wavelet, mode)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_a_long_line_in_two_threads_gives_the_bits_of_one():
    x = torch.from_numpy(signal(1, 1_000_003, dtype=np.float32))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            bands = ours.wavedec(x, "db4", "antireflect", 3)
            found.append([*bands, ours.waverec(bands, "db4", "antireflect")])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def plans(mode, levels=2):
    """(signal, its plan, bands, their plan) over two axes, for the operators themselves."""
    x = torch.from_numpy(signal(2, 13, 10)).requires_grad_()
    filters = [tuple(f) for f in ours.Wavelet("db2").filter_bank]
    sizes, lengths = [13, 10], []
    for _ in range(levels):
        below = [ours.dwt_coeff_len(n, 4, mode) for n in sizes]
        lengths.append(list(zip(sizes, below, strict=True)))
        sizes = below
    axes = [native.analysis_axis(dim, mode, *filters[:2]) for dim in (-2, -1)]
    plan = native.make_plan(axes, lengths, [14] * (levels - 1) + [15])
    bands = [b.detach().requires_grad_() for b in native.down(x, plan)]
    return x, bands, plan


@pytest.mark.parametrize("mode", MODES)
def test_opcheck(mode):
    x, bands, plan = plans(mode)
    torch.library.opcheck(torch.ops.rightfast.dwt_down, (x, plan.text))
    torch.library.opcheck(torch.ops.rightfast.dwt_up, (bands, plan.text))


@pytest.mark.parametrize("mode", MODES)
def test_gradcheck_of_the_operators(mode):
    x, bands, plan = plans(mode, levels=1)

    def down(x):
        return tuple(torch.ops.rightfast.dwt_down(x, plan.text))

    def up(*bands):
        return torch.ops.rightfast.dwt_up(list(bands), plan.text)

    for function, inputs in ((down, (x,)), (up, bands)):
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)


def test_vmap_of_the_operators():
    x, bands, plan = plans("reflect")
    many = torch.randn(5, *x.shape, dtype=x.dtype)
    mapped = torch.vmap(lambda x: tuple(torch.ops.rightfast.dwt_down(x, plan.text)))
    for i, each in enumerate(zip(*mapped(many), strict=True)):
        for a, e in zip(each, native.down(many[i], plan), strict=True):
            assert torch.equal(a, e)
    some = [b.detach().expand(3, *b.shape) for b in bands]
    back = torch.vmap(lambda *b: torch.ops.rightfast.dwt_up(list(b), plan.text))(*some)
    assert torch.equal(back[1], native.up([b.detach() for b in bands], plan))


def test_a_compiler_sees_one_operator_when_asked_for_the_kernel():
    def loss(x):
        bands = ours.wavedec2(x, "db3", level=2)
        return (ours.waverec2(bands, "db3") ** 3).sum()

    x = torch.randn(2, 24, 20, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(loss(x), x)
    torch._dynamo.reset()
    graphs = []

    def look(graph, inputs):
        graphs.append(graph.code)
        return graph

    torch.compile(loss, fullgraph=True, backend=look)(x)
    assert graphs[0].count("rightfast.dwt_down") == graphs[0].count("rightfast.dwt_up") == 1
    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(x), x)[0], expected)
    torch._dynamo.reset()


SERVED = {
    "float32": (lambda: ours.dwt(torch.ones(8), "db2"), "kernel"),
    "half": (lambda: ours.dwt(torch.ones(8).half(), "db2"), "kernel"),
    "complex": (lambda: ours.dwt(torch.ones(8) * 1j, "db2"), "kernel"),
    "integers": (lambda: ours.dwt(torch.arange(8), "db2"), "kernel"),
    "gradient": (lambda: ours.dwt(torch.ones(8, requires_grad=True), "db2"), "kernel"),
    "inference": (lambda: torch.inference_mode()(ours.dwt)(torch.ones(8), "db2"), "kernel"),
    "func": (lambda: torch.func.vmap(lambda x: ours.dwt(x, "db2")[0])(torch.ones(2, 8)), "kernel"),
    "meta": (lambda: ours.dwt(torch.ones(8, device="meta"), "db2"), "torch"),
    "tensors as filters": (lambda: ours.dwt(torch.ones(8), LEARNED), "torch"),
    "seven axes": (lambda: ours.dwtn(torch.ones([2] * 7), "haar"), "torch"),
    "a subclass": (lambda: ours.dwt(torch.ones(8).as_subclass(Mine), "db2"), "torch"),
}
LEARNED = ours.Wavelet("learned", [torch.tensor(f) for f in ours.Wavelet("db2").filter_bank])


class Mine(torch.Tensor):
    pass


@pytest.mark.parametrize("case", SERVED)
def test_auto_takes_the_kernel_where_it_can(case):
    call, expected = SERVED[case]
    with ours.backend("auto"):
        for _ in range(2):  # the second call is recalled
            call()
            assert ours.served() == expected
    with ours.backend("torch"):
        call()
        assert ours.served() == "torch"
    if expected == "torch":
        with pytest.raises(ValueError, match=r"cannot serve this call: expected .* use backend"):
            call()


def test_an_unknown_backend_is_refused():
    with (
        pytest.raises(ValueError, match=r"expected a backend of .* got 'fast'"),
        ours.backend("fast"),
    ):
        pass
    with pytest.raises(ValueError, match="expected an instruction set"):
        native.cpu("sse9")


RECALLED = {
    "wavedec": lambda w: ours.wavedec(X2, w, "symmetric", 2),
    "waverec": lambda w: ours.waverec(C1, w),
    "wavedec2": lambda w: ours.wavedec2(X2, w, level=2),
    "waverec2": lambda w: ours.waverec2(C2, w),
    "wavedecn": lambda w: ours.wavedecn(X2, w, level=2),
    "wavedecn, axes": lambda w: ours.wavedecn(X2, w, level=2, axes=(1, 0)),
    "waverecn": lambda w: ours.waverecn(CN, w),
    "waverecn, axes": lambda w: ours.waverecn(CN, w, axes=(1, 0)),
}
X2 = torch.from_numpy(signal(32, 40))
C1 = ours.wavedec(X2, "haar", level=2)
C2 = ours.wavedec2(X2, "haar", level=2)
CN = ours.wavedecn(X2, "haar", level=2)


@pytest.mark.parametrize("name", RECALLED)
def test_a_call_seen_before_gives_the_same(name):
    first, again = (leaves(RECALLED[name]("haar")) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    # Equal to an argument seen before, but refused: 1.0 is no level, bands in a row no wavedec2.
    with pytest.raises(TypeError):
        ours.wavedec(X2, "haar", "symmetric", 2.0)
    with pytest.raises(ValueError, match="detail coefficient"):
        ours.waverec2(leaves(C2), "haar")
    # What a call led to is not what another dtype, or a recorded call, needs.
    other = ours.wavedec2(X2.float(), "haar", level=2)
    assert other[0].dtype == torch.float32
    assert ours.wavedec2(X2.clone().requires_grad_(), "haar", level=2)[0].requires_grad


def test_axes_seen_before_are_told_apart():
    """The order of the axes is that of the characters of a key; None is not the empty tuple."""
    for _ in range(2):
        one, other = (ours.wavedecn(X2, "db2", level=1, axes=axes) for axes in (None, (1, 0)))
        assert torch.equal(one[1]["ad"], other[1]["da"])
        assert not torch.equal(one[1]["ad"].mT, other[1]["ad"])
        assert list(one[1]) == list(other[1]) == ["ad", "da", "dd"]
        turned = [other[0], dict(reversed(other[1].items()))]
        assert torch.equal(ours.waverecn(turned, "db2", axes=(1, 0)), ours.waverecn(one, "db2"))
        with pytest.raises(ValueError, match="at least one axis"):
            ours.wavedecn(X2, "db2", level=1, axes=())


OTHER = {
    "dtype": lambda band: band.float(),
    "gradient": lambda band: band.clone().requires_grad_(),
    "gaps": lambda band: torch.stack([band, band], -1)[..., 0],
    "negation": lambda band: torch._neg_view(-band),
    "zeros": lambda band: torch._efficientzerotensor(band.shape, dtype=band.dtype),
    "sparse": lambda band: band.to_sparse(),
    "shape": lambda band: band[..., :-2],
    "none": lambda band: None,
    "an array": lambda band: band.numpy(),
    "complex": lambda band: band * 1j,
}


@pytest.mark.parametrize("kind", OTHER)
def test_a_band_in_the_middle_that_is_not_as_before(kind):
    """A call that was seen is recognised by its first and its last band; the others may differ."""
    calls = (ours.wavedec, ours.waverec), (ours.wavedec2, ours.waverec2)
    for down, up in (*calls, (ours.wavedecn, ours.waverecn)):

        def change(bands, down=down):
            if down is ours.wavedec:
                return [bands[0], OTHER[kind](bands[1]), *bands[2:]]
            if down is ours.wavedec2:
                return [bands[0], (OTHER[kind](bands[1][0]), *bands[1][1:]), *bands[2:]]
            return [bands[0], {**bands[1], "ad": OTHER[kind](bands[1]["ad"])}, *bands[2:]]

        with ours.backend("auto"):
            bands = down(X2, "db2", level=2)
            up(bands, "db2"), up(bands, "db2")
            found = outcome(up, change(bands))
        with ours.backend("torch"):
            wanted = outcome(up, change(bands))
        if isinstance(wanted, Tensor):
            assert (found.dtype, found.requires_grad) == (wanted.dtype, wanted.requires_grad)
            torch.testing.assert_close(found, wanted)
        else:
            assert found == wanted


def outcome(up, bands):
    try:
        return up(bands, "db2")
    except (TypeError, ValueError) as error:
        return str(error)


def test_the_operators_refuse_what_would_overrun_memory():
    x, bands, plan = plans("symmetric")
    x = x.detach()
    down, up = torch.ops.rightfast.dwt_down, torch.ops.rightfast.dwt_up
    numbers = plan.text.split()
    longer = " ".join(str(int(v) + 100) if v in ("13", "10") else v for v in numbers)
    for wrong in (
        lambda: down(x, longer),
        lambda: down(x, " ".join(numbers[:-5])),
        lambda: down(x, plan.text[:20] + "x" + plan.text[20:]),
        lambda: down(x[:, ::2], plan.text),
        lambda: down(x.int(), plan.text),
        lambda: up([b.detach()[..., :2].contiguous() for b in bands], plan.text),
        lambda: up([b.detach() for b in bands[:3]], plan.text),
    ):
        with pytest.raises(RuntimeError, match="expected"):
            wrong()


def test_without_the_extension_torch_serves():
    code = (
        "import pathlib\n"
        "glob = pathlib.Path.glob\n"
        "pathlib.Path.glob = lambda p, s: [] if '_native' in s else glob(p, s)\n"
        "import torch, rightfast.wavelets as w\n"
        "w.waverec(w.wavedec(torch.ones(8), 'db2', level=1), 'db2')\n"
        "assert w.served() == 'torch'\n"
        "try:\n"
        "    w.backend('kernel').__enter__()\n"
        "except ValueError as error:\n"
        "    assert 'no-build-isolation' in str(error)\n"
        "else:\n"
        "    raise SystemExit('no error')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def _marked(x):
    """The same values, of which one is only marked: a negation, a conjugation."""
    yield torch._neg_view(-x)
    yield torch.complex(torch.zeros_like(x), -x).conj().imag


def test_marks_of_torch_are_heeded():
    """A negation that torch has only noted belongs to the values; so do zeros without memory."""
    x = torch.randn(2, 8, dtype=torch.float64)
    with ours.backend("torch"):
        right = ours.wavedec(x, "db2", level=1)
    with ours.backend("kernel"):
        for _ in range(2):  # a call that was seen before takes a shorter way
            for marked in _marked(x):
                for got, wanted in zip(ours.wavedec(marked, "db2", level=1), right):
                    torch.testing.assert_close(got, wanted)
                bands = [next(_marked(band)) for band in right]
                torch.testing.assert_close(ours.waverec(bands, "db2"), x)
        low, high = ours.dwt(torch._efficientzerotensor((32,)), "db1")
        assert not low.any()
        assert not high.any()


def test_a_profiler_sees_the_operators_by_name():
    x = torch.randn(2, 64, requires_grad=True)
    ours.waverec(ours.wavedec(x, "haar", "zero", 2), "haar", "zero").sum().backward()
    for step in (x.detach(), x):
        with torch.profiler.profile() as seen:
            bands = ours.wavedec(step, "haar", "zero", 2)
            ours.waverec(bands, "haar", "zero")
        names = [event.key for event in seen.key_averages()]
        assert ours.served() == "kernel"
        assert {"rightfast::dwt_down", "rightfast::dwt_up"} <= set(names)


@pytest.mark.parametrize(
    ("wavelet", "shape", "level"), [("db10", (8, 8, 8), 3), ("db38", (1, 1), 4)]
)
@pytest.mark.parametrize("missing", ["finest", "all"])
def test_missing_bands_where_deeper_levels_are_longer(wavelet, shape, level, missing):
    """Short signals under long filters: the finest level's bands are not the largest ones."""
    full = ours.wavedecn(torch.randn(shape, dtype=torch.float64), wavelet, level=level)
    key = "d" * len(shape)
    without = [
        full[0].clone().requires_grad_(),
        *(
            {k: v for k, v in d.items() if k != key or (missing == "finest" and n < level)}
            for n, d in enumerate(full[1:], 1)
        ),
    ]
    zeros = [
        full[0].clone().requires_grad_(),
        *(
            {k: d.get(k, torch.zeros_like(v)) for k, v in f.items()}
            for f, d in zip(full[1:], without[1:])
        ),
    ]
    found, wanted = (ours.waverecn(c, wavelet) for c in (without, zeros))
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    gradients = [
        torch.autograd.grad(y.sum(), c[0])[0] for y, c in ((found, without), (wanted, zeros))
    ]
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)
