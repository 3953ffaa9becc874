"""Arguments, defaults, errors and warnings are PyWavelets', and say what to do."""

import inspect
import warnings

import numpy as np
import pytest
import pywt
import torch

from rightfast import wavelets as ours

from .common import MODES, assert_close, leaves, norm, signal

FUNCTIONS = [
    name
    for name in ours.__all__
    if inspect.isfunction(getattr(ours, name))
    and name not in ("wavelist", "families", "backend", "served", "tuned", "recorded")
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_same_names_order_and_defaults(name):
    theirs = inspect.signature(getattr(pywt, name)).parameters.values()
    mine = list(inspect.signature(getattr(ours, name)).parameters.values())
    if mine[-1].name == "out":  # ours alone, and by keyword
        assert mine.pop().kind is inspect.Parameter.KEYWORD_ONLY
    assert [(p.name, p.default) for p in mine] == [(p.name, p.default) for p in theirs]


X = np.arange(16.0).reshape(4, 4)
C2 = pywt.wavedec2(X, "haar", level=1)
CN = pywt.wavedecn(X, "haar", level=1)


def tensors(tree):
    return torch.utils._pytree.tree_map(
        lambda leaf: torch.from_numpy(leaf) if isinstance(leaf, np.ndarray) else leaf, tree
    )


# The call, and what is refused: the same exception type as PyWavelets, unless said otherwise.
REFUSED = {
    "wavelet name": ("dwt", (X, "nope")),
    "continuous wavelet": ("dwt", (X, "morl")),
    "mode name": ("dwt", (X, "haar", "nope")),
    "mode number": ("dwt", (X, "haar", 99)),
    "mode None": ("dwt", (X, "haar", None)),
    "axis": ("dwt", (X, "haar", "zero", 2)),
    "negative axis": ("dwt", (X, "haar", "zero", -3)),
    "scalar": ("dwt", (np.float64(3), "haar")),
    "empty": ("dwt", (np.zeros(0), "haar")),
    "reflect of one": ("dwt", (np.zeros(1), "haar", "reflect")),
    "antireflect of one": ("dwt", (np.zeros((2, 1)), "haar", "antireflect")),
    "no bands": ("idwt", (None, None, "haar")),
    "bands of two sizes": ("idwt", (np.zeros(2), np.zeros(3), "haar")),
    "bands too short": ("idwt", (np.zeros(1), np.zeros(1), "db5")),
    "idwt axis": ("idwt", (X, X, "haar", "zero", 5)),
    "level below 0": ("wavedec", (X, "haar", "zero", -1)),
    "level not a number": ("wavedec", (X, "haar", "zero", "1")),
    "level not whole": ("wavedec", (X, "haar", "zero", 1.5)),
    "wavedec axis": ("wavedec", (X, "haar", "zero", 1, 4)),
    "waverec of a number": ("waverec", (3, "haar")),
    "waverec of nothing": ("waverec", ([], "haar")),
    "waverec of None": ("waverec", ([None, None], "haar")),
    "waverec of lists": ("waverec", ([X[0], [1.0, 2.0]], "haar")),
    "waverec of wavedec2": ("waverec", (C2, "haar")),
    "waverec of wavedecn": ("waverec", (CN, "haar")),
    "waverec mismatch": ("waverec", ([np.zeros(4), np.zeros(2)], "haar")),
    "dwt2 of one dimension": ("dwt2", (X[0], "haar")),
    "dwt2 of three axes": ("dwt2", (X, "haar", "zero", (0, 1, 2))),
    "dwtn axis": ("dwtn", (np.zeros(3), "haar", "zero", ("x",))),
    "idwtn of nothing": ("idwtn", ({}, "haar")),
    "idwtn of None": ("idwtn", ({"ad": None}, "haar")),
    "idwtn keys": ("idwtn", ({"ab": X}, "haar")),
    "idwtn key lengths": ("idwtn", ({"ad": X, "a": X}, "haar")),
    "idwtn sizes": ("idwtn", ({"ad": X, "aa": X[:2]}, "haar")),
    "idwtn axis": ("idwtn", ({"ad": X}, "haar", "zero", (0, 5))),
    "wavedec2 of one dimension": ("wavedec2", (X[0], "haar")),
    "wavedec2 repeated axes": ("wavedec2", (X, "haar", "zero", 1, (0, 0))),
    "wavedec2 one axis": ("wavedec2", (X, "haar", "zero", 1, (0,))),
    "wavedec2 axis": ("wavedec2", (X, "haar", "zero", 1, (0, 5))),
    "waverec2 of wavedec": ("waverec2", ([X, X], "haar")),
    "waverec2 detail sizes": ("waverec2", ([X, (X, X, X[:3])], "haar")),
    "waverec2 repeated axes": ("waverec2", (C2, "haar", "zero", (1, 1))),
    "waverec2 of nothing": ("waverec2", ([], "haar")),
    "wavedecn repeated axes": ("wavedecn", (X, "haar", "zero", 1, (0, 0))),
    "wavedecn axis": ("wavedecn", (X, "haar", "zero", 1, (0, 5))),
    "wavedecn no axes": ("wavedecn", (X, "haar", "zero", 1, ())),
    "wavedecn of a scalar": ("wavedecn", (np.float64(3), "haar")),
    "number of wavelets": ("wavedecn", (X, ("haar", "db1", "db1"))),
    "wavelet of a wrong type": ("wavedecn", (X, 5)),
    "number of modes": ("wavedecn", (X, "haar", ("zero", "zero", "zero"))),
    "mode of a wrong type": ("wavedecn", (X, "haar", None)),
    "waverecn of nothing": ("waverecn", ([], "haar")),
    "waverecn of wavedec2": ("waverecn", (C2, "haar")),
    "waverecn of None": ("waverecn", ([X, {"ad": None}], "haar")),
    "waverecn keys": ("waverecn", ([X, {"xy": X}], "haar")),
    "waverecn sizes": ("waverecn", ([np.zeros((4, 4)), {"dd": np.zeros((2, 2))}], "haar")),
    "waverecn ranks": ("waverecn", ([np.zeros(2), {"dd": np.zeros((2, 2))}], "haar")),
    "max level of a name": ("dwt_max_level", (10, "nope")),
    "max level of a filter": ("dwt_max_level", (10, 1)),
    "max level of a fraction": ("dwt_max_level", (10, 2.5)),
    "coeff len of nothing": ("dwt_coeff_len", (0, 4, "zero")),
    "coeff len of no filter": ("dwt_coeff_len", (4, 0, "zero")),
    "dwtn max level axes": ("dwtn_max_level", ((4, 8), "haar", (0, 0))),
    "pack nothing": ("coeffs_to_array", ([],)),
    "pack None": ("coeffs_to_array", ([None, {"d": X[0]}],)),
    "pack no gaps": ("coeffs_to_array", (pywt.wavedec2(X, "db2", level=2), None)),
    "pack axes": ("coeffs_to_array", (CN, 0, (0,))),
    "unpack nothing": ("array_to_coeffs", (X, [])),
    "unpack format": ("array_to_coeffs", (*pywt.coeffs_to_array(CN), "nope")),
    "unravel lengths": ("unravel_coeffs", (X[0], [slice(0, 4)], [(4,), (4,)])),
    "size of None": ("wavedecn_size", ([X, {"d": None}],)),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_refused_with_the_same_type(case):
    name, args = REFUSED[case]
    with pytest.raises(Exception) as theirs:
        getattr(pywt, name)(*args)
    expected = theirs.type if theirs.type in (TypeError, np.exceptions.AxisError) else ValueError
    with pytest.raises(expected) as mine:
        getattr(ours, name)(*tensors(args))
    assert len(str(mine.value)) > 20, "an error says what was expected and what to do"


def test_a_detail_key_without_a_detail_is_an_error():
    with pytest.raises(ValueError, match="at least one 'd'"):
        ours.waverecn([torch.ones(2), {"a": torch.ones(2)}], "haar")


def test_what_is_not_numeric_is_a_type_error():
    for data in ("text", ["a", "b"], {"a": 1}, [torch.ones, 2], None):
        with pytest.raises(TypeError, match="numeric array-like"):
            ours.dwt(data, "haar")
    with pytest.raises(TypeError, match=r"float8.*convert it first"):
        ours.dwt(torch.ones(8).to(torch.float8_e5m2), "haar")
    with pytest.raises(TypeError, match="dict of bands"):
        ours.idwtn([torch.ones(2)], "haar")


def test_a_level_above_the_maximum_warns_at_the_line_of_the_caller():
    x = torch.ones(8, 8)
    for call in (
        lambda: ours.wavedec(x, "db2", level=3),
        lambda: ours.wavedec2(x, "db2", level=3),
        lambda: ours.wavedecn(x, "db2", level=3),
        lambda: ours.wavedecn_shapes((8,), "db2", level=3),
    ):
        with pytest.warns(UserWarning, match="Level value of 3 is too high") as caught:
            call()
        assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours.wavedec(x, "db2", level=1)


def test_old_mode_names_warn_and_work():
    for old, new in (("per", "periodization"), ("sym", "symmetric"), ("zpd", "zero")):
        with pytest.warns(DeprecationWarning, match=f"renamed to {new}") as caught:
            low, _ = ours.dwt(torch.arange(7.0), "db2", old)
        assert caught[0].filename == __file__
        assert torch.equal(low, ours.dwt(torch.arange(7.0), "db2", new)[0])


def test_modes_have_the_numbers_of_pywt():
    assert ours.Modes.modes == pywt.Modes.modes
    for name in MODES:
        number = getattr(pywt.Modes, name)
        assert getattr(ours.Modes, name) == number == ours.Modes.from_object(name)
        assert ours.Modes.from_object(number) == number
        assert torch.equal(*(ours.dwt(torch.arange(7.0), "db2", m)[0] for m in (name, number)))


@pytest.mark.parametrize(
    "data",
    [
        [1, 2, 3, 4, 5, 7],
        (1.0, 2.0, 4.0),
        np.arange(6),
        np.arange(6, dtype=np.float32),
        np.arange(6)[::-1],
        np.arange(6).astype(">f8"),
        np.broadcast_to(np.float64(3), (5,)),
        np.array([True, False, True]),
        np.arange(6, dtype=np.longdouble),
        range(9),
    ],
    ids=str,
)
def test_array_likes_are_read_as_pywt_reads_them(data):
    expected = pywt.dwt(data, "db2")
    for a, e in zip(ours.dwt(data, "db2"), expected, strict=True):
        assert a.numpy().dtype == e.dtype
        assert_close(a, e, norm(e) + norm(data), 1e-6 if e.dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64])
def test_integers_become_float64(dtype):
    x = torch.tensor([1, 0, 1, 1, 0, 1], dtype=dtype)
    low, high = ours.dwt(x, "db2")
    assert low.dtype == high.dtype == torch.float64
    assert ours.idwt(x, None, "haar").dtype == torch.float64
    assert_close(low, pywt.dwt(x.numpy(), "db2")[0], 3)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (torch.float32, torch.float64, torch.float64),
        (torch.float16, torch.float32, torch.float32),
        (torch.float16, torch.bfloat16, torch.float32),
        (torch.float32, torch.int32, torch.float64),
        (torch.complex64, torch.float32, torch.complex128),
        (torch.complex64, torch.complex64, torch.complex64),
    ],
)
def test_bands_of_two_dtypes(one, other, expected):
    a, d = torch.tensor([1, 2, 3]).to(one), torch.tensor([1, 0, 1]).to(other)
    wide = (t.numpy() if t.dtype.is_complex else t.double().numpy() for t in (a, d))
    y = ours.idwt(a, d, "haar")
    assert y.dtype == expected
    assert_close(y, pywt.idwt(*wide, "haar"), 10, 1e-6)
    assert ours.waverec([a, d, None], "haar").dtype == expected
    assert ours.waverecn([a, {"d": d}], "haar").dtype == expected


def test_none_and_missing_bands_are_zeros():
    x = signal(12, 16)
    low, high = ours.dwt(x, "db2")
    zero = torch.zeros_like(low)
    assert torch.equal(ours.idwt(low, None, "db2"), ours.idwt(low, zero, "db2"))
    assert torch.equal(ours.idwt(None, high, "db2"), ours.idwt(zero, high, "db2"))
    coeffs = ours.wavedec(x, "db2", level=2)
    for missing in range(3):
        some = [None if i == missing else c for i, c in enumerate(coeffs)]
        expected = pywt.waverec([None if c is None else c.numpy() for c in some], "db2")
        assert_close(ours.waverec(some, "db2"), expected, norm(x))
    low, (ch, cv, cd) = ours.wavedec2(x, "db2", level=1)
    zero = torch.zeros_like(low)
    for some in ([low, (ch, None, cd)], [None, (ch, cv, None)], [low, (None, None, None)]):
        full = [zero if some[0] is None else low, tuple(zero if b is None else b for b in some[1])]
        assert torch.allclose(ours.waverec2(some, "db2"), ours.waverec2(full, "db2"))
    low, bands = ours.wavedecn(x, "db2", level=1)
    full = {**dict.fromkeys(bands, zero), "da": bands["da"]}
    assert torch.allclose(
        ours.waverecn([low, {"da": bands["da"]}], "db2"), ours.waverecn([low, full], "db2")
    )
    assert torch.allclose(
        ours.idwtn({"aa": low, "ad": None}, "db2"), ours.idwtn({"aa": low}, "db2")
    )


def test_leading_levels_without_any_band_are_left_out():
    d = torch.from_numpy(signal(6))
    assert torch.equal(ours.waverec([None, None, d], "db2"), ours.idwt(None, d, "db2"))


def test_level_zero_gives_the_data_back():
    x = torch.ones(4, 4)
    for call, inverse in (
        (ours.wavedec, ours.waverec),
        (ours.wavedec2, ours.waverec2),
        (ours.wavedecn, ours.waverecn),
    ):
        coeffs = call(x, "haar", level=0)
        assert len(coeffs) == 1
        assert coeffs[0] is x
        assert inverse(coeffs, "haar") is x


def test_an_approximation_one_longer_than_its_details_is_trimmed():
    for shape in ((13,), (7, 11), (21, 6)):
        x = signal(*shape)
        coeffs = ours.wavedecn(x, "db2", level=1)
        low = ours.waverecn(coeffs, "db2")
        finer = {k: torch.zeros(shape, dtype=torch.float64) for k in coeffs[1]}
        expected = pywt.waverecn(
            [coeffs[0].numpy(), {k: v.numpy() for k, v in coeffs[1].items()},
             {k: v.numpy() for k, v in finer.items()}], "db2",
        )  # fmt: skip
        assert low.shape != finer[next(iter(finer))].shape
        assert_close(ours.waverecn([*coeffs, finer], "db2"), expected, norm(x))


@pytest.mark.parametrize("wavelet", ["haar", "db2", "bior2.2", "db38", 2, 7, pywt.Wavelet("db4")])
def test_lengths_and_levels(wavelet):
    mine = wavelet
    for n in [*range(1, 80), 1000, 2**20 - 1]:
        assert ours.dwt_max_level(n, mine) == pywt.dwt_max_level(n, wavelet)
        for mode in MODES:
            taps = pywt.Wavelet(wavelet).dec_len if isinstance(wavelet, str) else wavelet
            assert ours.dwt_coeff_len(n, mine, mode) == pywt.dwt_coeff_len(n, taps, mode)
    assert ours.dwt_max_level(0, mine) == 0
    if not isinstance(wavelet, int):
        for axes in (None, (0,), (1, 0), 1):
            assert ours.dwtn_max_level((64, 33), mine, axes) == pywt.dwtn_max_level(
                (64, 33), wavelet, axes
            )


@pytest.mark.filterwarnings("ignore:Level value")
def test_shapes_and_sizes_are_those_of_the_transform():
    for axes in (None, (0,), (2, 0)):
        for level in (0, 1, 2, None):
            shapes = ours.wavedecn_shapes((13, 8, 9), "db2", "symmetric", level, axes)
            assert shapes == pywt.wavedecn_shapes((13, 8, 9), "db2", "symmetric", level, axes)
            coeffs = ours.wavedecn(torch.zeros(13, 8, 9), "db2", "symmetric", level, axes)
            sizes = [tuple(band.shape) for band in leaves(coeffs)]
            assert sizes[1:] == [s for level_ in shapes[1:] for _, s in sorted(level_.items())]
            assert ours.wavedecn_size(shapes) == ours.wavedecn_size(coeffs)
