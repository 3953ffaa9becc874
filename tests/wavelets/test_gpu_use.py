"""Wavelets on a GPU as programs use them: backends, out=, streams, graphs, compilers, memory."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from rightfast_kernels.dwt import native

from rightfast import wavelets as ours
from rightfast.runtime import Graphs

from .common import MODES, signal
from .gpu_cases import ON_A_GPU, by_torch, check, check_marks, flat, random, tree_map

pytestmark = ON_A_GPU

CALLS = {
    "lines": lambda x: ours.wavedec(x, "db2", level=2),
    "planes": lambda x: ours.wavedec2(x, "db2", level=2),
    "volumes": lambda x: ours.wavedecn(x, "db2", "periodization", 1),
    "haar": lambda x: ours.wavedec2(x, "haar", "zero", 2),
    "lines back": lambda x: ours.idwt(x, 2 * x, "db2"),
    "planes back": lambda x: ours.waverec2([x, (x, -x, None), *half(2 * x)], "db2"),
    "haar back": lambda x: ours.waverec2([x, (x, -x, 2 * x)], "haar"),
}


def half(x):
    """Details one level finer than those of ``x``."""
    return [tuple(x.repeat(1, 2, 2)[:, 1:-1, 1:-1] for _ in range(3))]


def close(found, wanted):
    for f, w in zip(flat(found), flat(wanted), strict=True):
        torch.testing.assert_close(f.cpu().to(w.dtype), w, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CALLS)
def test_backends_choose(name):
    x = random(5, 16, 20)
    check(CALLS[name], x)  # "auto" takes kernels
    with ours.backend("kernel"):
        kernel = CALLS[name](x.cuda())
        assert ours.served() == "kernel"
    with ours.backend("torch"):
        close(CALLS[name](x.cuda()), by_torch(CALLS[name], x))
        assert ours.served() == "torch"
    close(kernel, by_torch(CALLS[name], x))


def test_what_kernels_do_not_serve():
    x = random(4, 16).cuda()
    bank = [torch.tensor(f, dtype=torch.float64).cuda() for f in ours.Wavelet("db2").filter_bank]
    wavelet = ours.Wavelet("learned", bank)
    close(ours.dwt(x, wavelet), by_torch(lambda x: ours.dwt(x, "db2"), x))
    assert ours.served() == "torch"
    with ours.backend("kernel"), pytest.raises(ValueError, match="expected fixed filters"):
        ours.dwt(x, wavelet)


def test_tensors_of_two_devices_are_refused():
    x = random(4, 16)
    for first, second in ((x, x.cuda()), (x.cuda(), x)):
        for call in (
            lambda a=first, b=second: ours.idwt(a, b, "db2"),
            lambda a=first, b=second: ours.waverec([a, b, b.repeat(1, 2)[:, 1:-1]], "db2"),
            lambda a=first, b=second: ours.waverec2([a, (b, a, a)], "db2"),
        ):
            for _ in range(2):
                with pytest.raises((RuntimeError, ValueError), match="device"):
                    call()
            with ours.backend("kernel"), pytest.raises(ValueError, match="one device"):
                call()
    with pytest.raises(ValueError, match="expected out= on cuda"):
        ours.dwt(x.cuda(), "db2", out=ours.dwt(x, "db2"))


def test_a_band_of_another_device_in_a_call_seen_before():
    """Calls are recalled by their first and last band."""
    here, there = random(9, 9), random(9, 9).cuda()
    for a, b in ((here, there), (there, here)):
        for _ in range(2):
            ours.waverec2([a, (a, a, a)], "db2")
        with pytest.raises((RuntimeError, ValueError), match="device"):
            ours.waverec2([a, (a, b, a)], "db2")


def test_one_tensor_for_two_bands_and_then_two():
    x, y = random(2, 16, 20), random(2, 16, 20, key="y")
    for wavelet, wide in (("haar", 20), ("db4", 20), ("db2", 18)):
        a, b = x[..., :wide].cuda().contiguous(), y[..., :wide].cuda().contiguous()
        for bands in ((a, a, a, a), (a, b, a, b), (a, b, b + 1, a + 1), (a, a, b, b)):
            call = lambda *all: ours.idwt2((all[0], all[1:]), wavelet)  # noqa: E731
            close(call(*bands), by_torch(call, *bands))


OUT = {
    "dwt": lambda x, **o: ours.dwt(x, "db3", "symmetric", 1, **o),
    "wavedec": lambda x, **o: ours.wavedec(x, "haar", level=2, **o),
    "wavedec2": lambda x, **o: ours.wavedec2(x, "bior4.4", "periodization", 2, **o),
    "wavedecn": lambda x, **o: ours.wavedecn(x, "db2", "smooth", 2, (2, 1), **o),
    "idwt": lambda x, **o: ours.idwt(x, x, "db3", **o),
    "waverec2": lambda x, **o: ours.waverec2([x, (x, x, -x)], "db3", **o),
    "waverec2, haar": lambda x, **o: ours.waverec2([x, (x, x, -x)], "haar", **o),
}
MAKERS = {
    "as the result": torch.empty_like,
    "with gaps": lambda t: torch.empty(*t.shape, 2, dtype=t.dtype, device=t.device)[..., 1],
    "wider": lambda t: t.new_empty(t.shape, dtype=torch.promote_types(t.dtype, torch.complex128)),
}


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.complex64])
@pytest.mark.parametrize("name", OUT)
def test_out_is_filled(name, dtype, make):
    x = random(3, 21, 34).cuda().to(dtype)
    wanted = OUT[name](x)
    out = tree_map(lambda t: MAKERS[make](t).fill_(float("nan")), wanted)
    for _ in range(2):
        found = OUT[name](x, out=out)
        for f, o, w in zip(flat(found), flat(out), flat(wanted), strict=True):
            assert f is o
            assert torch.equal(o, w.to(o.dtype))


def test_out_kept_for_a_backward_pass_is_seen_to_change():
    out, w = torch.ones(8).cuda(), torch.ones(8).cuda().requires_grad_()
    loss = (w * out).sum()
    ours.idwt(*torch.ones(2, 4).cuda(), "haar", out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("wavelet", ["haar", "db2"])
def test_an_empty_batch(wavelet):
    x = torch.empty(0, 8, 6).cuda().requires_grad_()
    for call in (ours.wavedec, ours.wavedec2):
        bands = call(x, wavelet, level=1)
        (grad,) = torch.autograd.grad([band.sum() for band in flat(bands)], x)
        assert grad.shape == x.shape
        assert all(band.is_cuda and band.shape[0] == 0 for band in flat(bands))
    assert ours.waverec2(ours.wavedec2(x, wavelet, level=1), wavelet).shape == x.shape


@pytest.mark.parametrize("name", CALLS)
def test_a_graph_is_captured_after_one_call_and_replayed_on_other_data(name):
    x = random(3, 16, 20).cuda()
    CALLS[name](x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = CALLS[name](x)
    for key in "ab":
        other = random(3, 16, 20, key=key)
        x.copy_(other)
        graph.replay()
        close(found, by_torch(CALLS[name], other))


@dataclass(frozen=True)
class Options:
    name: str


def test_recorded_by_the_runtime():
    """Results are copied before the next replay writes to them."""
    for name in CALLS:
        graphs = Graphs(lambda options, x: CALLS[options.name](x), record=True)
        for key in "abc":
            x = random(3, 16, 20, key=key)
            found = graphs(Options(name), fed={"x": x.cuda()})
            close(found, by_torch(CALLS[name], x))
        assert graphs.recordings == len(graphs) == 1


def test_a_training_step_is_captured():
    def loss(x):
        low, *details = ours.wavedec2(x, "db2", "reflect", 2)
        return (ours.waverec2([2 * low, *details], "db2", "reflect") ** 2).sum()

    x = random(3, 16, 20).cuda().requires_grad_()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.autograd.grad(loss(x), x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (found,) = torch.autograd.grad(loss(x), x)
    other = random(3, 16, 20, key="other")
    x.data.copy_(other)
    graph.replay()
    with ours.backend("torch"):
        other.requires_grad_()
        torch.testing.assert_close(found.cpu(), torch.autograd.grad(loss(other), other)[0])


@pytest.mark.parametrize("name", ["lines", "volumes", "haar", "planes back"])
def test_two_streams_at_once(name):
    """What lies between two launches is not shared."""
    data = [random(24, 128, 132, key=key) for key in "ab"]
    wanted = [by_torch(CALLS[name], x) for x in data]
    placed = [x.cuda() for x in data]
    CALLS[name](placed[0])
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    torch.cuda.synchronize()
    found = [[], []]
    for _ in range(5):
        for stream, x, results in zip(streams, placed, found, strict=True):
            with torch.cuda.stream(stream):
                results.append(CALLS[name](x))
    torch.cuda.synchronize()
    for results, want in zip(found, wanted, strict=True):
        for result in results:
            close(result, want)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
@pytest.mark.parametrize("name", CALLS)
def test_another_device_than_the_current_one(name):
    x = random(3, 16, 20)
    for _ in range(2):
        for device in ("cuda:1", "cuda:0"):
            found = CALLS[name](x.to(device))
            assert all(band.device == torch.device(device) for band in flat(found))
            close(found, by_torch(CALLS[name], x))
    assert torch.cuda.current_device() == 0
    with pytest.raises((RuntimeError, ValueError), match="device"):
        ours.idwt(x.to("cuda:0"), x.to("cuda:1"), "db2")


@pytest.mark.parametrize("backend", ["auto", "kernel"])
def test_compiled_in_one_graph(backend):
    def loss(x):
        low, *details = ours.wavedec2(x, "db2", "symmetric", 2)
        return (ours.waverec2([low**2, *details], "db2") ** 3).sum()

    x = random(2, 24, 20).cuda().requires_grad_()
    (wanted,) = torch.autograd.grad(loss(x), x)
    torch._dynamo.reset()
    with ours.backend(backend):
        (found,) = torch.autograd.grad(torch.compile(loss, fullgraph=True)(x), x)
    torch._dynamo.reset()
    torch.testing.assert_close(found, wanted)


def plans(mode):
    """A signal, its bands, and the plan of two levels over the last two axes."""
    x, sizes, lengths = random(2, 13, 10).cuda().requires_grad_(), [13, 10], []
    lo, hi, *_ = map(tuple, ours.Wavelet("db2").filter_bank)
    for _ in range(2):
        below = [ours.dwt_coeff_len(n, 4, mode) for n in sizes]
        lengths.append(list(zip(sizes, below, strict=True)))
        sizes = below
    axes = [native.analysis_axis(dim, mode, lo, hi) for dim in (-2, -1)]
    plan = native.make_plan(axes, lengths, [14, 15]).text
    bands = torch.ops.rightfast.dwt_down(x, plan)
    return x, [band.detach().requires_grad_() for band in bands], plan


@pytest.mark.parametrize("mode", MODES)
def test_opcheck(mode):
    x, bands, plan = plans(mode)
    torch.library.opcheck(torch.ops.rightfast.dwt_down, (x, plan))
    torch.library.opcheck(torch.ops.rightfast.dwt_up, (bands, plan))


def test_the_operators_refuse_bands_of_other_shapes():
    _, bands, plan = plans("symmetric")
    bands = [band.detach() for band in bands]
    for wrong in (
        [band[..., :2] for band in bands],
        bands[:3],
        [*bands[:-1], bands[-1].float()],
        [*bands[:-1], bands[-1].cpu()],
    ):
        with pytest.raises(RuntimeError):
            torch.ops.rightfast.dwt_up(wrong, plan)


def test_vmap():
    x = random(4, 9, 3).cuda()
    whole = ours.wavedec(x, "db2", "reflect", 2, axis=1)
    for axis, dim in ((0, 0), (-2, 0)):
        mapped = torch.vmap(lambda x: tuple(ours.wavedec(x, "db2", "reflect", 2, axis)), dim)
        close(mapped(x), [band.cpu() for band in whole])
    back = torch.vmap(lambda *c: ours.waverec(list(c), "db2", "reflect", axis=0))(*whole)
    torch.testing.assert_close(back[:, :9], x)
    low, high = random(5, 8).cuda(), random(8).cuda()
    mapped = torch.vmap(lambda a, d: ours.idwt(a, d, "db2"), in_dims=(0, None))(low, high)
    torch.testing.assert_close(mapped, ours.idwt(low, high.expand(5, 8), "db2"))
    loss = lambda x: (ours.dwt2(x, "db2")[0] ** 2).sum()  # noqa: E731
    torch.testing.assert_close(
        torch.vmap(torch.func.grad(loss))(x), torch.stack([torch.func.grad(loss)(y) for y in x])
    )


@pytest.mark.parametrize("wavelet", ["haar", "db2"])
def test_marks_of_torch_are_heeded(wavelet):
    check_marks(wavelet)


def test_modules_move():
    x = torch.from_numpy(signal(2, 3, 24, 20, dtype=np.float32))
    down, up = ours.DWT("db2"), ours.IDWT("db2")
    found = up(down.cuda()(x.cuda()))
    torch.testing.assert_close(found.cpu(), up.cpu()(down.cpu()(x)))
