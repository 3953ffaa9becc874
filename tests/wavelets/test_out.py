"""`out=`: results in tensors that are there, on both paths; what may not be written to."""

import pytest
import torch
from rightfast_kernels.dwt import native

from rightfast import wavelets as ours

from .common import signal

leaves = torch.utils._pytree.tree_leaves
BACKENDS = ["torch", *(["kernel"] if native.available else [])]
X = torch.from_numpy(signal(3, 21, 34))
N_D = {"axes": (0, 2)}
C1 = ours.wavedec(X, "db3", level=2)
C2 = ours.wavedec2(X, "db3", level=2)
CN = ours.wavedecn(X, "db3", level=2, axes=(0, 2))
B2, BN = ours.dwt2(X, "db3"), ours.dwtn(X, "db3", **N_D)
DOWN = {
    "dwt": lambda x, **o: ours.dwt(x, "db3", "symmetric", 1, **o),
    "dwt2": lambda x, **o: ours.dwt2(x, "db3", "reflect", (2, 1), **o),
    "dwtn": lambda x, **o: ours.dwtn(x, "db3", "smooth", axes=(2, 0), **o),
    "wavedec": lambda x, **o: ours.wavedec(x, "db3", level=2, **o),
    "wavedec2": lambda x, **o: ours.wavedec2(x, "bior4.4", "periodization", 2, **o),
    "wavedecn": lambda x, **o: ours.wavedecn(x, "haar", "zero", 2, (2, 1), **o),
    "level 0": lambda x, **o: ours.wavedec2(x, "haar", level=0, **o),
}
UP = {
    "idwt": lambda t, **o: ours.idwt(t(C1[0]), t(C1[0]), "db3", **o),
    "idwt2": lambda t, **o: ours.idwt2((t(B2[0]), tuple(map(t, B2[1]))), "db3", **o),
    "idwtn": lambda t, **o: ours.idwtn({k: t(v) for k, v in BN.items()}, "db3", **N_D, **o),
    "waverec": lambda t, **o: ours.waverec(list(map(t, C1)), "db3", **o),
    "waverec2": lambda t, **o: ours.waverec2(
        [t(C2[0]), *(tuple(map(t, d)) for d in C2[1:])], "db3", **o
    ),
    "waverecn": lambda t, **o: ours.waverecn(
        [t(CN[0]), *({k: t(v) for k, v in d.items()} for d in CN[1:])], "db3", **N_D, **o
    ),
    "one entry": lambda t, **o: ours.waverec([t(X)], "db3", **o),
}
DTYPES = (torch.float64, torch.float32, torch.float16, torch.complex64)

pytestmark = pytest.mark.filterwarnings("ignore:Level value")


@pytest.fixture(autouse=True, params=BACKENDS)
def path(request):
    with ours.backend(request.param):
        yield request.param


def like(tree, make=torch.empty_like):
    return torch.utils._pytree.tree_map(lambda t: make(t).fill_(float("nan")), tree)


def strided(t):
    return torch.empty(*t.shape, 2, dtype=t.dtype)[..., 1]


def wider(t):
    return torch.empty(t.shape, dtype=torch.promote_types(t.dtype, torch.complex128))


@pytest.mark.parametrize("make", [torch.empty_like, strided, wider])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DOWN)
def test_a_decomposition_fills_what_is_given(name, dtype, make):
    x = X.to(dtype)
    wanted, out = DOWN[name](x), like(DOWN[name](x), make)
    found = DOWN[name](x, out=out)
    assert type(found) is type(wanted)
    for f, o, w in zip(leaves(found), leaves(out), leaves(wanted), strict=True):
        assert any(f is each for each in leaves(out))
        assert torch.equal(f, w.to(f.dtype))
        assert torch.equal(o, w.to(o.dtype))


@pytest.mark.parametrize("make", [torch.empty_like, strided, wider])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UP)
def test_a_reconstruction_fills_what_is_given(name, dtype, make):
    wanted = UP[name](lambda band: band.to(dtype))
    out = like(wanted, make)
    assert UP[name](lambda band: band.to(dtype), out=out) is out
    assert torch.equal(out, wanted.to(out.dtype))


def test_what_served_is_told(path):
    ours.waverec(C1, "db3", out=ours.waverec(C1, "db3"))
    assert ours.served() == path
    ours.wavedec(X, "db3", out=ours.wavedec(X, "db3"))
    assert ours.served() == path


def test_both_packed_layouts_are_filled_in_place():
    packed, slices = ours.coeffs_to_array(ours.wavedec2(X[0], "db3", level=2))
    room = torch.zeros_like(packed)
    views = ours.array_to_coeffs(room, slices, "wavedec2")
    found = ours.wavedec2(X[0], "db3", level=2, out=views)
    assert torch.equal(room, packed)
    assert ours.coeffs_to_array(found)[0] is room
    flat, *how = ours.ravel_coeffs(ours.wavedec(X, "db3", level=2), axes=(-1,))
    room = torch.zeros_like(flat)
    ours.wavedec(X, "db3", level=2, out=ours.unravel_coeffs(room, *how, "wavedec"))
    assert torch.equal(room, flat)


def test_a_result_may_go_over_what_it_was_made_of_where_views_interleave():
    """Out of reach of any check but right: the result is made first."""
    room = X[0, :8, :8].clone()  # its even columns become the low band, its odd ones the high
    wanted = ours.dwt(room, "haar")
    found = ours.dwt(room, "haar", out=(room[:, ::2], room[:, 1::2]))
    assert torch.equal(room[:, ::2], wanted[0])
    assert torch.equal(found[1], wanted[1])
    wanted = ours.idwt(*(band.clone() for band in found), "haar")
    assert ours.idwt(*found, "haar", out=room) is room
    assert torch.equal(room, wanted)


F = torch.zeros


def D():
    return torch.zeros(3, 21, 68, dtype=torch.float64)


REFUSED = {
    "shape": (lambda: ours.idwt(X, X, "haar", out=F(3)), ValueError, r"shape \(3, 21, 68\), got"),
    "empty": (lambda: ours.idwt(X, X, "haar", out=F(0)), ValueError, r"got \(0,\); give torch"),
    "dtype": (lambda: ours.idwt(X, X, "haar", out=F(3, 21, 68).int()), TypeError, "got torch.int"),
    "real": (lambda: ours.idwt(X * 1j, X, "haar", out=F(3, 21, 68)), TypeError, "holds torch.com"),
    "device": (lambda: ours.idwt(X, X, "haar", out=F(3, 21, 68, device="meta")), ValueError,
               "expected out= on cpu, got meta"),
    "array": (lambda: ours.idwt(X, X, "haar", out=X.numpy()), TypeError, "got ndarray"),
    "sparse": (lambda: ours.idwt(X, X, "haar", out=X.to_sparse()), TypeError, "dense tensors"),
    "one": (lambda: ours.dwt(X, "haar", out=X), ValueError, "tuple of 2 entries, got Tensor"),
    "count": (lambda: ours.wavedec(X, "haar", level=3, out=[X]), ValueError, "4 entries, got 1"),
    "level": (lambda: ours.wavedec2(X, "haar", level=1, out=[X, X]), ValueError, r"got \['d'\]"),
    "pair": (lambda: ours.dwt2(X, "haar", out=(X, (X, X))), ValueError, r"got \['0', '1'\]"),
    "no dict": (lambda: ours.dwtn(X, "haar", out=[X]), ValueError, "'aaa' among them, got list"),
    "keys": (lambda: ours.dwtn(X, "haar", axes=1, out={"a": X}), ValueError, r"got \[\]"),
    "expanded": (lambda: ours.idwt(X, X, "haar", out=F(1).expand(3, 21, 68)), ValueError,
                 "expanded tensor; clone"),
    "gradient": (lambda: ours.idwt(X.clone().requires_grad_(), X, "haar", out=D()),
                 ValueError, "records no derivatives.*no_grad"),
    "leaf": (lambda: ours.idwt(X, X, "haar", out=F(3, 21, 68).double().requires_grad_()),
             ValueError, "records no derivatives"),
    "vmap": (lambda: torch.vmap(lambda x: ours.waverec([x], "haar", out=F(21, 34).double()))(X),
             ValueError, "records no derivatives"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    call, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        call()


def test_shared_memory_is_refused():
    room = torch.zeros(100, dtype=torch.float64)
    low, high = room[:10], room[5:15]
    with pytest.raises(ValueError, match="overlaps another tensor of out="):
        ours.dwt(room[50:70], "haar", out=(low, high))
    with pytest.raises(ValueError, match="overlaps an input; clone"):
        ours.dwt(room[9:29], "haar", out=(low, room[50:60]))
    with pytest.raises(ValueError, match="overlaps an input"):
        ours.idwt(low, room[50:60], "haar", out=room[:20])
    ours.idwt(low, room[50:60], "haar", out=room[10:30])  # side by side is fine


def test_a_tensor_kept_for_a_backward_pass_is_seen_to_change():
    out = torch.ones(8, requires_grad=False)
    w = torch.ones(8, requires_grad=True)
    loss = (w * out).sum()
    ours.idwt(torch.ones(4), torch.ones(4), "haar", out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_without_gradients_a_leaf_may_be_filled():
    weight = torch.nn.Parameter(torch.zeros(8))
    with torch.no_grad():
        ours.idwt(torch.ones(4), torch.zeros(4), "haar", out=weight)
    assert torch.allclose(weight, torch.full((8,), 0.5**0.5))
    with torch.inference_mode():
        out = torch.zeros(8)
        assert ours.idwt(torch.ones(4), torch.zeros(4), "haar", out=out) is out
    assert torch.allclose(out, weight)
    with pytest.raises(RuntimeError, match="nference"):
        ours.idwt(torch.ones(4), torch.zeros(4), "haar", out=out)


def test_an_empty_batch():
    out = [torch.empty(0, 4), torch.empty(0, 4)]
    assert ours.dwt(torch.empty(0, 8), "haar", out=out)[0] is out[0]
    back = torch.empty(0, 8)
    assert ours.idwt(*out, "haar", out=back) is back


def test_compiled():
    def both(x, out, back):
        bands = ours.wavedec2(x, "db3", level=2, out=out)
        return ours.waverec2(bands, "db3", out=back)

    out, back = like(C2), torch.full((3, 22, 34), float("nan"), dtype=torch.float64)
    torch._dynamo.reset()
    torch.compile(both, fullgraph=True, backend="aot_eager")(X, out, back)
    torch._dynamo.reset()
    for o, c in zip(leaves(out), leaves(C2), strict=True):
        torch.testing.assert_close(o, c)
    torch.testing.assert_close(back[:, :21], X)


@pytest.mark.skipif(not native.available, reason="the native kernels were not built")
def test_a_mode_that_looks_on_sees_the_operators():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Look(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    seen, out = [], ours.dwt(X, "haar")
    with ours.backend("kernel"), Look():
        ours.dwt(X, "haar", out=out)
        ours.idwt(*out, "haar", out=X.clone())
    assert "rightfast.dwt_down_into.default" in seen
    assert "rightfast.dwt_up_into.default" in seen


def test_half_precision_is_rounded_wherever_it_goes():
    """The kernel computes float16 in float32; the result is float16 all the same."""
    x = torch.randn(4, 16).half()
    low, high = ours.dwt(x, "db2")
    wide = tuple(torch.empty(low.shape) for _ in range(2))
    ours.dwt(x, "db2", out=wide)
    assert torch.equal(wide[0], low.float())
    assert torch.equal(wide[1], high.float())
    back = torch.empty(4, 16)
    ours.idwt(low, high, "db2", out=back)
    assert torch.equal(back, ours.idwt(low, high, "db2").float())


def test_tensors_without_data():
    x = torch.empty(4, 16, device="meta")
    out = tuple(torch.empty(4, 8, device="meta") for _ in range(2))
    with ours.backend("auto"):
        assert ours.dwt(x, "haar", out=out)[0] is out[0]


def test_the_same_view_twice_is_refused():
    room = torch.empty(4, 16)
    view = room[:, ::2]
    with pytest.raises(ValueError, match="same view twice"):
        ours.dwt(torch.randn(4, 16), "haar", out=(view, view))
