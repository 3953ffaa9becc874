"""Wavelets by Triton kernels, interpreted on the CPU, against torch operations in float64. In a
process of their own, since Triton decides when it is imported whether to interpret kernels."""

import os
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from rightfast_kernels.dwt import native

pytest.importorskip("triton")

from rightfast import runtime
from rightfast import wavelets as ours
from rightfast.runtime import best_of, choices
from rightfast.wavelets import backends, decompose, gpu, gpu_passes, gpu_tuned
from rightfast.wavelets.gpu_cuts import Cut
from rightfast.wavelets.single import prepare

from .common import MODES
from .gpu_cases import (
    INTERPRETED,
    by_torch,
    check,
    check_marks,
    flat,
    random,
    recorded,
    tree_map,
    wide,
)

pytestmark = pytest.mark.filterwarnings("ignore:Level value")
interpreted = pytest.mark.skipif(not INTERPRETED, reason="not interpreted: see the last test")
RECONSTRUCTIONS = ["zero", "periodization"]  # all other modes have that of zero


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    """The public functions take these kernels for tensors of the CPU."""
    if INTERPRETED:
        own = {
            "available": True,
            "down": gpu.down,
            "up": gpu.up,
            "down_into": gpu.down,
            "up_into": gpu.up,
        }
        monkeypatch.setattr(backends, "native", SimpleNamespace(**{**vars(native), **own}))
        # Fewer programs, which are slow here; `test_other_cuts` has shorter strips.
        monkeypatch.setattr(gpu_passes, "cut_for", lambda *_: Cut(16))
    gpu.forget()


def both_ways(x, wavelet, mode, level=1, axes=None):
    """A decomposition and its gradient; the reconstruction, where this mode has one of its own."""
    axes = tuple(range(x.ndim)) if axes is None else axes

    def down(x):
        return ours.wavedecn(x, wavelet, mode, level, axes)

    def up(*bands):
        coeffs = torch.utils._pytree.tree_unflatten(bands, structure)
        return ours.waverecn(coeffs, wavelet, mode, axes)

    check(lambda x: recorded(down, x), x)
    if mode not in RECONSTRUCTIONS:
        return
    with ours.backend("torch"):
        coeffs = down(x)
    structure = torch.utils._pytree.tree_structure(coeffs)
    check(lambda *bands: recorded(up, *bands), *flat(coeffs))


@interpreted
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wavelet", ["haar", "db3"])
def test_lines(wavelet, mode):
    both_ways(random(2, 21), wavelet, mode, 2, (1,))
    both_ways(random(3, 4), wavelet, mode, 1, (0,))  # shorter than the filter


@interpreted
@pytest.mark.parametrize("mode", MODES)
def test_lines_of_many_blocks(mode):
    """Only the blocks at the ends look past them."""
    both_ways(random(1, 1400), "db2", mode, 1, (1,))
    both_ways(random(90, 10), "db2", mode, 1, (0,))


@interpreted
def test_long_filters():
    both_ways(random(70), "dmey", "reflect")
    both_ways(random(9), "db11", "smooth")
    both_ways(random(3, 4), "db11", "zero")


@interpreted
@pytest.mark.parametrize("mode", MODES)
def test_planes(mode):
    both_ways(random(8, 9), "db2", mode, 2 if mode == "zero" else 1)
    both_ways(random(2, 3), "db2", mode)  # shorter than the filter


@interpreted
def test_planes_and_longer_filters():
    low, high = random(10, 11), random(10, 11, key="high")
    for wavelet, mode in (("bior4.4", "periodization"), ("db10", "reflect")):
        check(lambda x: ours.dwt2(x, wavelet, mode), random(20, 13))
        check(lambda a, d: ours.idwt2((a, (d, None, d)), wavelet, mode), low, high)


@interpreted
@pytest.mark.parametrize(("mode", "n"), [("zero", 236), ("periodization", 240), ("reflect", 238)])
def test_planes_of_two_columns_a_thread(mode, n):
    """Both levels; rows are padded between them."""
    x = random(6, n, dtype=torch.float32)
    for _ in range(2):  # a call that was seen before takes a shorter way
        check(lambda x: ours.wavedec2(x, "db2", mode, 2), x, tolerance=2e-6)
    with ours.backend("torch"):
        coeffs = ours.wavedec2(x, "db2", mode, 2)
    structure = torch.utils._pytree.tree_structure(coeffs)

    def up(*bands):
        return ours.waverec2(torch.utils._pytree.tree_unflatten(bands, structure), "db2", mode)

    for _ in range(2):
        check(up, *flat(coeffs), tolerance=2e-6)


@interpreted
@pytest.mark.parametrize(("mode", "n"), [("zero", 140), ("periodization", 141), ("symmetric", 140)])
def test_planes_of_several_strips(mode, n):
    """Those in the middle need nothing past the ends of a row."""
    both_ways(random(3, n), "db2", mode)


@interpreted
def test_one_mode_and_wavelet_for_each_axis():
    for modes in (("symmetric", "zero"), ("periodization", "reflect"), ("smooth", "symmetric")):
        both_ways(random(7, 8), ("db2", "bior2.2"), modes)
        both_ways(random(4, 1, 5), ("db2", "haar"), modes, 1, (2, 0))


@interpreted
@pytest.mark.parametrize("axes", [(0, 1), (2, 0), (1, 0, 2)])
def test_any_axes(axes):
    both_ways(random(4, 5, 3, 2), "haar", "symmetric", 2, axes)
    both_ways(random(4, 2, 4, 1), "db2", "symmetric", 1, axes)


@interpreted
@pytest.mark.parametrize("mode", ["periodization", "antireflect"])
def test_volumes(mode):
    both_ways(random(2, 4, 5), "db2", mode)


@interpreted
@pytest.mark.parametrize("wavelet", ["haar", "db2"])
def test_missing_bands(wavelet):
    """They are zeros."""
    a, b, c = random(1, 3, 4), random(1, 3, 4, key="b"), random(1, 4, 6, key="c")
    fine = c if wavelet == "db2" else random(1, 6, 8)
    for call in (
        lambda a, b, c: ours.waverec2([a, (None, b, None), (None, None, c)], wavelet),
        lambda a, b, c: ours.waverec2([None, (b, None, None), (c, c, c)], wavelet),
        lambda a, b, c: ours.waverec2([None, (None, None, None), (None, c, None)], wavelet),
        lambda a, b, c: ours.waverecn([a, {}, {"da": c}], wavelet, axes=(1, 2)),
        lambda a, b, c: ours.waverecn([a, {"ddd": b}], wavelet, "periodization"),
        lambda a, b, c: ours.waverec([None, b, None, None], wavelet),
        lambda a, b, c: ours.idwt(a, None, wavelet, axis=1),
    ):
        check(call, a, b, fine)


@interpreted
def test_an_approximation_that_is_one_longer():
    for wavelet in ("haar", "db2"):
        low, *details = ours.wavedec2(random(9, 7), wavelet, level=2)
        longer = torch.nn.functional.pad(low, (0, 1, 0, 1), value=float("nan"))

        def call(low, *bands, wavelet=wavelet):
            return ours.waverec2([low, *(bands[i : i + 3] for i in (0, 3))], wavelet)

        bands = [band for level in details for band in level]
        check(call, low, *bands)
        found = call(longer, *bands)
        torch.testing.assert_close(found, call(low, *bands))


@interpreted
@pytest.mark.parametrize("wavelet", ["haar", "db2"])
def test_complex_data_and_gaps(wavelet):
    x = torch.complex(random(1, 5, 4), random(1, 5, 4, key="i"))
    both_ways(x[0], wavelet, "reflect")
    both_ways(x, wavelet, "zero", 2, (1,))
    check(lambda x: ours.dwt2(x.mT.conj(), wavelet), x)
    check(lambda x: ours.dwt(x[:, ::2].expand(2, 3, 4), wavelet), x[:1])


@interpreted
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("wavelet", "mode", "axes"),
    [
        ("haar", "zero", (0, 1)),
        ("db2", "symmetric", (0, 1)),
        ("db2", "antireflect", (0,)),
        ("db3", "smooth", (0,)),
    ],
)
def test_narrow_dtypes_are_rounded_once(wavelet, mode, axes, dtype):
    """Sums are float32, through all levels."""
    x = random(7, 6, dtype=dtype)
    plan = decompose.native_of(tuple(prepare(wavelet, mode, list(axes), 2)), 2, (7, 6), False)
    call = lambda x: ours.wavedecn(x, wavelet, mode, 2, axes)  # noqa: E731
    bands = plan.down(x, gpu.down)
    rounded_once(plan.down(x, gpu.down), by_torch(call, x), dtype)

    def adjoint(*bands):
        zeros = torch.zeros(7, 6, dtype=bands[0].dtype, requires_grad=True)
        return torch.autograd.grad(flat(call(zeros)), zeros, bands)

    rounded_once([plan.up(bands, gpu.up)], by_torch(adjoint, *bands), dtype)


def rounded_once(found, wanted, dtype):
    for f, w in zip(found, wanted, strict=True):
        assert f.dtype == dtype
        # Triton's interpreter cuts off what bfloat16 does not hold, where a GPU rounds.
        steps = 1 if dtype == torch.bfloat16 else 0.5
        limit = steps * torch.finfo(dtype).eps * w.abs() + 1e-6 * w.abs().max()
        assert bool(((wide(f) - w).abs() <= limit).all())


CASES = [
    ((3, 13), "haar", "symmetric", (1,)),
    ((3, 12), "haar", "zero", (1,)),
    ((5, 6), "db2", "reflect", (0, 1)),
    ((5, 2), "db2", "antireflect", (0,)),
    ((4, 6), "db2", "periodization", (0, 1)),
]


@interpreted
@pytest.mark.parametrize(("shape", "wavelet", "mode", "axes"), CASES)
def test_each_direction_is_the_adjoint_of_the_other(shape, wavelet, mode, axes):
    plan = decompose.native_of(
        tuple(prepare(wavelet, mode, list(axes), len(shape))), 2, shape, False
    )
    x = random(*shape)
    bands = plan.down(x, gpu.down)
    given = [random(*band.shape, key=i) for i, band in enumerate(bands)]
    left = sum(float((a * b).sum()) for a, b in zip(bands, given, strict=True))
    right = float((x * plan.up(given, gpu.up)).sum())
    assert abs(left - right) <= 1e-12 * float(x.norm()) * sum(float(b.norm()) for b in given)


@interpreted
@pytest.mark.parametrize(("shape", "wavelet", "mode", "axes"), CASES)
def test_nothing_around_is_touched(shape, wavelet, mode, axes):
    """The tensors lie in the middle of larger ones, which keep what they had."""

    def inside(like):
        wholes.append(torch.full((like.numel() + 64,), 7.0, dtype=like.dtype))
        return wholes[-1][32 : 32 + like.numel()].view(like.shape).fill_(float("nan"))

    wholes, x = [], random(*shape)
    for _ in range(2):
        bands = ours.wavedecn(x, wavelet, mode, 2, axes)
        out = tree_map(inside, bands)
        ours.wavedecn(x, wavelet, mode, 2, axes, out=out)
        assert all(map(torch.equal, flat(out), flat(bands)))
        back = ours.waverecn(bands, wavelet, mode, axes)
        place = inside(back)
        before = place._version
        assert torch.equal(ours.waverecn(bands, wavelet, mode, axes, out=place), back)
        assert all(x._version > before for x in (place, *flat(out)))
    assert ours.served() == "kernel"
    for whole in wholes:
        assert bool((whole[:32] == 7).all())
        assert bool((whole[-32:] == 7).all())


@interpreted
@pytest.mark.parametrize("wavelet", ["haar", "db2"])
def test_by_a_recipe_as_the_first_time(wavelet):
    """And one tensor that was given for two bands says nothing about the next call."""
    shape = (1, 4, 4)
    a, b, c, d = (random(*shape, key=key) for key in "abcd")
    call = lambda *all: ours.idwt2((all[0], all[1:]), wavelet)  # noqa: E731
    for bands in (
        (a, a, a, a),
        (a, b, a, b),
        (a, b, c, d),
        (b, d, a, c),
        (d, d, d, d),
        (b, a, d, c),
    ):
        torch.testing.assert_close(call(*bands), by_torch(call, *bands)[0])
    assert len(gpu._recipes) == 1
    x = random(1, 5, 6)
    first, known = ours.wavedec2(x, wavelet, level=2), len(gpu._recipes)
    for other in (x, 2 * x):
        check(lambda x: ours.wavedec2(x, wavelet, level=2), other)
    assert len(gpu._recipes) == known
    assert all(map(torch.equal, flat(ours.wavedec2(x, wavelet, level=2)), flat(first)))
    check(lambda x: ours.wavedec2(x, wavelet, level=2), x.float(), tolerance=1e-6)
    check(lambda x: ours.wavedec2(x, wavelet, level=2), random(2, 5, 6))


@interpreted
@pytest.mark.parametrize("mode", ["symmetric", "antireflect"])
@pytest.mark.parametrize("wavelet", ["haar", "bior2.2"])
def test_infinities_and_nan_stay_where_the_formula_puts_them(wavelet, mode):
    """A tap of zero is not multiplied: 0 times inf is NaN."""
    x = random(6, 7)
    x[3, 4], x[0, 6] = float("inf"), float("nan")
    taps = ours.Wavelet(wavelet).dec_len

    def adjoint(low):
        zeros = torch.zeros(14 - taps, 16 - taps, dtype=low.dtype, requires_grad=True)
        return torch.autograd.grad(ours.dwt2(zeros, wavelet, mode)[0], zeros, low)

    for call in (
        adjoint,
        lambda x: ours.dwt2(x, wavelet, mode),
        lambda x: ours.dwt(x, wavelet, mode, axis=0),
        lambda x: ours.idwt2((x, (x, None, x)), wavelet),
    ):
        for found, wanted in zip(flat(call(x)), by_torch(call, x), strict=True):
            assert torch.equal(found.isfinite(), wanted.isfinite())


@interpreted
@pytest.mark.parametrize("mode", ["reflect", "periodization", "smooth"])
def test_other_cuts(mode, monkeypatch):
    """Offsets of 64 bits, which large tensors need; short strips, one row a round."""
    made = gpu_passes.launch_of

    def wide_launch(kernel, **meta):
        return made(kernel, **{**meta, **({"WIDE": True} if "WIDE" in meta else {})})

    monkeypatch.setattr(gpu_passes, "launch_of", wide_launch)
    both_ways(random(5, 6), "db2", mode)
    both_ways(random(2, 9, 2), "db2", mode, 1, (1,))
    monkeypatch.setattr(gpu_passes, "cut_for", lambda *_: Cut(2, batch=1))
    both_ways(random(8, 5), "db2", mode)


@interpreted
def test_cuts_are_tried_and_one_that_is_wrong_is_not_used(monkeypatch):
    used = []

    def cut_for(x, axis, down, given):
        used.append(given)
        return given or Cut(16)

    def clock(run):
        run()
        return {None: 3.0, Cut(8): 2.0, Cut(2): 4.0}[used[-1]]

    monkeypatch.setattr(gpu_passes, "cut_for", cut_for)
    cuts = {"usual": None, "wrong": Cut(0), "quick": Cut(8), "slow": Cut(2)}
    monkeypatch.setattr(gpu_tuned, "CUTS", cuts)
    monkeypatch.setattr(runtime, "best_of", partial(best_of, clock=clock))
    x = random(1, 13, 14)
    with ours.tuned(), pytest.warns(RuntimeWarning, match="candidate 'wrong'"):
        check(lambda x: ours.wavedec2(x, "db2", level=1), x)
    assert choices()[-1].winner == "quick"
    assert used[-1] == Cut(8)


@interpreted
@pytest.mark.parametrize("wavelet", ["haar", "db2"])
def test_marks_of_torch_are_heeded(wavelet):
    check_marks(wavelet)


@interpreted
@pytest.mark.parametrize(("axes", "parts"), [((2, 3), {5}), ((1, 2, 3), {3, 2}), ((1, 3), {2, 1})])
def test_a_large_batch_goes_in_parts(axes, parts, monkeypatch):
    """Such that what lies between takes no more than a third of data and results."""
    monkeypatch.setattr(gpu, "LARGE", 1)
    both_ways(random(5, 2, 9, 8), "db2", "periodization", 2, axes)
    assert {key[1][0] for key in gpu._recipes} == parts


@interpreted
def test_an_empty_batch_launches_nothing():
    for shape in ((0, 8, 6), (2, 0, 6)):
        axes = (2,) if shape[1] == 0 else (1, 2)
        check(lambda x, axes=axes: ours.wavedecn(x, "db2", level=1, axes=axes), random(*shape))
    assert not gpu._recipes


@interpreted
def test_bands_that_are_not_as_planned_are_refused():
    plan = decompose.native_of(tuple(prepare("db2", "zero", [0, 1], 2)), 1, (9, 10), False)
    bands = list(plan.down(random(9, 10), gpu.down))
    for wrong in (bands[:3], [*bands[:3], bands[3].float()], [*bands[:3], bands[3][:2]]):
        with pytest.raises(RuntimeError, match="expected 4 contiguous tensors"):
            gpu.up(wrong, plan.plan)


@interpreted
@pytest.mark.parametrize("wavelet", ["haar", "db2"])
def test_nothing_is_written_past_what_was_planned(wavelet):
    """Whoever calls the operators by themselves; on the CPU they are refused as well."""
    plan = decompose.native_of(tuple(prepare(wavelet, "zero", [0, 1], 2)), 1, (4, 6), False).plan
    x = random(4, 6)
    bands = native.down(x, plan)
    for other in (random(8, 6), x.mT.contiguous(), x.mT.contiguous().mT):
        with pytest.raises(RuntimeError, match="expected 1 contiguous tensors"):
            gpu.down(other, plan)
    for like in (lambda b: b[:1], lambda b: b.float(), lambda b: b.mT.contiguous().mT):
        with pytest.raises(RuntimeError, match="expected 4 contiguous tensors"):
            gpu.down(x, plan, [*bands[:3], like(bands[3])])
        with pytest.raises(RuntimeError, match="expected 1 contiguous tensors"):
            gpu.up(bands, plan, like(x))
    assert not gpu._recipes


@interpreted
def test_nothing_is_recorded_for_derivatives_the_second_time_either():
    plan = decompose.native_of(tuple(prepare("haar", "zero", [0], 1)), 1, (8,), False).plan
    for _ in range(3):
        bands = gpu.down(random(8).requires_grad_(), plan)
        assert not any(band.requires_grad for band in bands)


@pytest.mark.skipif(INTERPRETED, reason="runs above")
def test_interpreted():
    """This file again, interpreted."""
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
