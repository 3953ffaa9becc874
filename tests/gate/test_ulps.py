import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pytest_rightfast.ulps import beyond_own_spread, compare, error_ratio, worst_ratio

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def stepped(x, count):
    """x moved up by `count` representable floats."""
    up = torch.full_like(x, math.inf)
    for _ in range(count):
        x = torch.nextafter(x, up)
    return x


class TestDistance:
    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize("start", [1.0, -1.0, 0.0, -0.25, 1e-4, -1e-7])
    @pytest.mark.parametrize("count", [1, 3, 40])
    def test_counts_the_floats_between(self, dtype, start, count):
        # nextafter knows neither half type: their floats are stepped by bits, from 0 upwards.
        x = torch.tensor([start], dtype=dtype)
        if dtype in (torch.float16, torch.bfloat16):
            x = x.abs() + 0.5
            moved = (x.view(torch.int16) + count).view(dtype)
        else:
            moved = stepped(x, count)
        found = compare(x, moved)
        assert found.largest == count
        assert not found.identical

    @given(st.floats(width=32, allow_nan=False, allow_infinity=False))
    def test_across_zero_the_two_halves_add(self, value):
        x = torch.tensor([value], dtype=torch.float32)
        zero = torch.zeros_like(x)
        assert compare(x, -x).largest == 2 * compare(x, zero).largest

    def test_zeros_of_two_signs_are_0_apart_but_not_the_same_bits(self):
        found = compare(torch.tensor([0.0]), torch.tensor([-0.0]))
        assert found.largest == 0
        assert not found.identical

    def test_the_far_ends_of_float64_do_not_overflow(self):
        big = torch.tensor([1.7e308], dtype=torch.float64)
        assert compare(big, -big).largest > 2**62

    def test_histogram_counts_each_element_once(self):
        x = torch.ones(6)
        moved = torch.cat([stepped(x[i : i + 1], n) for i, n in enumerate((0, 1, 2, 4, 5, 300))])
        found = compare(x, moved)
        assert found.histogram[0] == found.histogram[1] == found.histogram[2] == 1
        assert found.histogram[16] == found.histogram[4] == found.histogram[65536] == 1
        assert sum(found.histogram.values()) == found.elements == 6
        assert "element 5" in found.worst
        assert "largest 300 ulp at output, element 5" in found.summary


class TestSpecial:
    def test_nan_on_both_sides_is_equal_and_on_one_is_not(self):
        nan, one = torch.tensor([math.nan]), torch.tensor([1.0])
        assert compare(nan, nan).identical
        assert compare(nan, nan).mismatched == 0
        assert compare(nan, one).mismatched == 1
        assert compare(one, nan).mismatched == 1

    def test_an_infinity_is_no_neighbour_of_the_largest_float(self):
        big = torch.tensor([torch.finfo(torch.float32).max])
        found = compare(big, torch.tensor([math.inf]))
        assert (found.mismatched, found.largest) == (1, 0)

    def test_one_element_of_many(self):
        x = torch.randn(7, 11)
        y = x.clone()
        y[3, 4] = math.nan
        found = compare(x, y)
        assert found.mismatched == 1
        assert f"element {3 * 11 + 4}" in found.worst

    def test_integers_and_bools_are_exact(self):
        for a, b in ((torch.arange(4), torch.tensor([0, 1, 9, 3])), (True, False), (3, 4)):
            found = compare(a, b)
            assert found.mismatched == 1
            assert not found.identical
        assert compare(torch.arange(4), torch.arange(4)).identical

    def test_complex_by_parts(self):
        x = torch.tensor([1 + 1j, 2 + 2j])
        y = torch.complex(x.real, stepped(x.imag, 2))
        found = compare(x, y)
        assert found.largest == 2
        assert (found.histogram[0], found.histogram[2]) == (2, 2)

    def test_fp8_by_its_bytes(self):
        x = torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn)
        y = torch.tensor([1.0, 2.5]).to(torch.float8_e4m3fn)
        assert compare(x, x).identical
        assert compare(x, y).mismatched == 1

    def test_empty_scalars_strided_grad_and_numpy(self):
        assert compare(torch.empty(0, 3), torch.empty(0, 3)).identical
        assert compare(torch.tensor(1.0), torch.tensor(1.0)).identical
        x = torch.randn(4, 6)
        assert compare(x.t().contiguous().t(), x).identical
        assert compare(x.clone().requires_grad_(), x).identical
        assert compare(x.numpy(), np.array(x.numpy())).identical
        assert compare(1.5, 1.5).identical

    def test_sparse_by_what_it_stands_for(self):
        x = torch.eye(3)
        assert compare(x.to_sparse(), x).identical
        assert compare(x.to_sparse(), (2 * x).to_sparse()).largest > 0

    def test_other_leaves_by_equality(self):
        assert compare("a", "a").identical
        assert compare("a", "b").mismatched == 1


class TestStructure:
    def test_trees_are_walked(self):
        base = {"a": torch.ones(2), "b": [torch.zeros(3), (torch.arange(2), None)]}
        head = {"a": torch.ones(2), "b": [torch.zeros(3), (torch.tensor([0, 5]), None)]}
        found = compare(base, head)
        assert (found.elements, found.mismatched) == (7, 1)
        assert "output['b'][1][0], element 1" in found.worst

    @pytest.mark.parametrize(
        ("base", "head", "words"),
        [
            (torch.ones(2), torch.ones(3), r"float32\[2\] on base, float32\[3\] on head"),
            (torch.ones(2), torch.ones(2).double(), r"float32\[2\] on base, float64"),
            ((torch.ones(1),), (torch.ones(1),) * 2, "1 items on base, 2 on head"),
            ({"a": 1}, {"b": 1}, "on one side only"),
            (torch.ones(1), None, "None on one side only"),
        ],
    )
    def test_a_difference_in_structure_is_named(self, base, head, words):
        found = compare(base, head)
        assert not found.identical
        assert re.search(words, found.structure)
        assert beyond_own_spread(found, [])


class TestSpread:
    X = torch.ones(3)

    def test_a_base_that_repeats_allows_no_difference(self):
        own = [compare(self.X, self.X)]
        assert not beyond_own_spread(compare(self.X, self.X), own)
        assert beyond_own_spread(compare(self.X, stepped(self.X, 1)), own)

    def test_head_may_differ_as_base_differs_from_itself(self):
        own = [compare(self.X, stepped(self.X, 3))]
        assert not beyond_own_spread(compare(self.X, stepped(self.X, 3)), own)
        assert beyond_own_spread(compare(self.X, stepped(self.X, 4)), own)

    def test_mismatches_beyond_bases_own(self):
        other = torch.tensor([1.0, math.nan, 1.0])
        assert beyond_own_spread(compare(self.X, other), [compare(self.X, stepped(self.X, 9))])
        assert not beyond_own_spread(compare(self.X, other), [compare(self.X, other)])


class TestErrorRatio:
    def test_ratio_with_a_floor(self):
        assert error_ratio(1e-6, 3e-6, 6e-8) == pytest.approx(3)
        assert error_ratio(0.0, 5e-8, 6e-8) == 1  # one last bit on an exact base is no regression
        assert error_ratio(0.0, 6e-7, 6e-8) == pytest.approx(10)
        assert error_ratio(1e-6, 0.0, 6e-8) < 1

    @pytest.mark.parametrize("none", [None, math.nan, math.inf])
    def test_an_error_that_is_no_number(self, none):
        assert error_ratio(1e-6, none, 6e-8) == math.inf
        assert error_ratio(none, none, 6e-8) == 1
        assert error_ratio(none, 1e-6, 6e-8) == 0

    def test_the_worst_family_counts(self):
        base, head = {"plain": 1e-6, "large": 1e-6}, {"plain": 1e-6, "large": 2e-6}
        assert worst_ratio(base, head, 6e-8) == pytest.approx(2)
        assert worst_ratio(base, {}, 6e-8) is None

    def test_the_floor_must_be_above_zero(self):
        with pytest.raises(ValueError, match="floor"):
            error_ratio(1.0, 1.0, 0.0)
