"""The comparison alone: structure, dtype, shape, NaN, infinities, tolerance, near zero."""

from __future__ import annotations

import collections
import dataclasses
import math
import types
from typing import Any

import numpy as np
import pytest
import torch

from pytest_rightfast.compare import RTOL, Tolerance, as_tensor, compare


def judge(got: Any, expected: Any, dtypes: Any = None, **tolerance: float) -> str | None:
    wrong, _ = compare(got, expected, dtypes, Tolerance(**tolerance))
    return str(wrong) if wrong else None


def wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


X = torch.linspace(-2, 3, 40)


class TestStructure:
    def test_list_and_tuple_are_the_same(self):
        assert judge([X, (X,)], (wide(X), [wide(X)])) is None

    def test_other_kinds_are_not(self):
        assert "expected a sequence of 2" in judge([X], [wide(X), wide(X)])
        assert "expected a mapping with keys ['a']" in judge({"b": X}, {"a": wide(X)})
        assert "expected a leaf" in judge([X], wide(X))
        assert "list in place of Tensor" in judge([X], wide(X))
        assert "expected a mapping" in judge([X], {"a": wide(X)})

    def test_order_of_a_mapping_does_not_matter(self):
        assert judge({"a": X, "b": -X}, {"b": -wide(X), "a": wide(X)}) is None

    def test_path_of_the_first_wrong_leaf(self):
        assert judge({"a": [X, X]}, {"a": [wide(X), -wide(X)]}).startswith("output['a'][1]: ")

    def test_named_tuples_dataclasses_and_ordered_dicts(self):
        Pair = collections.namedtuple("Pair", "low high")

        @dataclasses.dataclass
        class Both:
            low: Any
            high: Any

        assert judge(Pair(X, X), Pair(wide(X), wide(X))) is None
        assert judge(Both(X, X), Both(wide(X), wide(X))) is None
        assert judge(Both(X, -X), Both(wide(X), wide(X))).startswith("output['high']")
        ordered = collections.OrderedDict(a=X)
        assert judge(ordered, {"a": wide(X)}) is None
        assert judge(types.MappingProxyType({"a": X}), {"a": wide(X)}) is None
        assert judge(torch.sort(X), (wide(X).sort())) is None

    def test_strings_and_none(self):
        assert judge(None, None) is None
        assert judge("haar", "haar") is None
        assert "expected builtins.str 'haar'" in judge("db2", "haar")
        assert "got builtins.NoneType None" in judge(None, wide(X))

    def test_foreign_objects(self):
        class Odd:
            def __eq__(self, other):
                raise RuntimeError("ambiguous")

            __hash__ = None

            def __repr__(self):
                raise RuntimeError("no words")

        odd = Odd()
        assert judge(odd, odd) is None
        assert "its repr fails" in judge(Odd(), Odd())


class TestShapeAndDtype:
    def test_shape(self):
        assert judge(X, wide(X)[None]) == "output: expected shape (1, 40), got (40,)"
        assert judge(X[0], wide(X[:1])) == "output: expected shape (1,), got ()"
        assert judge(X[:0], wide(X[:1])) is not None

    def test_no_elements(self):
        assert judge(X[:0], wide(X[:0])) is None
        assert judge(X[:0].reshape(0, 3), wide(X[:0]).reshape(3, 0)) is not None

    def test_dtype(self):
        allowed = frozenset({torch.float32})
        assert judge(X, wide(X), allowed) is None
        assert judge(wide(X), wide(X), allowed) == (
            "output: expected dtype torch.float32, got torch.float64"
        )
        assert judge(X > 0, wide(X) > 0, frozenset({torch.int64})) is not None

    def test_complex_is_not_real(self):
        both = torch.complex(X, X * 0)
        assert judge(both, wide(X)) is not None
        assert judge(X, wide(both)) is not None


class TestValues:
    @pytest.mark.parametrize("name", RTOL)
    def test_tolerance_by_dtype(self, name):
        """A tenth of the tolerance passes, three times it does not."""
        dtype, rtol = getattr(torch, name), RTOL[name]
        exact = wide(torch.ones(1000, dtype=dtype))
        one = torch.ones(1000, dtype=torch.float64)
        one[7] = 1 + 0.1 * rtol
        assert judge(one.to(dtype), exact) is None
        one[7] = 1 + 3 * rtol
        if name in ("float64", "float32"):  # the others round to steps near the tolerance
            assert judge(one.to(dtype), exact) is not None
        one[7] = 1 + 6 * rtol
        assert judge(one.to(dtype), exact) is not None

    def test_a_narrower_type_inside_shows(self):
        """TensorFloat-32 (10 bits), bfloat16 or float16 in a float32 result, float32 in float64."""
        exact = wide(torch.randn(1000, generator=torch.Generator().manual_seed(1)))
        bits = exact.float().view(torch.int32)
        tf32 = ((bits + 2**12) & ~(2**13 - 1)).view(torch.float32)
        assert judge(exact.float(), exact) is None
        for inside in (tf32, exact.bfloat16().float(), exact.half().float()):
            assert judge(inside, exact) is not None
        exact = torch.randn(1000, dtype=torch.float64)
        assert judge(exact.float().double(), exact) is not None
        assert judge(exact.bfloat16(), exact) is None

    def test_many_small_errors_add_up(self):
        """Each element within its tolerance, the leaf as a whole not."""
        exact = torch.ones(1000, dtype=torch.float64)
        got = (exact * (1 + 1.5e-5)).float()
        assert "relative norm of the error" in judge(got, exact)
        assert judge((exact * (1 + 1e-6)).float(), exact) is None

    def test_integers_and_bools_are_exact(self):
        count = torch.arange(10)
        assert judge(count, count) is None
        other = count.clone()
        other[3] = 4
        assert "1 of 10 elements are wrong, first at (3,): expected 3, got 4" in judge(other, count)
        assert judge(count > 3, count > 3) is None
        assert judge(count > 3, count > 4) is not None
        assert judge(count.to(torch.uint8), count) is None

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
    def test_nan_is_no_wildcard(self, dtype):
        exact = wide(X)
        got = X.to(dtype, copy=True)
        got[5] = math.nan
        assert "got nan" in judge(got, exact)
        exact = exact.clone()
        exact[5] = math.nan
        assert judge(got, exact) is None
        assert "expected nan" in judge(X.to(dtype), exact)

    def test_all_nan(self):
        nothing = torch.full((4,), math.nan)
        assert judge(nothing, wide(nothing)) is None
        assert judge(nothing, torch.ones(4, dtype=torch.float64)) is not None
        assert judge(torch.ones(4), wide(nothing)) is not None

    def test_infinities(self):
        exact = wide(X)
        exact[3], exact[4] = math.inf, -math.inf
        got = exact.float()
        assert judge(got, exact) is None
        assert judge(-got, exact) is not None
        got[3] = 3e38
        assert judge(got, exact) is not None
        got = exact.float()
        got[7] = math.inf
        assert judge(got, exact) is not None

    def test_overflow_of_a_narrow_type_is_right(self):
        exact = torch.tensor([1.0, 1e6, -1e6], dtype=torch.float64)
        assert judge(exact.half(), exact) is None
        assert judge(torch.tensor([1.0, 65504.0, -65504.0]).half(), exact) is not None

    def test_the_rest_is_still_judged_beside_nan(self):
        exact = wide(X)
        exact[0] = math.nan
        got = exact.float()
        got[9] *= 1.01
        assert "1 of 40" in judge(got, exact)

    def test_near_zero_does_not_pass_by_correlation(self):
        assert judge(X * 1e-8, wide(X)) is not None
        assert judge(X * 0, wide(X)) is not None
        assert judge(X, wide(X) * 1e-8) is not None

    def test_zeros_must_be_zero(self):
        zeros = torch.zeros(5, dtype=torch.float64)
        assert judge(torch.zeros(5), zeros) is None
        assert judge(torch.full((5,), 1e-30), zeros) is not None
        assert judge(torch.full((5,), 2e-45), zeros) is not None
        assert judge(torch.full((5,), 1e-30), zeros, atol=1e-20) is None

    def test_cancelled_elements_may_carry_the_others_rounding(self):
        exact = torch.ones(100, dtype=torch.float64)
        exact[0] = 1e-12
        got = exact.float()
        got[0] = 1e-7
        assert judge(got, exact) is None

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
    def test_denormals_have_steps_not_digits(self, dtype):
        step = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
        exact = torch.linspace(3, 9, 50, dtype=torch.float64) * step
        assert judge(exact.to(dtype), exact) is None
        assert judge(exact.to(dtype) * 2, exact) is not None

    def test_complex(self):
        both = torch.complex(X, X.flip(0))
        assert judge(both, wide(both)) is None
        assert judge(both.conj(), wide(both).conj()) is None
        assert judge(both.conj(), wide(both)) is not None
        other = both.clone()
        other[2] = complex(math.nan, 0)
        assert judge(other, wide(both)) is not None

    def test_scalars(self):
        assert judge(2.0, 2.0) is None
        assert judge(True, True) is None
        assert judge(2.0, 2.1) is not None
        assert judge(torch.tensor(2.0), torch.tensor(2.0, dtype=torch.float64)) is None
        assert judge(math.nan, 2.0) is not None

    def test_item_of_a_float32_result(self):
        """A Python float says nothing of the type in which it was computed."""
        got, exact = X.exp().sum().item(), wide(X).exp().sum().item()
        assert judge(got, exact, frozenset({torch.float64, torch.float32})) is None
        assert judge(got * 1.01, exact, frozenset({torch.float64, torch.float32})) is not None
        assert judge(exact * (1 + 1e-7), exact, frozenset({torch.float64})) is not None

    def test_tighter_and_looser_by_the_case(self):
        got = X.clone()
        got[-1] *= 1 + 3e-6
        assert judge(got, wide(X)) is None
        assert judge(got, wide(X), rtol=1e-7) is not None
        got[-1] *= 1.01
        assert judge(got, wide(X), rtol=0.1) is None

    def test_the_judged_answer_is_not_touched(self):
        for dtype in (torch.float64, torch.float32):
            got, exact = X.to(dtype, copy=True), wide(X) + 1
            before = got.clone()
            judge(got, exact)
            assert torch.equal(got, before)

    def test_accuracy_is_finite_whatever_comes(self):
        for got in (X * math.nan, X * math.inf, X * 0, X * 1e30):
            _, accuracy = compare(got, wide(X) * 0, None, Tolerance())
            assert math.isfinite(accuracy.norm)
            assert math.isfinite(accuracy.worst)


class TestNumpy:
    ARRAY = np.linspace(-1, 1, 12)

    @pytest.mark.parametrize(
        "make",
        [
            lambda a: a.astype("f4"),
            lambda a: a.astype("f4").reshape(3, 4).T,
            lambda a: a.astype("f4")[::-1],
            lambda a: a.astype(">f4"),
            lambda a: a.astype(np.longdouble),
            lambda a: a.astype("c8"),
            lambda a: (a * 9).astype("i2"),
            lambda a: (a * 9 + 9).astype("u2"),
            lambda a: a > 0,
            lambda a: a[:0],
            lambda a: np.float32(a[3]),
            lambda a: np.array(a[3]),
            lambda a: np.broadcast_to(a, (2, 12)),
        ],
        ids=lambda value: None if callable(value) else str(value),
    )
    def test_any_layout(self, make):
        array = make(self.ARRAY)
        tensor = as_tensor(array)
        assert tensor is not None
        assert tuple(tensor.shape) == np.shape(array)
        expected = tensor.to(torch.complex128) if tensor.is_complex() else tensor
        expected = expected.double() if tensor.is_floating_point() else expected
        assert judge(array, expected) is None
        if tensor.numel() and not tensor.is_complex():
            assert judge(array, expected.double() + 1) is not None

    def test_what_is_no_number(self):
        assert as_tensor(np.array(["a"])) is None
        assert as_tensor(np.array([None])) is None
        assert as_tensor("x") is None
        assert as_tensor([1.0]) is None


def test_sparse_is_judged_by_its_values():
    dense = torch.eye(3)
    assert judge(dense.to_sparse(), wide(dense)) is None
    assert judge(dense.to_sparse() * 2, wide(dense)) is not None
