"""Schedules are pure: generated, seeded, shrunk."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

import pytest

from pytest_rightfast import CaseError, Schedule, call, drawn, sizes, swaps, toggled
from pytest_rightfast.schedules import as_schedules, shrink


class Mode(enum.Enum):
    ZERO = 0
    WRAP = 1


def shown(schedule):
    return [repr(step) for step in schedule.steps]


def options_of(function, **more):
    return {s.name for s in toggled(function, lambda **o: call(**o), **more)}


def test_toggled_records_does_the_other_and_the_first_again():
    def function(x, flag=False):
        pass

    (found,) = toggled(function, lambda **o: call(1, **o))
    assert shown(found) == ["call(1)"] * 2 + ["call(1, flag=True)"] * 2 + ["call(1)"]
    (found,) = toggled(function, lambda **o: call(1, **o), repeat=1)
    assert shown(found) == ["call(1)", "call(1, flag=True)", "call(1)"]


def test_toggled_knows_bools_enums_and_literals():
    def function(a, flag=True, mode=Mode.ZERO, how: Literal["x", "y", "z"] = "x"):
        pass

    names = options_of(function)
    assert {name.split(":")[0] for name in names} == {"flag", "mode", "how"}
    assert "how: 'x', 'z', 'x'" in names
    assert len(names) == 4


def test_toggled_knows_an_optional_bool():
    def function(graphs: bool | None = None):
        pass

    assert options_of(function) == {"graphs: None, False, None", "graphs: None, True, None"}


def test_toggled_reads_an_options_dataclass():
    @dataclass(frozen=True)
    class Options:
        log: bool = False
        tile: int = 32

    names = options_of(Options, values={"tile": [64, 128]})
    assert names == {"log: False, True, False", "tile: 32, 64, 32", "tile: 32, 128, 32"}


def test_an_option_without_a_second_value_is_an_error_and_not_left_out():
    def function(flag=False, scale=1.0):
        pass

    with pytest.raises(CaseError, match=r"option 'scale'.*\n.*fixed=\['scale'\]"):
        toggled(function, lambda **o: call(**o))
    assert options_of(function, fixed=["scale"]) == {"flag: False, True, False"}


def test_an_unknown_option_and_a_bare_signature_are_errors():
    def function(flag=False):
        pass

    with pytest.raises(CaseError, match="no options \\['flga'\\]"):
        toggled(function, lambda **o: call(**o), values={"flga": [True]})
    with pytest.raises(CaseError, match="has no options"):
        toggled(lambda x: x, lambda **o: call(**o))


def test_sizes_are_seeded_and_all_come_before_one_comes_again():
    one, same = (sizes(call, range(5), seed=3, length=9) for _ in range(2))
    assert shown(one) == shown(same) != shown(sizes(call, range(5), seed=4, length=9))
    assert len(one.steps) == 9
    assert len(set(shown(one)[:5])) == 5


def test_drawn_is_seeded_and_starts_where_it_can():
    alphabet = [call.backward(), call(1), [call(2), call.evict()]]
    found = drawn(alphabet, length=8, count=20, seed=1)
    assert [shown(s) for s in found] == [shown(s) for s in drawn(alphabet, 8, 20, seed=1)]
    assert len({tuple(shown(s)) for s in found}) == 20
    assert all(schedule.steps[0].action == "call" for schedule in found)
    assert any(step.action == "backward" for schedule in found for step in schedule.steps)
    with pytest.raises(CaseError, match="needs an earlier call"):
        drawn([call.backward()])


def test_swaps_put_memory_between_two_sights():
    assert shown(swaps(call(1), "weight")) == ["call(1)"] * 2 + ["swap('weight')", "call(1)"]


@pytest.mark.parametrize("needed", [{0}, {7}, {2, 11}, {0, 5, 6, 15}, set(range(16))])
def test_shrink_finds_exactly_what_is_needed(needed):
    assert shrink(range(16), lambda part: needed <= set(part)) == sorted(needed)


def test_shrink_keeps_order_and_stops():
    runs = []

    def fails(part):
        runs.append(list(part))
        return "b" in part and "a" in part[part.index("b") :]

    assert shrink(list("abcabc"), fails) == ["b", "a"]
    assert len(shrink("abc", lambda part: True)) == 1  # never to nothing
    runs.clear()
    assert len(shrink(list(range(1000)), lambda part: runs.append(part) or False, tries=7)) == 1000
    assert len(runs) == 7


def test_steps_may_be_bare_or_schedules_and_nothing_else():
    assert as_schedules([call(1), call(2)])[0].name == ""
    assert as_schedules(Schedule("x", (call(1),)))[0].name == "x"
    for wrong in ([], [1], [call(1), Schedule("x", (call(1),))], Schedule("x", ())):
        with pytest.raises(CaseError, match="no sequence of steps"):
            as_schedules(wrong)
