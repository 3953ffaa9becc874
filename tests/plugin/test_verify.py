"""What a case may look like, each judged right and judged wrong."""

from __future__ import annotations

import dataclasses
import gc
from typing import Any

import numpy as np
import pytest
import torch

from pytest_rightfast import CaseError, PerfCase, WrongAnswer
from pytest_rightfast.evaluate import answer
from pytest_rightfast.verify import Verifier

X = torch.randn(6, 8, generator=torch.Generator().manual_seed(5))


def adam(parameter, gradient, mean, square, rate=0.01):
    mean.lerp_(gradient, 0.1)
    square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
    parameter.addcdiv_(mean, square.sqrt() + 1e-8, value=-rate)


def adam_reference(parameter, gradient, mean, square, rate=0.01):
    mean = mean + 0.1 * (gradient - mean)
    square = 0.999 * square + 0.001 * gradient**2
    return parameter - rate * mean / (square**0.5 + 1e-8), mean, square


def run(function, *args, **kwargs):
    return function(*args, **kwargs)


class TestBefore:
    """What runs before each timed call, so that the call finds the world as it should."""

    @pytest.mark.parametrize("inplace", [False, True])
    def test_once_before_each(self, measure, inplace):
        log = []

        def double(x):
            log.append("call")
            return x.mul_(2) if inplace else x * 2

        row = measure(
            double,
            X,
            mutates=(0,) if inplace else (),
            reference=lambda x: x * 2,
            before=lambda x: log.append("before"),
        )
        assert row.loops == 1
        start, timed = log.index("before"), len(row.samples)
        assert log[start : start + 2 * timed] == ["before", "call"] * timed

    def test_it_has_the_arguments_and_may_fail(self, measure):
        def refuse(x, y):
            assert x.shape == y.shape == X.shape
            raise OSError("the file is on tmpfs")

        with pytest.raises(OSError, match="tmpfs"):
            measure(torch.add, X, X, reference=torch.add, before=refuse)


class TestMutates:
    STATE = (X, X.flip(0), 0.1 * X, X.abs())

    def test_adam(self, measure):
        row = measure(adam, *self.STATE, mutates=(0, 2, 3), reference=adam_reference)
        assert row.status == "ok"
        assert row.samples

    def test_reference_that_mutates_as_well(self, measure):
        assert measure(torch.Tensor.add_, X, X, mutates=(0,), reference=torch.Tensor.add_).samples

    def test_reference_out_of_place(self, measure):
        assert measure(torch.Tensor.add_, X, X, mutates=(0,), reference=torch.add).samples

    def test_memory_that_nobody_filled_is_written_out_of_place(self, measure):
        """NaN differs from itself, but no reference has changed it."""
        garbage = torch.full_like(X, float("nan"))
        row = measure(torch.Tensor.copy_, garbage, X, mutates=(0,), reference=lambda y, x: x * 1)
        assert row.status == "ok"

    def test_by_name(self, verify):
        def fill(*, out, value):
            out.copy_(value * 2)

        for names in (("out",), ["out"]):
            verify(fill, out=X, value=X, mutates=names, reference=lambda *, out, value: value * 2)

    def test_undeclared(self, verify):
        with pytest.raises(WrongAnswer, match=r"argument 2.*changed its input"):
            verify(
                adam,
                *self.STATE,
                mutates=(0, 3),
                reference=lambda p, g, m, s: adam_reference(p, g, m, s)[::2],
            )

    def test_one_more_than_declared(self, verify):
        def careless(x, y):
            x.add_(y)
            y[0, 0] = 1

        with pytest.raises(WrongAnswer, match=r"argument 1.*changed its input"):
            verify(careless, X, X, mutates=(0,), reference=torch.add)

    @pytest.mark.parametrize("fault", ["sign", "unwritten", "nan", "nothing"])
    def test_wrong_values(self, verify, fault):
        def wrong(x, y):
            if fault != "nothing":
                x.sub_(y) if fault == "sign" else x.add_(y)
            if fault == "nan":
                x[2, 2] = torch.nan
            if fault == "unwritten":
                x[2, 2] -= y[2, 2]

        with pytest.raises(WrongAnswer, match="argument 0"):
            verify(wrong, X, X, mutates=(0,), reference=torch.add)

    def test_second_state_wrong(self, verify):
        def wrong(parameter, gradient, mean, square):
            adam(parameter, gradient, mean, square)
            square.mul_(1.01)

        with pytest.raises(WrongAnswer, match="argument 3"):
            verify(wrong, *self.STATE, mutates=(0, 2, 3), reference=adam_reference)

    def test_address_cached(self, verify):
        """A plan made for an address, though other values lie there now."""
        known: dict[int, Any] = {}

        def planned(x, y):
            x.copy_(known.setdefault(y.data_ptr(), x + y))

        with pytest.raises(WrongAnswer, match="at the address of an earlier call"):
            verify(planned, X, X, mutates=(0,), reference=torch.add)

    def test_right_only_when_called_once(self, measure):
        """Inputs are restored before every timed call: the kept rounds are judged too."""
        row = measure(torch.Tensor.mul_, X, 2.0, mutates=(0,), reference=torch.mul)
        assert row.status == "ok"

    def test_numpy(self, measure):
        def double(x):
            x *= 2

        row = measure(double, X.numpy(), mutates=(0,), reference=lambda x: x * 2)
        assert row.status == "ok"

    def test_tree_argument(self, verify):
        def update(tree):
            tree["a"].add_(1)
            tree["b"][0].mul_(2)

        row = verify(
            update,
            {"a": X, "b": [X]},
            mutates=(0,),
            reference=lambda tree: {"a": tree["a"] + 1, "b": [tree["b"][0] * 2]},
        )
        assert row.status == "ok"

    def test_check_sees_what_the_call_left(self, verify):
        assert (
            verify(torch.Tensor.zero_, X, mutates=(0,), check=lambda out, x: not x.any()).status
            == "ok"
        )
        with pytest.raises(WrongAnswer):
            verify(torch.Tensor.add_, X, 1, mutates=(0,), check=lambda out, x, y: not x.any())

    @pytest.mark.parametrize(
        ("keywords", "match"),
        [
            ({"mutates": (4,)}, "names argument 4"),
            ({"mutates": ("out",)}, "names argument 'out'"),
            ({"mutates": 0}, "not a sequence"),
            ({"mutates": "out"}, "not a sequence"),
            ({"mutates": (0,), "backward": "only"}, "do not go together"),
            ({"mutates": (0, 1)}, "expected: 2 new values"),
        ],
    )
    def test_said_wrongly(self, verify, keywords, match):
        with pytest.raises(CaseError, match=match):
            verify(torch.Tensor.add_, X, X, reference=torch.add, **keywords)


class TestInputs:
    def test_structure_of_an_input_changed(self, verify):
        def greedy(tensors):
            total = sum(tensors)
            tensors.pop()
            return total

        with pytest.raises(WrongAnswer, match="changed its input"):
            verify(greedy, [X, X, X], reference=sum)

    def test_number_in_an_input_changed(self, verify):
        def counting(x, state):
            state["calls"] += 1
            return x.sin()

        with pytest.raises(WrongAnswer, match=r"argument 1.*\['calls'\].*changed its input"):
            verify(counting, X, {"calls": 0}, reference=lambda x, state: x.sin())

    def test_shape_of_an_input_changed(self, verify):
        def unsqueezed(x):
            return x.sin() if x.unsqueeze_(0) is None else x.sin()[0]

        with pytest.raises(WrongAnswer, match="changed its input"):
            verify(unsqueezed, X, reference=torch.sin)

    def test_module_parameter_changed(self, verify):
        class Decaying(torch.nn.Linear):
            def forward(self, x):
                out = super().forward(x)
                with torch.no_grad():
                    self.weight.mul_(0.5)
                return out

        with pytest.raises(WrongAnswer, match=r"\.weight.*changed its input"):
            verify(
                Decaying(8, 2),
                X,
                reference=lambda m, x: torch.nn.functional.linear(x, m.weight, m.bias),
            )

    def test_one_tensor_for_all_draws(self, verify):
        """A function that hands out one tensor again and again does not hide a mutation."""
        case = PerfCase(inputs=lambda g: (X,), reference=torch.sin, vary=False)
        with pytest.raises(WrongAnswer, match="changed its input"):
            verify(lambda x: x.mul_(1.5).div(1.5).sin(), case=case)
        kept = X.clone()
        assert verify(torch.sin, case=case).status == "ok"
        assert torch.equal(X, kept)

    def test_draws_that_do_not_differ(self, verify):
        case = PerfCase(inputs=lambda g: (X,), reference=torch.sin)
        with pytest.raises(CaseError, match="same values for every draw"):
            verify(torch.sin, case=case)

    def test_scalars_that_change_with_the_draw(self, verify):
        def inputs(generator):
            return torch.randn(5, generator=generator), torch.rand((), generator=generator).item()

        assert verify(torch.mul, inputs=inputs, reference=torch.mul).status == "ok"

    def test_shapes_that_change_with_the_draw(self, verify):
        def inputs(generator):
            size = int(torch.randint(3, 9, (), generator=generator))
            return (torch.randn(size, generator=generator),)

        assert verify(torch.sin, inputs=inputs, reference=torch.sin).status == "ok"

    @pytest.mark.parametrize(
        "arguments",
        [
            (X.t(),),
            (X[:, ::2],),
            (X[0].expand(4, 8),),
            (X[0, 0],),
            (X[:0],),
            (X[:1, :1],),
            (X.to_sparse(),),
            (torch.nn.Parameter(X),),
            (X.bfloat16(),),
            (torch.complex(X, X).conj(),),
            (X.numpy(),),
            (X.numpy()[::-1],),
            (X.numpy().T,),
            (np.float32(2.5),),
            (np.array(2.5),),
            (2.5,),
        ],
        ids=lambda value: type(value[0]).__name__,
    )
    def test_any_layout(self, measure, arguments):
        row = measure(lambda x: x * 2, *arguments, reference=lambda x: x * 2)
        assert row.status == "ok"
        if not isinstance(arguments[0], torch.Tensor) or arguments[0].numel():
            with pytest.raises(WrongAnswer):
                measure(lambda x: x * 2.1, *arguments, reference=lambda x: x * 2)

    def test_mixed_arguments(self, measure):
        def mixed(x, y, names, *, scale, flag):
            assert names == ["a", None]
            assert flag
            return torch.from_numpy(y) * x * scale

        row = measure(
            mixed,
            X,
            X.numpy(),
            ["a", None],
            scale=0.5,
            flag=True,
            reference=lambda x, y, names, *, scale, flag: torch.from_numpy(y) * x * scale,
        )
        assert row.status == "ok"

    def test_integers_and_bools(self, measure):
        words = torch.arange(12).reshape(3, 4)
        assert measure(torch.cumsum, words, 0, reference=torch.cumsum).status == "ok"
        mask = words > 4
        assert measure(torch.logical_not, mask, reference=torch.logical_not).status == "ok"
        with pytest.raises(WrongAnswer):
            measure(lambda x: x.cumsum(0) + (x == 3), words, reference=lambda x: x.cumsum(0))

    def test_given_tensors_stay_as_they_are(self, measure):
        kept = X.clone()
        measure(torch.sin, X, reference=torch.sin)
        measure(torch.Tensor.zero_, X, mutates=(0,), reference=torch.zeros_like)
        assert torch.equal(X, kept)
        assert not X.requires_grad
        measure(torch.sin, X, reference=torch.sin, backward="only")
        assert not X.requires_grad
        assert X.grad is None

    def test_vary_false_keeps_the_values(self, verify):
        edges = torch.tensor([0.0, 1.0, 2.0, 4.0])
        seen = []

        def bucket(x, edges):
            seen.append(edges.tolist())
            return torch.bucketize(x, edges)

        verify(bucket, X, edges, reference=torch.bucketize, vary=False)
        assert all(one == edges.tolist() for one in seen)


class TestOutputs:
    def test_tree(self, measure):
        def both(x):
            return {"low": x[::2], "high": [x[1::2], (x.sum(), 3, "name", None)]}

        assert measure(both, X, reference=both).status == "ok"
        with pytest.raises(WrongAnswer, match=r"\['high'\]\[1\]\[1\]"):
            measure(
                lambda x: {"low": x[::2], "high": [x[1::2], (x.sum(), 4, "name", None)]},
                X,
                reference=both,
            )

    def test_dataclass(self, measure):
        @dataclasses.dataclass
        class Pair:
            low: Any
            high: Any

        assert measure(lambda x: Pair(x, -x), X, reference=lambda x: Pair(x, -x)).status == "ok"

    def test_numpy(self, measure):
        assert measure(np.sin, X.numpy(), reference=np.sin).status == "ok"
        with pytest.raises(WrongAnswer):
            measure(lambda x: np.sin(x)[::-1], X.numpy(), reference=np.sin)
        assert (
            measure(
                lambda x: np.sin(x)[::-1], X.numpy(), reference=lambda x: np.sin(x)[::-1]
            ).status
            == "ok"
        )

    def test_numpy_memory_is_watched_too(self, verify):
        buffer = np.empty((6, 8), "f4")

        def reusing(x):
            np.sin(x, out=buffer)
            return buffer

        with pytest.raises(WrongAnswer, match="memory was reused"):
            verify(reusing, X.numpy(), reference=np.sin)

    def test_list_that_is_handed_out_again(self, verify):
        result: list[torch.Tensor] = []

        def refill(x):
            result.clear()
            result.extend([x.sin(), x.cos()])
            return result

        with pytest.raises(WrongAnswer, match="memory was reused"):
            verify(refill, X, reference=lambda x: [x.sin(), x.cos()])

    def test_view_of_the_input(self, measure):
        assert measure(lambda x: x.t(), X, reference=lambda x: x.t()).status == "ok"
        assert measure(lambda x: x, X, reference=lambda x: x).status == "ok"

    def test_constant_that_is_handed_out_again(self, measure):
        """A table that does not depend on the input may be kept."""
        table = torch.arange(8.0)
        row = measure(lambda x: (x.sin(), table), X, reference=lambda x: (x.sin(), table.double()))
        assert row.status == "ok"

    def test_complex(self, measure):
        assert measure(torch.fft.rfft, X, reference=torch.fft.rfft).status == "ok"
        with pytest.raises(WrongAnswer):
            measure(lambda x: torch.fft.rfft(x).conj(), X, reference=torch.fft.rfft)

    def test_no_elements(self, measure):
        assert measure(lambda x: x[:0], X, reference=lambda x: x[:0]).status == "ok"
        with pytest.raises(WrongAnswer, match="shape"):
            measure(lambda x: x[:1], X, reference=lambda x: x[:0])

    def test_none(self, measure):
        with pytest.raises(WrongAnswer, match=r"got builtins\.NoneType None"):
            measure(lambda x: None, X, reference=torch.sin)

    def test_picked(self, measure):
        row = measure(
            lambda x: ("noise", x.sin()), X, reference=torch.sin, output=lambda found: found[1]
        )
        assert row.status == "ok"
        with pytest.raises(WrongAnswer):
            measure(lambda x: ("noise", x), X, reference=torch.sin, output=lambda found: found[1])

    def test_item(self, measure):
        assert (
            measure(lambda x: x.sum().item(), X, reference=lambda x: x.sum().item()).status == "ok"
        )


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x.numpy()], ids=["torch", "numpy"])
def test_reused_memory_where_all_draws_are_equal(verify, make):
    """A static buffer shows though each call writes what is there already."""
    words, table = make(X.sort().values), make(torch.rand(3))
    buffer = make(torch.empty(6, 8))

    def static(x):
        buffer[:] = x * 2
        return buffer

    def fresh(x):
        return x * 2, table

    with pytest.raises(WrongAnswer, match="memory was reused"):
        verify(static, words, reference=lambda x: x * 2, vary=False)
    kept = table.copy() if isinstance(table, np.ndarray) else table.clone()
    row = verify(fresh, words, reference=lambda x: (x * 2, kept), vary=False)
    assert row.status == "ok"
    assert (table == kept).all()


def test_reused_memory_shows_before_timing():
    """The gate verifies without timing, and asks for nothing after it."""
    buffer = torch.empty(6, 8)
    case = PerfCase(inputs=lambda g: (torch.randn(6, 8, generator=g),), reference=torch.sin)

    def before(function):
        def ask(call):
            return answer(function, call, case)

        return Verifier(case, ask, 1, {}, lambda work, *args: work(*args)).before()

    assert before(torch.sin) is None
    assert "memory was reused" in before(lambda x: buffer.copy_(x.sin())).what


class TestCheck:
    @pytest.mark.parametrize("verdict", [True, None])
    def test_passes(self, measure, verdict):
        assert measure(torch.sin, X, check=lambda out, x: verdict).status == "ok"

    @pytest.mark.parametrize("verdict", [False, "too wild", 0, torch.tensor(False)])
    def test_refuses(self, verify, verdict):
        with pytest.raises(WrongAnswer):
            verify(torch.sin, X, check=lambda out, x: verdict)

    def test_gets_output_and_arguments(self, verify):
        def check(out, x, *, scale):
            assert torch.equal(out, x * scale)

        assert verify(lambda x, *, scale: x * scale, X, scale=3, check=check).status == "ok"

    def test_mutation_is_seen_without_a_reference(self, verify):
        with pytest.raises(WrongAnswer, match="changed its input"):
            verify(lambda x: x.add_(1), X, check=lambda out, x: True)

    def test_reuse_is_seen_without_a_reference(self, verify):
        buffer = torch.empty(6, 8)
        with pytest.raises(WrongAnswer, match="memory was reused"):
            verify(lambda x: buffer.copy_(x), X, check=lambda out, x: True)


class TestFamilies:
    @pytest.mark.parametrize(
        ("family", "naive"),
        [
            ("confident", lambda x: x.exp() / x.exp().sum(-1, keepdim=True)),
            ("large", lambda x: x.exp() / x.exp().sum(-1, keepdim=True)),
            ("noncontiguous", lambda x: torch.softmax(x.as_strided(x.shape, (8, 1)), -1)),
        ],
    )
    def test_corners_that_normal_inputs_hide(self, verify, family, naive):
        x = 4 * X
        assert verify(naive, x, reference=lambda x: torch.softmax(x, -1)).status == "ok"
        with pytest.raises(WrongAnswer, match=f"family {family}"):
            verify(naive, x, reference=lambda x: torch.softmax(x, -1), families=(family,))

    def test_offset(self, verify):
        def one_pass(x):
            return (x * x).mean() - x.mean() ** 2

        def variance(x):
            return x.var(correction=0)

        assert verify(one_pass, X, reference=variance).status == "ok"
        with pytest.raises(WrongAnswer, match="family offset"):
            verify(one_pass, X, reference=variance, families=("offset",))

    def test_ties(self, verify):
        def last(x):
            return x.shape[-1] - 1 - x.flip(-1).argmax(-1)

        assert verify(last, X, reference=lambda x: x.argmax(-1)).status == "ok"
        with pytest.raises(WrongAnswer, match="family ties"):
            verify(last, X, reference=lambda x: x.argmax(-1), families=("ties",))

    def test_near_zero(self, verify):
        def clipped(x):
            return x / x.norm().clamp_min(0.1)

        assert verify(clipped, X, reference=lambda x: x / x.norm()).status == "ok"
        with pytest.raises(WrongAnswer, match="family near_zero"):
            verify(clipped, X, reference=lambda x: x / x.norm(), families=("near_zero",))

    def test_numpy_inputs(self, verify):
        def naive(x):
            with np.errstate(all="ignore"):
                return np.exp(x) / np.exp(x).sum(-1, keepdims=True)

        def reference(x):
            x = np.exp(x - x.max(-1, keepdims=True))
            return x / x.sum(-1, keepdims=True)

        assert verify(naive, X.numpy(), reference=reference).status == "ok"
        with pytest.raises(WrongAnswer, match="family large"):
            verify(naive, X.numpy(), reference=reference, families=("large",))

    def test_own_mapping(self, verify):
        families = {"spike": lambda g: (torch.eye(4) * 1e20,)}
        with pytest.raises(WrongAnswer, match="family spike"):
            verify(
                lambda x: (x * x).sum().sqrt(),
                torch.randn(4, 4),
                reference=lambda x: x.norm(),
                families=families,
            )

    def test_never_timed(self, measure):
        seen = []

        def watch(x):
            seen.append(x.abs().max().item())
            return x.sin()

        x = torch.rand(64)
        measure(watch, x, reference=torch.sin, families=("large",))
        assert sum(one > 10 for one in seen) == 1

    def test_unknown(self, verify):
        with pytest.raises(CaseError, match=r"(?s)unknown input families \['huge'\].*remedy"):
            verify(torch.sin, X, reference=torch.sin, families=("huge",))


def test_timed_rounds_are_judged(measure):
    """Wrong only while the clock runs, which is when garbage collection is off."""
    with pytest.raises(WrongAnswer, match="in a timed round"):
        measure(lambda x: x.sin() * (1 if gc.isenabled() else 1.01), X, reference=torch.sin)
    assert measure.row.samples == []


def test_wrong_only_when_it_is_timed(measure):
    """Right for the first calls, wrong later: the kept rounds tell."""
    calls = iter(range(10**9))

    def tiring(x):
        return x.sin() * (1 if next(calls) < 12 else 1.01)

    with pytest.raises(WrongAnswer, match=r"timed round|elements"):
        measure(tiring, X, reference=torch.sin)
    assert measure.row.samples == []


def test_implausible_time(measure):
    """More bytes than any memory moves in that time."""
    with pytest.raises(WrongAnswer, match="implausible"):
        measure(torch.sin, X, reference=torch.sin, moved_bytes=2**23)
    assert measure.row.status == "wrong"
    with pytest.raises(WrongAnswer, match="implausible"):
        measure(torch.sin, X, reference=torch.sin, flops=10**10)
    assert measure(torch.sin, X, reference=torch.sin, moved_bytes=2 * X.nbytes).copy_seconds > 0


def test_implausible_peer(measure):
    row = measure.peer(torch.sin, X, reference=torch.sin, moved_bytes=2**23)
    assert row.status == "wrong"
    assert row.samples == []


def test_stated_work_may_be_a_function(measure):
    row = measure(
        torch.mul,
        X,
        2.0,
        reference=torch.mul,
        moved_bytes=lambda x, y: 2 * x.nbytes,
        flops=lambda x, y: x.numel(),
    )
    assert (row.moved_bytes, row.flops) == (2 * X.nbytes, X.numel())


def test_cached_peer_is_wrong(measure):
    known: dict[Any, Any] = {}

    def cached(x):
        return known.setdefault(tuple(x.flatten().tolist()), x.sin()).clone()

    def looked_up(x):
        key = tuple(x.flatten().tolist())
        if key not in known:
            known[key] = x.sin()
        return known[key].clone()

    row = measure.peer(looked_up, X, reference=torch.sin)
    assert "cached" in row.reason
    assert measure(cached, X, reference=torch.sin).status == "ok"  # it does the work each time


def test_what_a_function_sets_up_once_is_no_cache(measure):
    """Tables by shape, weights that a module folds at its first call."""
    tables: dict[int, torch.Tensor] = {}

    def windowed(x):
        if x.shape[-1] not in tables:
            tables[x.shape[-1]] = torch.hann_window(x.shape[-1])
        return x * tables[x.shape[-1]]

    def reference(x):
        return x * torch.hann_window(x.shape[-1]).to(x)

    assert measure(windowed, X, reference=lambda x: x * tables[8].to(x)).status == "ok"

    class Folded(torch.nn.Linear):
        folded = None

        def forward(self, x):
            if self.folded is None or self.folded[0] != self.weight._version:
                self.folded = (self.weight._version, self.weight.detach().t().contiguous())
            return x @ self.folded[1]

    row = measure(Folded(8, 3, bias=False), X, reference=lambda m, x: x @ m.weight.t())
    assert row.status == "ok"


class TestTrust:
    """Answers that another process judged right are known again by their bits."""

    def verifier(self):
        self.computed = 0

        def reference(x):
            self.computed += 1
            return x * 2

        case = PerfCase(inputs=lambda g: (torch.randn(8, generator=g),), reference=reference)
        return Verifier(case, lambda call: answer(torch.mul, call, case), 1, {}, run)

    def digests(self):
        first = self.verifier()
        asked = {n: answer(lambda x: x * 2, first.own(n), first.case) for n in (0, 1)}
        for number, found in asked.items():
            assert first.judge(found, number) is None
        return first.digests(), asked

    def test_known_answers_need_no_reference(self):
        known, asked = self.digests()
        second = self.verifier()
        second.trust(known)
        assert second.judge(asked[0], 0) is None
        assert self.computed == 0

    @pytest.mark.parametrize("change", [1.0, float("nan"), 0.25])
    def test_any_other_bits_are_judged(self, change):
        known, asked = self.digests()
        second = self.verifier()
        second.trust(known)
        asked[0].output[3] = change
        assert second.judge(asked[0], 0) is not None
        assert self.computed > 0

    def test_another_dtype_than_there_is_wrong(self):
        """No reference is run here with the inputs' own types, so nothing else would show it."""
        known, asked = self.digests()
        second = self.verifier()
        second.trust(known)
        asked[0].output = asked[0].output.half()
        wrong = second.judge(asked[0], 0)
        assert wrong is not None
        assert "dtype" in wrong.what

    def test_an_answer_to_another_draw_is_wrong(self):
        known, asked = self.digests()
        second = self.verifier()
        second.trust(known)
        assert second.judge(asked[1], 0) is not None

    def test_what_is_no_plain_tensor_has_no_digest(self):
        from pytest_rightfast.bits import digest_of
        from pytest_rightfast.evaluate import Answer

        assert digest_of(Answer({"a": X, "b": None}))
        assert digest_of(Answer(X)) != digest_of(Answer(X.double()))
        assert digest_of(Answer(X)) != digest_of(Answer(X.reshape(-1)))
        assert digest_of(Answer([X])) != digest_of(Answer({"a": X}))
        for odd in (1.5, object(), X.to_sparse(), torch.nn.Parameter(X)):
            assert digest_of(Answer(odd)) == ""


class TestDefaultDevice:
    """What the plugin draws is on the CPU, wherever the case's tensors are by default."""

    @pytest.mark.parametrize("keywords", [{}, {"backward": "only"}, {"vary": False}])
    def test_another_default_changes_nothing(self, measure, keywords):
        wanted = keywords.get("backward") is not None
        x = X.clone().requires_grad_(wanted)
        with torch.device("meta"):
            measure(
                torch.nn.functional.softplus,
                x,
                reference=lambda x: np.log1p(np.exp(x.detach().numpy())),
                **keywords,
            )

    def test_modules_too(self, measure):
        layer = torch.nn.Linear(8, 3)
        with torch.device("meta"):
            measure(layer, X, check=lambda found, *inputs: found.shape == (6, 3))


@pytest.mark.parametrize("number", [2**63 - 1, 2**63, -(2**70)])
def test_whole_numbers_of_any_size(verify, number):
    verify(lambda x: number + len(x), X, reference=lambda x: number + len(x))
    with pytest.raises(WrongAnswer, match="output"):
        verify(lambda x: number + len(x), X, reference=lambda x: number + len(x) + 1)
