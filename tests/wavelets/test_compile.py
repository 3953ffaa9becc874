"""torch.compile in one graph, torch.export, tracing, fake tensors."""

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from rightfast import wavelets as ours
from rightfast.wavelets import gpu

from .common import MODES, leaves

pytestmark = pytest.mark.filterwarnings("ignore:Level value")


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def check(function, *args, **options):
    """The compiled function, in one graph, gives what the function gives."""
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager", **options)
    flat = torch.utils._pytree.tree_leaves
    for one, other in zip(flat(compiled(*args)), flat(function(*args)), strict=True):
        torch.testing.assert_close(one, other)


QUICK = ("symmetric", "periodization", "antireflect")
SOME_MODES = [m if m in QUICK else pytest.param(m, marks=pytest.mark.slow) for m in MODES]


@pytest.mark.parametrize("mode", SOME_MODES)
def test_round_trip_by_name_in_one_graph(mode):
    def round_trip(x):
        return ours.waverec(ours.wavedec(x, "db2", mode, 2), "db2", mode)

    check(round_trip, torch.randn(2, 13))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_round_trip_of_two_axes_in_one_graph(mode):
    def round_trip(x):
        return ours.waverec2(ours.wavedec2(x, "db2", mode, 2), "db2", mode)

    check(round_trip, torch.randn(2, 13, 16))


FORMS = {
    "default level": lambda x: ours.wavedec(x, "db2"),
    "level above the maximum": lambda x: ours.wavedec(x, "db2", level=5),
    "old mode name": lambda x: ours.dwt(x, "haar", "per"),
    "mode by number": lambda x: ours.dwt(x, "haar", ours.Modes.reflect),
    "per axis": lambda x: ours.dwtn(x, ("haar", "db3"), ("zero", "smooth"), axes=(1, -1)),
    "wavelet object": lambda x: ours.wavedecn(x, OBJECT, level=1, axes=(1, 2)),
    "None band": lambda x: ours.idwt(None, x, "db2"),
    "integers": lambda x: ours.dwt((x * 10).int(), "db2"),
    "half": lambda x: ours.dwt(x.bfloat16(), "db2"),
    "complex": lambda x: torch.view_as_real(ours.dwt(torch.complex(x, x), "db2")[0]),
    "packed": lambda x: ours.coeffs_to_array(ours.wavedec2(x[0], "db2", level=1))[0],
    "func.grad": lambda x: torch.func.grad(lambda x: (ours.dwt(x, "db2")[0] ** 2).sum())(x),
    "vmap": lambda x: torch.func.vmap(lambda x: ours.dwt(x, "db2", axis=0)[0])(x),
    "module": lambda x: MODULE(x[None]),
}
OBJECT = ours.Wavelet("bior4.4")
MODULE = ours.DWT("db2")


@pytest.mark.parametrize("form", FORMS)
def test_each_form_in_one_graph(form):
    check(FORMS[form], torch.randn(2, 12, 16))


def test_learnable_filters_in_one_graph():
    module = ours.DWT("db2", dims=1, learnable=True)
    x = torch.randn(2, 3, 16)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    (compiled(x) ** 2).sum().backward()
    actual = module.dec_lo.grad.clone()
    module.zero_grad()
    (module(x) ** 2).sum().backward()
    torch.testing.assert_close(actual, module.dec_lo.grad)


def test_backward_of_the_compiled_graph():
    def loss(x):
        return sum((c**2).sum() for c in leaves(ours.wavedec2(x, "db3", level=1)))

    x = torch.randn(2, 12, 16, requires_grad=True)
    (expected,) = torch.autograd.grad(loss(x), x)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(x), x)[0], expected)


@pytest.mark.slow
def test_lengths_may_change_between_calls():
    compiled = torch.compile(
        lambda x: ours.wavedec(x, "db2", level=2), fullgraph=True, backend="aot_eager"
    )
    for n in (16, 20, 33, 50):
        x = torch.randn(2, n)
        for one, other in zip(compiled(x), ours.wavedec(x, "db2", level=2), strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_inductor(mode):
    def loss(x):
        return sum((c**2).sum() for c in leaves(ours.wavedec2(x, "bior2.2", mode, 2)))

    # Float64: near the borders smooth and antireflect cancel, and the order of the sums differs.
    x = torch.randn(2, 24, 32, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(loss(x), x)
    compiled = torch.compile(loss, fullgraph=True)
    torch.testing.assert_close(torch.autograd.grad(compiled(x), x)[0], expected)


class Model(torch.nn.Module):
    def forward(self, x):
        return ours.wavedec2(x, "db2", "symmetric", 2)


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict):
    x = torch.randn(4, 16, 16)
    batch = torch.export.Dim("batch")
    exported = torch.export.export(Model(), (x,), strict=strict, dynamic_shapes=({0: batch},))
    for one, other in zip(leaves(exported.module()(x[:3])), leaves(Model()(x[:3])), strict=True):
        torch.testing.assert_close(one, other)


MODULES = {
    "down": (ours.DWT("db2"), torch.randn(2, 4, 8, 8)),
    "up": (ours.IDWT("db2", "periodization"), torch.randn(2, 4, 8, 8)),
    "down 1-D": (ours.DWT("bior4.4", "reflect", dims=1), torch.randn(2, 4, 21)),
    "learnable": (ours.IDWT("db3", dims=1, learnable=True), torch.randn(2, 4, 21)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODULES)
def test_jit_trace(name):
    module, x = MODULES[name]
    traced = torch.jit.trace(module, x)
    other = torch.randn(3, *x.shape[1:])
    torch.testing.assert_close(traced(other), module(other))


@pytest.mark.parametrize("name", MODULES)
def test_export_of_the_modules(name):
    module, x = MODULES[name]
    batch = torch.export.Dim("batch")
    exported = torch.export.export(module, (x,), dynamic_shapes=({0: batch},)).module()
    other = torch.randn(3, *x.shape[1:])
    torch.testing.assert_close(exported(other), module(other))


def test_make_fx_fake_and_meta_tensors():
    x = torch.randn(3, 16)
    graph = make_fx(lambda x: ours.dwt(x, "db2")[0])(x)
    torch.testing.assert_close(graph(x + 1), ours.dwt(x + 1, "db2")[0])
    with FakeTensorMode():
        assert ours.dwt(torch.empty(3, 16), "db2")[0].shape == (3, 9)
    assert ours.dwt(torch.empty(3, 16, device="meta"), "db2")[0].shape == (3, 9)


def test_a_compiler_asks_for_a_gpu_whether_or_not_somebody_has_asked_before():
    gpu.available.cache_clear()
    compiled = torch.compile(lambda x: x + gpu.available(), fullgraph=True, backend="eager")
    assert compiled(torch.zeros(2)).tolist() == [float(torch.cuda.is_available())] * 2
