"""The paired test: log-ratios of fresh process pairs -> slower, faster, same or undecided.

A pair is one fresh process of base and one of head that walk the cases in lockstep. Within a pair
the blocks of a case run in quads ABBA (A is base, B is head), so that a linear drift cancels in
each quad; odd pairs run BAAB, so that what the first place costs cancels between pairs. One pair
gives one log-ratio a case. Processes, not samples, are what is resampled: two processes of the same
commit differ by their memory layout, and more rounds in one process do not average that away.

The test is a t-bound on the trimmed mean of the log-ratios (Yuen 1974): from 6 pairs on the highest
and the lowest are set aside, since one pair in a few dozen is hit by something foreign to the code.
`slower` needs the lower bound above log(1 + min_effect), `faster` the upper one below its negative,
`same` an interval inside the band between (two one-sided tests). When no further pair will come, an
upper bound below log(1 + min_effect) is enough for `same`: it is not slower, and no speed-up is
shown. Sooner, that would end the pairs of a case that is about to be called `faster`.

Error budget. `alpha` is the chance of one false `slower` in a whole gate in which every case sits
exactly on the threshold; for identical code it is far smaller. It is split evenly over the cases
and their two readings, the typical call and the mean of all (Bonferroni holds whatever the
dependence, and cases that share a process are dependent), and over the looks by the power family of
Kim and DeMets (1987), spent(f) = alpha * f**2 at the fraction f of the planned pairs, the
increments summed as a union bound: no joint law of the looks is assumed, so trimming and heavy
tails do not break it. The square keeps most for the last look, where power is needed, yet lets a
1.3x go at the first; O'Brien-Fleming's exponential spending leaves a first look of 6 pairs nothing
that a t-bound with 3 degrees of freedom could ever reach.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_rightfast.student import t_quantile

READINGS = 2  # a case is judged by its typical call and by the mean of its calls
MIN_PAIRS = 4  # below, a t-bound at these levels spans any effect, and 3 equal ratios are luck


class Outcome(StrEnum):
    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Plan:
    """What is fixed before the first pair runs; a look that is not in it would be peeking.

    `cases`: compared cases. `looks`: pairs at each look, rising. `min_effect`: 0.03 is 3%.
    `alpha`: false `slower` a gate (and, separately, false `faster`). `beta`: false `same` of a case
    that is slower by exactly `min_effect`: 0.2 is a power of 80%.
    """

    cases: int
    looks: tuple[int, ...] = (6, 9, 12, 16, 22, 30)
    min_effect: float = 0.03
    alpha: float = 0.05
    beta: float = 0.2

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip(self.looks, self.looks[1:], strict=False))
        if not self.looks or not rising or self.looks[0] < MIN_PAIRS:
            raise ValueError(
                f"looks must be rising counts of pairs, {MIN_PAIRS} or more, got {self.looks}"
            )
        if self.cases < 1:
            raise ValueError(f"a plan needs at least 1 case, got {self.cases}")
        for name in ("min_effect", "alpha", "beta"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must lie between 0 and 1, got {getattr(self, name)}")

    def share(self, look: int, final: bool = False) -> float:
        """The fraction of alpha (or beta) that look number `look`, from 0, may spend.

        `final` spends all that is left: for a gate that ends early because its time is up, which
        must be decided by the clock and never by the ratios seen so far.
        """
        if not 0 <= look < len(self.looks):
            raise ValueError(f"look must be one of the {len(self.looks)} planned, got {look}")
        before = (self.looks[look - 1] / self.looks[-1]) ** 2 if look else 0.0
        after = 1.0 if final else (self.looks[look] / self.looks[-1]) ** 2
        return after - before


@dataclass(frozen=True)
class Estimate:
    """Trimmed mean of log-ratios, its standard error and the degrees of freedom of the latter."""

    mean: float
    error: float
    freedom: int
    pairs: int


@dataclass(frozen=True)
class Decision:
    """`ratio`, `low`, `high`: head time over base time, the bounds at this look's own level.

    `smallest_visible`: the slowdown, relative, that this look would call `slower` 9 times of 10.
    """

    outcome: Outcome
    ratio: float
    low: float
    high: float
    smallest_visible: float
    pairs: int
    reason: str


@dataclass(frozen=True)
class Noise:
    """What the A/A arm shows: base against base, relative to 1.

    `bias`: log-ratio that is there without any change. `floor`: 95% bound of |ratio - 1| that this
    many pairs of identical code show.
    """

    bias: float
    floor: float
    estimate: Estimate


def lower_quartile(samples: Sequence[float]) -> float:
    """A quarter of the samples are at most this. Foreign load only ever adds time, so it is a third
    less noisy than the median (seen on two cores of a shared machine), and is no single sample.
    """
    return sorted(samples)[(len(samples) - 1) // 4]


def quad_log_ratio(order: str, seconds: Sequence[float]) -> float:
    """Mean log B - mean log A of one quad, free of linear drift."""
    if order not in ("ABBA", "BAAB"):
        raise ValueError(f"a quad must be ABBA or BAAB, got {order!r}")
    signs = [1.0 if side == "B" else -1.0 for side in order]
    return sum(s * _log(x) for s, x in zip(signs, seconds, strict=True)) / 2.0


def estimate(log_ratios: Sequence[float]) -> Estimate:
    """Trimmed mean, winsorized standard error (Yuen 1974); from 6 pairs 1 in 10 a side is cut."""
    n = len(log_ratios)
    if n < MIN_PAIRS:
        raise ValueError(f"an estimate needs at least {MIN_PAIRS} pairs, got {n}")
    if not all(math.isfinite(x) for x in log_ratios):
        raise ValueError(f"log-ratios must be finite, got {list(log_ratios)}")
    cut = max(1, n // 10) if n >= 6 else 0
    ordered = sorted(log_ratios)
    core = ordered[cut : n - cut]
    winsorized = [core[0]] * cut + core + [core[-1]] * cut
    kept = len(core)
    squares = statistics.variance(winsorized) * (n - 1)
    return Estimate(statistics.fmean(core), math.sqrt(squares / (kept * (kept - 1))), kept - 1, n)


def noise_floor(log_ratios: Sequence[float]) -> Noise:
    """Noise floor of one case from the A/A arm's log-ratios."""
    found = estimate(log_ratios)
    width = t_quantile(0.025, found.freedom) * found.error
    # A bias counts only where it is beyond doubt (1 in 1000), else every case would carry one.
    certain = abs(found.mean) > t_quantile(0.0005, found.freedom) * found.error
    bias = found.mean if certain else 0.0
    return Noise(bias, math.expm1(abs(bias) + width), found)


def decide(
    log_ratios: Sequence[float],
    plan: Plan,
    look: int,
    *,
    min_effect: float | None = None,
    noise: Noise | None = None,
    final: bool = False,
) -> Decision:
    """Judge one case at look number `look` (from 0) on all its log-ratios so far.

    `min_effect` overrides the plan's for this case. `noise`, from the A/A arm, only ever widens the
    interval: few ratios that agree by luck (two memory layouts, 5 processes in the same one) have
    a standard error far too small, and a bias between identical sides is no slowdown.
    """
    if len(log_ratios) < MIN_PAIRS:
        pairs = "pair" if len(log_ratios) == 1 else "pairs"
        why = f"{len(log_ratios)} {pairs} measured, {MIN_PAIRS} needed"
        return Decision(Outcome.UNDECIDED, math.nan, 0.0, math.inf, math.inf, len(log_ratios), why)
    effect = plan.min_effect if min_effect is None else min_effect
    found = estimate(log_ratios)
    error, bias = found.error, 0.0
    if noise is not None:
        error = max(error, noise.estimate.error * math.sqrt(noise.estimate.pairs / found.pairs))
        bias = abs(noise.bias)
    share = plan.share(look, final)
    reach = t_quantile(plan.alpha / (READINGS * plan.cases) * share, found.freedom)
    narrow = t_quantile(plan.beta * share, found.freedom) * error + bias
    wide = reach * error + bias
    edge = math.log1p(effect)
    last = final or look == len(plan.looks) - 1
    outcome = _outcome(found.mean, wide, narrow, edge, last)
    low, high = math.exp(found.mean - wide), math.exp(found.mean + wide)
    inner = math.exp(found.mean - narrow), math.exp(found.mean + narrow)
    visible = math.expm1(edge + bias + (reach + t_quantile(0.1, found.freedom)) * error)
    reason = _reason(outcome, (low, high), inner, effect)
    return Decision(outcome, math.exp(found.mean), low, high, visible, found.pairs, reason)


def both(typical: Decision, mean: Decision, effect: float) -> Decision:
    """What the typical call shows, unless the mean of all calls shows more.

    Most calls of a path that became slow now and then, or for one of its inputs, are what they
    were. The mean is noisier, since a burst of foreign load is in it: it may say `slower` by the
    same test, but for `same` and `faster` it needs no bound of its own, and only forbids them where
    it is three times `effect` away.
    """
    if mean.outcome is Outcome.SLOWER and typical.outcome is not Outcome.SLOWER:
        return replace(mean, reason=f"the mean of all calls, not the typical one: {mean.reason}")
    well = typical.outcome in (Outcome.SAME, Outcome.FASTER)
    if well and mean.ratio > 1 + 3 * effect:
        reason = f"typical calls are {typical.outcome}, but the mean of all is {mean.ratio:.3f}x"
        return replace(typical, outcome=Outcome.UNDECIDED, reason=reason)
    return typical


def _outcome(mean: float, wide: float, narrow: float, edge: float, last: bool) -> Outcome:
    if mean - wide > edge:
        return Outcome.SLOWER
    if mean + wide < -edge:
        return Outcome.FASTER
    if mean + narrow < edge and (last or mean - narrow > -edge):
        return Outcome.SAME
    return Outcome.UNDECIDED


def _reason(
    outcome: Outcome, wide: tuple[float, float], inner: tuple[float, float], effect: float
) -> str:
    top, bottom = 1 + effect, 1 / (1 + effect)
    if outcome is Outcome.SLOWER:
        return f"lower bound {wide[0]:.3f}x is above {top:.3f}x"
    if outcome is Outcome.FASTER:
        return f"upper bound {wide[1]:.3f}x is below {bottom:.3f}x"
    if outcome is Outcome.SAME and inner[0] > bottom:
        return f"{inner[0]:.3f}x to {inner[1]:.3f}x lies within {bottom:.3f}x to {top:.3f}x"
    if outcome is Outcome.SAME:
        return f"not slower (upper bound {inner[1]:.3f}x); no speed-up is shown"
    return f"{wide[0]:.3f}x to {wide[1]:.3f}x reaches across {top:.3f}x or {bottom:.3f}x"


def _log(time: float) -> float:
    if not (time > 0 and math.isfinite(time)):
        raise ValueError(f"a block's time must be above 0 and finite, got {time}")
    return math.log(time)
