import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rightfast.student import incomplete_beta, t_quantile, t_tail

# Upper-tail critical values from the NIST/SEMATECH e-Handbook, section 1.3.6.7.2 (three decimals).
TABLE = {
    (0.10, 1): 3.078,
    (0.025, 1): 12.706,
    (0.001, 1): 318.309,  # NIST prints 318.313; tan(0.499 pi) is 318.3088
    (0.05, 2): 2.920,
    (0.005, 3): 5.841,
    (0.001, 3): 10.215,
    (0.025, 4): 2.776,
    (0.001, 5): 5.893,
    (0.05, 7): 1.895,
    (0.01, 10): 2.764,
    (0.001, 15): 3.733,
    (0.025, 30): 2.042,
    (0.05, 100): 1.660,
    (0.001, 100): 3.174,
}


@pytest.mark.parametrize(("tail", "df"), TABLE)
def test_quantile_matches_the_published_table(tail, df):
    assert t_quantile(tail, df) == pytest.approx(TABLE[tail, df], abs=6e-4)


@pytest.mark.parametrize("tail", [0.4, 0.05, 1e-3, 1e-7, 1e-12])
def test_closed_forms_for_one_and_two_degrees(tail):
    assert t_quantile(tail, 1) == pytest.approx(1 / math.tan(math.pi * tail), rel=1e-10)
    p = 1 - 2 * tail
    two = p * math.sqrt(2 / ((1 - p) * (1 + p))) if tail > 1e-9 else 1 / math.sqrt(2 * tail)
    assert t_quantile(tail, 2) == pytest.approx(two, rel=1e-6)


def test_tends_to_the_normal_distribution():
    assert t_quantile(0.025, 1e6) == pytest.approx(1.959964, abs=1e-5)


@given(st.floats(1e-12, 1 - 1e-6), st.integers(1, 200))
def test_quantile_inverts_the_tail(tail, df):
    assert t_tail(t_quantile(tail, df), df) == pytest.approx(tail, rel=1e-9)


@given(st.floats(-50, 50), st.integers(1, 60))
def test_tails_are_symmetric(t, df):
    assert t_tail(t, df) + t_tail(-t, df) == pytest.approx(1)


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, math.nan])
def test_a_tail_outside_0_1_is_refused(bad):
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        t_quantile(bad, 5)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="degrees of freedom"):
        t_tail(1.0, 0)
    with pytest.raises(ValueError, match="incomplete_beta needs"):
        incomplete_beta(1.0, 1.0, 1.5)
