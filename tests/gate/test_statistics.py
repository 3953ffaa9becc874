import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rightfast.statistics import (
    Outcome,
    Plan,
    both,
    decide,
    estimate,
    noise_floor,
    quad_log_ratio,
)

ONE = Plan(cases=1, looks=(6, 9, 12, 16))


def around(centre, pairs, half_width=0.004):
    """Log-ratios evenly spread about `centre`: a spread that no draw of chance can shrink."""
    return [centre + half_width * (2 * i / (pairs - 1) - 1) for i in range(pairs)]


class TestOutcomes:
    def test_slower_needs_the_lower_bound_above_the_threshold(self):
        decision = decide(around(math.log(1.2), 9), ONE, 1)
        assert decision.outcome is Outcome.SLOWER
        assert decision.low > 1.03
        assert "above 1.030x" in decision.reason

    def test_a_mean_above_the_threshold_is_not_enough(self):
        decision = decide(around(math.log(1.05), 9, half_width=0.05), ONE, 1)
        assert decision.ratio > 1.03 > decision.low > 0
        assert decision.outcome is Outcome.UNDECIDED

    def test_significant_but_small_is_not_slower(self):
        decision = decide(around(math.log(1.01), 16, half_width=0.001), ONE, 3)
        assert decision.low > 1
        assert decision.outcome is Outcome.SAME

    def test_faster(self):
        assert decide(around(math.log(0.8), 9), ONE, 1).outcome is Outcome.FASTER

    @pytest.mark.parametrize("last", [{"look": 3}, {"look": 2, "final": True}])
    def test_not_slower_and_not_faster_is_same_once_no_pair_will_come(self, last):
        decision = decide(around(-math.log(1.03), 16), ONE, **last)
        assert decision.outcome is Outcome.SAME
        assert "not slower" in decision.reason
        assert "no speed-up is shown" in decision.reason

    def test_before_that_it_may_still_become_faster(self):
        assert decide(around(-math.log(1.03), 16), ONE, 2).outcome is Outcome.UNDECIDED

    def test_the_same_in_the_other_direction_stays_undecided(self):
        assert decide(around(math.log(1.03), 16), ONE, 3).outcome is Outcome.UNDECIDED

    def test_threshold_of_one_case_overrides_the_plan(self):
        ratios = around(math.log(1.2), 9)
        assert decide(ratios, ONE, 1, min_effect=0.5).outcome is Outcome.SAME

    def test_fewer_than_four_pairs_decide_nothing(self):
        decision = decide([0.5, 0.5, 0.5], ONE, 0, final=True)
        assert decision.outcome is Outcome.UNDECIDED
        assert "4 needed" in decision.reason

    @given(st.lists(st.floats(-0.5, 0.5), min_size=6, max_size=16), st.integers(0, 2))
    def test_swapping_the_sides_mirrors_the_outcome(self, ratios, look):
        mirror = {Outcome.SLOWER: Outcome.FASTER, Outcome.FASTER: Outcome.SLOWER}
        ours = decide(ratios, ONE, look)
        theirs = decide([-x for x in ratios], ONE, look)
        assert theirs.outcome is mirror.get(ours.outcome, ours.outcome)
        assert theirs.ratio == pytest.approx(1 / ours.ratio)


class TestErrorBudget:
    def test_looks_share_alpha_and_sum_to_it(self):
        shares = [ONE.share(look) for look in range(4)]
        assert sum(shares) == pytest.approx(1)
        assert shares == sorted(shares)

    def test_a_final_look_spends_what_is_left_and_no_more(self):
        assert ONE.share(0) + ONE.share(1, final=True) == pytest.approx(1)

    def test_an_unplanned_look_is_refused(self):
        with pytest.raises(ValueError, match="one of the 4 planned"):
            decide(around(0.0, 16), ONE, 4)

    def test_more_cases_need_more_evidence(self):
        ratios = around(math.log(1.1), 9, half_width=0.03)
        few, many = decide(ratios, ONE, 1), decide(ratios, Plan(cases=300, looks=ONE.looks), 1)
        assert many.low < few.low

    def test_an_early_look_needs_more_evidence_than_the_whole_budget(self):
        ratios = around(math.log(1.1), 9, half_width=0.03)
        assert decide(ratios, ONE, 0).low < decide(ratios, ONE, 0, final=True).low

    @pytest.mark.parametrize("looks", [(), (9, 6), (6, 6), (3, 6)])
    def test_looks_must_rise_from_four_on(self, looks):
        with pytest.raises(ValueError, match="rising counts"):
            Plan(cases=1, looks=looks)

    @pytest.mark.parametrize(
        "bad", [{"cases": 0}, {"min_effect": 0.0}, {"alpha": 1.0}, {"beta": 2.0}]
    )
    def test_a_plan_out_of_range_is_refused(self, bad):
        with pytest.raises(ValueError):
            Plan(**{"cases": 1, **bad})


class TestOutliers:
    def test_one_pair_hit_by_foreign_load_does_not_hide_a_slowdown(self):
        ratios = [*around(math.log(1.1), 11), 0.7]
        assert decide(ratios, ONE, 2).outcome is Outcome.SLOWER

    def test_one_pair_hit_by_foreign_load_makes_no_slowdown(self):
        assert decide([*around(0.0, 11), 0.7], ONE, 2).outcome is Outcome.SAME

    def test_trimming_starts_where_pairs_are_left_to_judge_by(self):
        assert estimate([0.0] * 3 + [0.7]).mean > 0
        assert estimate([0.0] * 5 + [0.7]).mean == 0
        assert estimate([0.0] * 18 + [0.7, 0.7]).mean == 0

    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_a_ratio_that_is_no_number_is_refused(self, bad):
        with pytest.raises(ValueError, match="finite"):
            decide([0.0] * 7 + [bad], ONE, 0)


class TestNoise:
    def test_floor_grows_with_the_spread(self):
        calm, loud = noise_floor(around(0.0, 9)), noise_floor(around(0.0, 9, 0.05))
        assert 0 < calm.floor < loud.floor

    def test_ratios_that_agree_by_luck_are_held_to_the_arms_noise(self):
        lucky = around(math.log(1.08), 6, 0.0005)
        assert decide(lucky, ONE, 0).outcome is Outcome.SLOWER
        noisy = noise_floor(around(0.0, 6, 0.08))
        assert decide(lucky, ONE, 0, noise=noisy).outcome is Outcome.UNDECIDED

    def test_a_quiet_arm_never_narrows_the_interval(self):
        ratios = around(0.0, 9, 0.05)
        quiet = noise_floor(around(0.0, 9, 0.0001))
        assert decide(ratios, ONE, 1, noise=quiet) == decide(ratios, ONE, 1)

    def test_a_bias_between_identical_sides_is_no_slowdown(self):
        biased = around(math.log(1.06), 9)
        assert decide(biased, ONE, 1).outcome is Outcome.SLOWER
        assert decide(biased, ONE, 1, noise=noise_floor(biased)).outcome is not Outcome.SLOWER

    def test_smallest_visible_effect_is_seen_nine_times_of_ten_at_least(self):
        decision = decide(around(0.0, 12, 0.03), ONE, 2)
        shifted = around(math.log1p(decision.smallest_visible), 12, 0.03)
        assert decide(shifted, ONE, 2).outcome is Outcome.SLOWER
        assert decision.smallest_visible > 0.03


class TestPairs:
    @given(st.floats(-0.01, 0.01), st.floats(0.5, 2.0), st.sampled_from(["ABBA", "BAAB"]))
    def test_a_steady_drift_cancels(self, drift, ratio, order):
        times = [
            math.exp(drift * i) * (ratio if side == "B" else 1.0) for i, side in enumerate(order)
        ]
        assert quad_log_ratio(order, times) == pytest.approx(math.log(ratio), abs=1e-9)

    @pytest.mark.parametrize("order", ["AABB", "ABB", "", "ABBAAB"])
    def test_another_order_is_refused(self, order):
        with pytest.raises(ValueError, match="ABBA or BAAB"):
            quad_log_ratio(order, [1.0] * len(order))

    @pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
    def test_a_time_that_is_no_time_is_refused(self, bad):
        with pytest.raises(ValueError, match="above 0 and finite"):
            quad_log_ratio("ABBA", [1.0, 1.0, bad, 1.0])


class TestBothReadings:
    """The typical call, and the mean of all calls."""

    PLAN = Plan(cases=1)

    def read(self, middle, spread):
        ratios = [math.log(middle) + spread * sign for sign in (-1, 1, -0.5, 0.5, -0.2, 0.2)]
        return decide(ratios, self.PLAN, 0)

    def judge(self, typical, mean):
        return both(typical, mean, self.PLAN.min_effect)

    def test_a_mean_that_is_slower_beyond_doubt_is_slower(self):
        found = self.judge(self.read(1.0, 0.001), self.read(1.3, 0.001))
        assert found.outcome is Outcome.SLOWER
        assert found.ratio == pytest.approx(1.3)

    @pytest.mark.parametrize("typical", [1.0, 0.8])
    def test_a_mean_far_off_but_noisy_forbids_same_and_faster(self, typical):
        found = self.judge(self.read(typical, 0.001), self.read(1.3, 0.3))
        assert found.outcome is Outcome.UNDECIDED
        assert "1.300x" in found.reason

    @pytest.mark.parametrize(("typical", "outcome"), [(1.0, "same"), (0.8, "faster")])
    def test_a_noisy_mean_nearby_forbids_nothing(self, typical, outcome):
        assert self.judge(self.read(typical, 0.001), self.read(1.05, 0.1)).outcome == outcome

    def test_a_slower_typical_call_is_enough(self):
        found = self.judge(self.read(1.3, 0.001), self.read(1.0, 0.001))
        assert found.outcome is Outcome.SLOWER
        assert found.ratio == pytest.approx(1.3)
