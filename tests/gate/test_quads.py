"""How many blocks a pair takes of a case, in which order, and what it makes of them."""

import itertools
import math

import pytest

from pytest_rightfast import messages, pairs


class Scripted:
    """A pair whose blocks take the seconds that a function of (arm, number of the block) gives."""

    def __init__(self, monkeypatch, seconds, arms=("base", "head", "again")):
        self.workers, self.seconds, self.asked, self.now = dict.fromkeys(arms), seconds, [], 0.0
        monkeypatch.setattr(pairs.time, "monotonic", lambda: self.now)

    def ask(self, arm, message, expected):
        took = self.seconds(arm, len(self.asked))
        self.asked.append(arm)
        self.now += max(took, message.seconds)
        return messages.Sampled([took])

    def sample(self, number=0):
        samples = pairs.Samples()
        pairs.sample_case(self, number, "case", samples)
        return samples


def test_the_order_alternates_between_pairs(monkeypatch):
    orders = []
    for number in (0, 1):
        pair = Scripted(monkeypatch, lambda arm, block: 1e-3)
        pair.sample(number)
        orders.append([arm[0] for arm in pair.asked[:6]])
    assert orders == [list("bhaahb"), list("hbaabh")]


def test_quads_that_agree_are_few(monkeypatch):
    pair = Scripted(monkeypatch, lambda arm, block: 1.1e-3 if arm == "head" else 1e-3)
    samples = pair.sample()
    assert samples.typical.head == pytest.approx([math.log(1.1)])
    assert samples.typical.again == pytest.approx([0])
    assert len(pair.asked) == 6 * pairs.LEAST_QUADS


def test_noisy_quads_are_more(monkeypatch):
    noise = itertools.cycle([1.0, 1.3, 0.8, 1.1, 0.9, 1.4, 0.7])
    pair = Scripted(monkeypatch, lambda arm, block: 1e-3 * next(noise))
    pair.sample()
    assert len(pair.asked) > 6 * pairs.LEAST_QUADS
    assert pair.now < pairs.CASE_SECONDS + 6 * pairs.BLOCK_SECONDS + 1e-9


def test_a_noisy_a_a_arm_asks_for_more_as_well(monkeypatch):
    noise = itertools.cycle([1.0, 1.3, 0.8, 1.1, 0.9, 1.4, 0.7])
    pair = Scripted(monkeypatch, lambda arm, _: 1e-3 * (next(noise) if arm == "again" else 1))
    pair.sample()
    assert len(pair.asked) > 6 * pairs.LEAST_QUADS


def test_a_slow_case_takes_three(monkeypatch):
    pair = Scripted(monkeypatch, lambda arm, block: 0.2)
    pair.sample()
    assert len(pair.asked) == 6 * 3


def test_a_burst_in_one_block_is_dropped(monkeypatch):
    pair = Scripted(monkeypatch, lambda arm, block: 3e-3 if block == 7 else 1e-3)
    assert pair.sample().typical.head == pytest.approx([0])


def test_without_an_a_a_arm_base_and_head_alone(monkeypatch):
    pair = Scripted(monkeypatch, lambda arm, block: 1e-3, ("base", "head"))
    samples = pair.sample()
    assert [arm[0] for arm in pair.asked[:4]] == list("bhhb")
    assert not samples.typical.again


@pytest.mark.parametrize("slow", [1, 2, 3])
def test_a_call_that_is_slow_now_and_then_is_in_the_mean(monkeypatch, slow):
    """Of five calls; the typical one is as before."""
    pair = Scripted(monkeypatch, lambda arm, block: 1e-3)

    def ask(arm, message, expected):
        pair.now += 0.01
        return messages.Sampled([1e-3] * (5 - slow) + [3e-3 if arm == "head" else 1e-3] * slow)

    monkeypatch.setattr(pair, "ask", ask)
    samples = pair.sample()
    assert samples.mean.head == pytest.approx([math.log(1 + 0.4 * slow)])
    assert samples.typical.head == pytest.approx([0])


def test_the_typical_call_of_a_block_is_not_its_slow_half(monkeypatch):
    """Foreign load only adds time."""
    pair = Scripted(monkeypatch, lambda arm, block: 1e-3)

    def ask(arm, message, expected):
        pair.now += 0.01
        slow = 9e-3 if arm == "head" else 5e-3
        return messages.Sampled([1e-3, 1e-3, slow, slow, slow])

    monkeypatch.setattr(pair, "ask", ask)
    assert pair.sample().typical.head == pytest.approx([0])
