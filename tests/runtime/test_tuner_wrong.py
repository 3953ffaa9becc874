"""A candidate wins only if it is right: faster and wrong is refused, and said."""

from __future__ import annotations

import warnings

import pytest
import torch

from rightfast.runtime import best_of, cdiv, choices, forget_choices, pin_choices
from rightfast.runtime.agreement import disagreement
from rightfast.runtime.scratch import Scratch

pytestmark = pytest.mark.filterwarnings("ignore:best_of. candidate:RuntimeWarning")


@pytest.fixture(autouse=True)
def nothing_chosen():
    forget_choices()
    yield
    forget_choices()


class Stopwatch:
    """A clock under which the default is slow and all others are fast."""

    def __init__(self, default):
        self.default = default
        self.ran = None

    def wrapped(self, name, candidate):
        def run(*arguments):
            self.ran = name
            return candidate(*arguments)

        return run

    def clock(self, call):
        call()
        return 10.0 if self.ran == self.default else 1.0


def refusal(default, other, *arguments, **options):
    """Why `other`, which is ten times faster, was refused; empty if it won."""
    watch = Stopwatch("default")
    both = {"default": default, "other": other}
    candidates = {name: watch.wrapped(name, one) for name, one in both.items()}
    forget_choices()
    chosen = best_of(candidates, arguments, key="wrong", clock=watch.clock, runs=2, **options)
    (choice,) = choices()
    assert candidates[choice.winner] is chosen
    assert choice.winner == ("default" if "other" in choice.refused else "other")
    return choice.refused.get("other", "")


def double(x):
    return x * 2


X = torch.linspace(1, 2, 64)


class TestReturned:
    @pytest.mark.parametrize(
        ("other", "why"),
        [
            (lambda x: x + x, ""),
            (lambda x: x * 2 * (1 + 1e-7), ""),
            (lambda x: x * 2 * (1 + 1e-4), "64 of 64 elements differ"),
            (lambda x: torch.cat([x[:63] * 2, x[:1]]), "1 of 64 elements differ, by up to 3"),
            (lambda x: (x * 2).half().float(), "elements differ"),
            (lambda x: (x * 2)[:63], r"shape torch.Size(\[63\])?"),
            (lambda x: (x * 2).double(), "dtype torch.float64, not torch.float32"),
            (lambda x: x * float("nan"), "64 of 64 elements differ"),
            (lambda x: [x * 2, x], "2 results, not 1"),
            (lambda x: None, "None, not tensor"),
            (lambda x: 1 // 0, "ZeroDivisionError"),
        ],
    )
    def test_values(self, other, why):
        found = refusal(double, other, X)
        assert bool(found) == bool(why)
        assert why.split("(")[0] in found

    def test_it_is_a_warning_too(self):
        with pytest.warns(RuntimeWarning, match=r"candidate 'other' of 'wrong' is not used: 64 of"):
            refusal(double, lambda x: x, X)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert refusal(double, lambda x: x + x, X) == ""

    def test_integers_and_bools_are_exact(self):
        numbers = torch.arange(10)
        assert "1 of 10" in refusal(
            double, lambda x: (x * 2).index_fill(0, torch.tensor(3), 5), numbers
        )
        assert refusal(lambda x: x > 3, lambda x: x >= 4, numbers) == ""
        assert "1 of 10" in refusal(lambda x: x > 3, lambda x: x >= 3, numbers)

    def test_nan_must_meet_nan(self):
        values = torch.tensor([1.0, float("nan"), float("inf")])
        assert refusal(double, lambda x: x + x, values) == ""
        assert "2 of 3" in refusal(double, lambda x: (x * 2).nan_to_num(), values)

    def test_many_small_errors(self):
        x = torch.ones(10_000)
        assert "as a whole" in refusal(double, lambda x: x * 2 * (1 + 1.5e-5), x)

    def test_tolerances(self):
        near = lambda x: x * 2 + 1e-3  # noqa: E731
        assert "elements differ" in refusal(double, near, X)
        assert refusal(double, near, X, rtol=1e-2) == ""
        assert refusal(double, near, X, atol=1e-2) == ""

    def test_an_unwritten_element_shows(self):
        """Fresh memory holds what was freed last: the right answer, unless it was soiled."""
        size = 5000

        def gap(x):
            out = torch.empty_like(x)
            out[: size - 1] = x[: size - 1] * 2
            return out

        def full(x):
            out = torch.empty_like(x)
            out[:] = x * 2
            return out

        # The C library may have a third block at hand; without soil this finds a fifth of them.
        found = [refusal(full, gap, torch.rand(size)) for _ in range(20)]
        assert sum("1 of 5000" in why for why in found) >= 15

    def test_right_once(self):
        calls = []

        def first(x):
            calls.append(x)
            return x * 2 if len(calls) == 1 else x * 3

        assert "second run" in refusal(double, first, X)


def map_rows(x, out, tiles):
    """Doubles the rows of some tiles of four."""
    for tile in tiles:
        out[4 * tile : 4 * tile + 4] = x[4 * tile : 4 * tile + 4] * 2


class TestBlockMaps:
    """Class 20: every way to cut the rows, and block maps that are wrong on purpose."""

    @pytest.mark.parametrize("rows", [1, 3, 4, 5, 17, 32])
    @pytest.mark.parametrize("writes", [None, [1]])
    @pytest.mark.parametrize("before", ["zeros", "the answer"])
    def test_maps(self, rows, writes, before):
        x = torch.rand(rows, 3) + 1
        out = torch.zeros_like(x) if before == "zeros" else x * 2
        tiles = cdiv(rows, 4)

        def whole(x, out):
            out.copy_(x * 2)

        def mapped(tiles):
            return lambda x, out: map_rows(x, out, tiles)

        assert refusal(whole, mapped(range(tiles)), x, out, writes=writes) == ""
        assert refusal(whole, mapped(range(tiles)[::-1]), x, out, writes=writes) == ""
        # The last tile left out. What an earlier call left in `out` hides it, unless it is said
        # that `out` is only written.
        hidden = before == "the answer" and writes is None
        found = refusal(whole, mapped(range(tiles - 1)), x, out, writes=writes)
        assert bool(found) != hidden

    def test_a_pinned_map_that_is_wrong(self):
        """Yesterday's answer in the output hides it from nobody."""
        x = torch.rand(9, 3)
        out = x * 2
        ways = {
            "whole": lambda x, out: map_rows(x, out, [0, 1, 2]),
            "short": lambda x, out: map_rows(x, out, [0, 1]),
        }
        content = {"place": "cpu", "key": "'map'", "winner": "short"}
        pin_choices({"schema": 1, "choices": [content]})
        assert best_of(ways, (x, out), key="map", writes=[1]) is ways["whole"]
        assert "3 of 27" in choices()[0].refused["short"]

    def test_a_block_twice(self):
        def twice(x, out):
            out += x
            out[:4] += x[:4]

        def once(x, out):
            out += x

        x, out = torch.rand(16, 3), torch.rand(16, 3)
        for writes in (None, [1]):
            assert refusal(once, once, x, out, writes=writes) == ""
            assert "12 of 48" in refusal(once, twice, x, out, writes=writes)

    def test_what_is_poisoned_may_be_read_by_the_default(self):
        def raises(x, out):
            if out.isnan().any():
                raise ValueError("NaN in")
            out += x

        x, out = torch.rand(4), torch.rand(4)
        assert refusal(raises, raises, x, out, writes=[1]) == ""


class TestRegrouping:
    """Class 21: no config that may be picked is less accurate than the default."""

    @pytest.fixture
    def configs(self):
        """Row sums one tile after another, as a kernel has them; the last one rounds in between."""

        def config(tile, dtype=torch.float32):
            def run(x):
                total = torch.zeros(len(x), tile, dtype=dtype)
                for start in range(0, x.shape[1], tile):
                    part = x[:, start : start + tile].to(dtype)
                    total[:, : part.shape[1]] += part
                return total.float().sum(1).to(x.dtype)

            return run

        found = {f"tile {tile}": config(tile) for tile in (32, 16, 64, 128)}
        return {**found, "narrow": config(16, torch.bfloat16)}

    @staticmethod
    def error(got, x):
        exact = x.double().sum(1)
        return float((got.double() - exact).norm() / exact.norm())

    @pytest.mark.parametrize("batch", [17, 33, 100])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_every_config(self, configs, batch, dtype):
        generator = torch.Generator().manual_seed(batch)
        x = torch.rand(batch, 1000, generator=generator).to(dtype)
        options = {
            "key": ("sum", batch, dtype),
            "rtol": 0.4,
            "reference": lambda x: x.double().sum(1),
        }
        base = self.error(configs["tile 32"](x), x)
        best_of(configs, (x,), runs=1, **options)
        (choice,) = choices()
        assert "less accurate" in choice.refused["narrow"]
        for name in set(configs) - set(choice.refused):
            forget_choices()
            pin_choices(
                {
                    "schema": 1,
                    "choices": [{"place": "cpu", "key": choice.key, "winner": name}],
                }
            )
            chosen = best_of(configs, (x,), **options)
            assert chosen is configs[name]
            assert self.error(chosen(x), x) <= 1.5 * base

    def test_a_pinned_config_is_held_to_it(self, configs):
        x = torch.rand(17, 1000)
        key = ("sum", 17)
        content = {"place": "cpu", "key": "('sum', 17)", "winner": "narrow"}
        pin_choices({"schema": 1, "choices": [content]})
        chosen = best_of(configs, (x,), key=key, rtol=0.4, reference=lambda x: x.double().sum(1))
        assert chosen is configs["tile 32"]
        assert "less accurate" in choices()[0].refused["narrow"]

    def test_written_and_returned(self):
        """A reference speaks of what is returned, or, if that is nothing, of what is written."""

        def into(x, out):
            out.copy_(x.sum(1))

        def coarse(x, out):
            out.copy_(x.bfloat16().sum(1))

        x, out = torch.rand(8, 64), torch.zeros(8)
        options = {"writes": [1], "rtol": 4e-2, "reference": lambda x, out: x.double().sum(1)}
        assert refusal(into, into, x, out, **options) == ""
        assert "less accurate" in refusal(into, coarse, x, out, **options)

    def test_a_reference_of_another_shape(self):
        with pytest.raises(ValueError, match=r"reference= expected tensors of shapes \[\(64,\)\]"):
            refusal(double, double, X, reference=lambda x: x.sum())


def test_copies_of_every_kind():
    """Bytes, strides, overlaps and alignment of copies, for every kind of tensor."""
    whole = torch.arange(64, dtype=torch.float32)
    kinds = [
        whole,
        whole[1:],
        whole[::2],
        whole.view(8, 8).t(),
        whole.view(8, 8)[2:5, 3:],
        whole[:0],
        whole[3].expand(4),
        torch.tensor(3.0),
        whole.to(torch.bfloat16)[1:],
        torch.complex(whole, whole)[1:],
        torch.complex(whole, whole).conj(),
        torch.eye(3).to_sparse(),
        torch.nn.Parameter(whole.clone()),
        whole > 3,
    ]
    scratch = Scratch(kinds, {}, None)
    scratch.reset()
    for tensor, copy in zip(kinds, scratch.arguments, strict=True):
        assert disagreement(copy, tensor, None, 0.0) == "" or tensor.is_sparse
        assert copy.dtype == tensor.dtype
        if tensor.layout is torch.strided:
            assert copy.stride() == tensor.stride()
        if tensor.layout is torch.strided and tensor.numel():
            assert copy.data_ptr() != tensor.data_ptr()
            assert tensor.is_conj() or (copy.data_ptr() - tensor.data_ptr()) % 64 == 0
    assert scratch.arguments[1].data_ptr() - scratch.arguments[0].data_ptr() == 4
    assert len(scratch.pairs) == 8  # six are views of one memory
