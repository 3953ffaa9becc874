"""Derivatives: first and second, forward and reverse, vectorised, and through the filters."""

import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck

from rightfast import wavelets as ours

from .common import MODES, leaves, signal

pytestmark = pytest.mark.filterwarnings("ignore:Level value")
F = torch.func


def variable(*shape, key=""):
    return torch.from_numpy(signal(*shape, key=key)).requires_grad_()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("wavelet", "n"), [("haar", 7), ("db2", 9), ("bior2.2", 4)])
def test_gradcheck_of_one_axis(wavelet, n, mode):
    def down(x):
        return tuple(ours.wavedec(x, wavelet, mode, 2))

    def up(*coeffs):
        return ours.waverec(list(coeffs), wavelet, mode)

    for function, inputs in (
        (down, (variable(2, n),)),
        (up, [c.detach().requires_grad_() for c in down(variable(2, n))]),
    ):
        assert gradcheck(function, inputs, check_forward_ad=True, check_batched_grad=True)
        assert gradgradcheck(function, inputs)


@pytest.mark.parametrize("mode", MODES)
def test_gradcheck_of_two_axes(mode):
    x = variable(4, 5)
    assert gradcheck(lambda x: leaves(ours.wavedec2(x, "db2", mode, 1)), x, check_forward_ad=True)
    # A product of bands, so that the second derivative is not zero.
    assert gradgradcheck(lambda x: ours.dwt2(x, "haar", mode)[0] ** 3, x)
    coeffs = [c.detach().requires_grad_() for c in leaves(ours.wavedec2(x, "db2", mode, 1))]
    assert gradcheck(lambda a, *d: ours.waverec2([a, d], "db2", mode), coeffs)


def test_gradcheck_of_trimmed_and_missing_bands():
    low, *details = ours.wavedec(variable(13), "db2", level=2)
    given = [low.detach().requires_grad_(), details[-1].detach().requires_grad_()]
    assert gradcheck(lambda a, d: ours.waverec([a, None, d], "db2"), given)
    coeffs = ours.wavedecn(variable(5, 6), "haar", level=1)
    one = coeffs[1]["da"].detach().requires_grad_()
    assert gradcheck(lambda d: ours.waverecn([None, {"da": d}], "haar"), one)


@pytest.mark.parametrize("dtype", [torch.complex128, torch.float64])
def test_gradcheck_of_complex_data(dtype):
    x = torch.randn(9, dtype=dtype, requires_grad=True)
    assert gradcheck(lambda x: tuple(ours.dwt(x, "db2", "antireflect")), x)
    assert gradgradcheck(lambda x: tuple(ours.dwt(x, "db2", "symmetric")), x)


@pytest.mark.parametrize("mode", MODES)
def test_learnable_filters(mode):
    bank = [torch.tensor(f, dtype=torch.float64) for f in ours.Wavelet("db2").filter_bank]
    bank = [f.requires_grad_() for f in bank]

    def round_trip(x, *bank):
        wavelet = ours.Wavelet("learned", bank)
        return ours.waverec(ours.wavedec(x, wavelet, mode, 1), wavelet, mode)

    inputs = (variable(5), *bank)
    assert gradcheck(round_trip, inputs)
    assert gradgradcheck(round_trip, inputs)


def test_learnable_filters_of_another_dtype_and_per_axis():
    bank = [torch.tensor(f, requires_grad=True) for f in ours.Wavelet("db2").filter_bank]
    wavelet = ours.Wavelet("learned", bank)
    x = torch.randn(8, 8, dtype=torch.float64)
    bands = ours.dwtn(x, ("haar", wavelet))
    assert bands["dd"].dtype == torch.float64
    sum((band**2).sum() for band in bands.values()).backward()
    assert bank[0].grad.dtype == bank[0].dtype
    assert bank[0].grad.abs().sum() > 0
    assert bank[2].grad is None


def test_a_bank_of_tensors_is_trained_by_a_step():
    bank = [torch.nn.Parameter(torch.randn(4)) for _ in range(4)]
    optimizer = torch.optim.SGD(bank, lr=1e-2)
    x = torch.randn(16)
    losses = []
    for _ in range(20):
        wavelet = ours.Wavelet("learned", bank)
        error = ours.waverec(ours.wavedec(x, wavelet, level=1), wavelet) - x
        loss = (error**2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_func_grad_is_backward():
    x = variable(3, 20)

    def loss(x):
        return sum((c**2).sum() for c in ours.wavedec(x, "db3", level=2))

    (expected,) = torch.autograd.grad(loss(x), x)
    assert torch.allclose(F.grad(loss)(x.detach()), expected)
    # Per sample, under vmap.
    assert torch.allclose(F.vmap(F.grad(loss))(x.detach()), expected)


def test_jvp_is_the_transform_of_the_tangent():
    x, t = variable(3, 20).detach(), variable(3, 20, key="t").detach()

    def down(x):
        return tuple(ours.wavedec(x, "db3", "antireflect", 2))

    primal, tangent = F.jvp(down, (x,), (t,))
    for one, other in zip((*primal, *tangent), (*down(x), *down(t)), strict=True):
        assert torch.allclose(one, other)
    with forward_ad.dual_level():
        y = ours.waverec(list(down(forward_ad.make_dual(x, t))), "db3", "antireflect")
        assert torch.allclose(forward_ad.unpack_dual(y).tangent, t)


@pytest.mark.parametrize("mode", MODES)
def test_vmap(mode):
    x = variable(4, 9, 3).detach()
    whole = ours.wavedec(x, "db2", mode, 2, axis=1)
    for axis, mapped in ((0, 0), (-2, 0)):
        each = F.vmap(lambda x: tuple(ours.wavedec(x, "db2", mode, 2, axis=axis)), mapped)(x)
        for one, other in zip(each, whole, strict=True):
            assert torch.allclose(one, other)
    last = F.vmap(lambda x: ours.dwt(x, "db2", mode, axis=-1)[1], in_dims=2, out_dims=2)(x)
    assert torch.allclose(last, ours.dwt(x, "db2", mode, axis=1)[1])
    back = F.vmap(lambda *c: ours.waverec(list(c), "db2", mode, axis=0))(*whole)
    assert torch.allclose(back[:, :9], x)


def test_vmap_over_one_of_two_bands_and_twice():
    low, high = variable(5, 8).detach(), variable(8, key="h").detach()
    mapped = F.vmap(lambda a, d: ours.idwt(a, d, "db2"), in_dims=(0, None))(low, high)
    assert torch.allclose(mapped, ours.idwt(low, high.expand(5, 8), "db2"))
    x = variable(2, 3, 8, 8).detach()
    twice = F.vmap(F.vmap(lambda x: ours.dwt2(x, "db2")[0]))(x)
    assert torch.allclose(twice, ours.dwt2(x, "db2")[0])


def test_jacobians_and_hessians():
    x = variable(8).detach()
    low = F.jacrev(lambda x: ours.dwt(x, "db2")[0])(x)
    assert torch.allclose(low, F.jacfwd(lambda x: ours.dwt(x, "db2")[0])(x))
    assert torch.allclose(low @ x, ours.dwt(x, "db2")[0])
    old = torch.autograd.functional.jacobian(lambda x: ours.dwt(x, "db2")[0], x, vectorize=True)
    assert torch.allclose(low, old)
    hessian = F.hessian(lambda x: (ours.dwt(x, "db2")[0] ** 2).sum())(x)
    assert torch.allclose(hessian, 2 * low.T @ low)


def test_results_may_be_changed_in_place_before_backward():
    x = variable(6, 8)
    low, (ch, _, cd) = ours.dwt2(x, "db2")
    low.mul_(2)
    ch[..., 0] = 0
    cd.zero_()
    back = ours.idwt2((low, (ch, None, cd)), "db2")
    back.add_(1).sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gradients(dtype):
    x = torch.randn(3, 16).to(dtype).requires_grad_()
    sum(c.float().sum() for c in ours.wavedec(x, "db2", level=1)).backward()
    assert x.grad.dtype == dtype


def test_autocast_changes_nothing():
    x = torch.randn(4, 32, requires_grad=True)
    bank = [torch.tensor(f) for f in ours.Wavelet("db2").filter_bank]
    for wavelet in ("db2", ours.Wavelet("tensors", bank)):
        expected = ours.wavedec(x, wavelet, level=2)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            actual = ours.wavedec(x, wavelet, level=2)
        for one, other in zip(actual, expected, strict=True):
            assert torch.equal(one, other)


def test_no_grad_records_nothing():
    x = variable(8)
    with torch.no_grad():
        assert not any(c.requires_grad for c in ours.dwt(x, "db2"))


@pytest.mark.parametrize("wavelet", ["haar", "db2", "bior2.2"])
def test_transforms_inside_a_batched_backward_pass(wavelet):
    """As in a function of one's own, whose gradient is itself a transform."""

    class Wavelets(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            one = ours.wavedec2(g, wavelet, level=2)
            line = ours.waverec(ours.wavedec(g, wavelet, level=1), wavelet)
            some = ours.idwtn(ours.dwtn(g, wavelet), wavelet)
            return ours.waverec2([2 * one[0], *one[1:]], wavelet) + line + some

    x, many = variable(16, 12), torch.from_numpy(signal(3, 16, 12))
    for _ in range(2):  # the second time such calls have been seen, each alone
        (found,) = torch.autograd.grad(Wavelets.apply(x), x, many, is_grads_batched=True)
        each = [torch.autograd.grad(Wavelets.apply(x), x, g)[0] for g in many]
        torch.testing.assert_close(found, torch.stack(each), rtol=0, atol=1e-12)
