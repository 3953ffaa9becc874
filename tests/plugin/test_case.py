"""How a case is written: what goes to the function, what is refused, with a remedy."""

from __future__ import annotations

import pytest
import torch

from pytest_rightfast import RESERVED, CaseError, PerfCase, peer, subject
from pytest_rightfast.case import DRAWS, backends, build_case

X = torch.randn(6, generator=torch.Generator().manual_seed(5))


def test_unknown_keywords_go_to_the_function():
    case = build_case((X,), {"dim": 0, "reference": torch.softmax})
    call = case.draw(0)
    assert set(call.kwargs) == {"dim"}
    assert case.reference is torch.softmax


def test_reserved_names_are_those_of_a_case():
    assert {"reference", "check", "inputs", "mutates", "backward", "output", "case"} <= RESERVED
    assert "dim" not in RESERVED


def test_keywords_beside_a_case_win():
    case = PerfCase(inputs=lambda g: (X,), reference=torch.sin, rtol=1.0)
    built = build_case((), {"case": case, "rtol": 0.5, "backward": "only"})
    assert (built.rtol, built.backward, built.reference) == (0.5, "only", torch.sin)


@pytest.mark.parametrize(
    ("args", "keywords", "match"),
    [
        ((X,), {}, "neither reference nor check"),
        ((), {"reference": torch.sin}, "no inputs"),
        ((X,), {"case": "haar"}, "not a PerfCase"),
        ((X,), {"reference": torch.sin, "inputs": lambda g: (X,)}, "both arguments and inputs="),
        ((X,), {"reference": torch.sin, "case": PerfCase(inputs=lambda g: X)}, "both arguments"),
        ((X,), {"reference": torch.sin, "backward": "both"}, "unknown backward="),
        ((X,), {"reference": torch.sin, "families": ("odd",)}, "unknown input families"),
    ],
)
def test_refused_with_a_remedy(args, keywords, match):
    with pytest.raises(CaseError, match=match) as caught:
        build_case(args, keywords).draw(0)
    assert "expected:" in str(caught.value)


@pytest.mark.parametrize(
    ("drawn", "args", "kwargs"),
    [
        (lambda g: (1, 2), (1, 2), {}),
        (lambda g: {"a": 1}, (), {"a": 1}),
        (lambda g: [1, 2], ([1, 2],), {}),
        (lambda g: 7, (7,), {}),
    ],
)
def test_what_inputs_may_return(drawn, args, kwargs):
    call = PerfCase(inputs=drawn, check=bool).draw(0)
    assert (call.args, call.kwargs) == (args, kwargs)


def test_draws_are_seeded():
    case = PerfCase(inputs=lambda g: (torch.randn(4, generator=g),), check=bool)
    assert torch.equal(case.draw(3).args[0], case.draw(3).args[0])
    assert not torch.equal(case.draw(3).args[0], case.draw(4).args[0])


class TestGivenArguments:
    """Draw 0 keeps the values; the others keep what functions assume of them."""

    def draws(self, *args, **keywords):
        case = build_case(args, {"check": bool, **keywords})
        return case.draw(5 * DRAWS).args, case.draw(5 * DRAWS + 1).args

    def test_floats(self):
        first, second = self.draws(X)
        assert torch.equal(first[0], X)
        assert not torch.equal(second[0], X)
        assert first[0].data_ptr() != X.data_ptr()
        ratio = second[0].sort().values / X.sort().values
        assert torch.allclose(ratio, ratio[0].expand(6))
        assert 0.5 <= ratio[0] <= 1

    def test_signs_ranges_and_integers(self):
        positive, words, flags = torch.rand(50) + 1, torch.arange(9), torch.arange(9) > 4
        _, (a, b, c) = self.draws(positive, words, flags)
        assert (a > 0).all()
        assert sorted(b.tolist()) == list(range(9))
        assert c.sum() == flags.sum()

    def test_strides_and_flags(self):
        wide = torch.randn(4, 6)[:, ::2].t()
        leaf = torch.randn(3, requires_grad=True)
        for drawn in self.draws(wide, leaf, X[0].expand(5)):
            assert drawn[0].stride() == wide.stride() or drawn[0].is_contiguous() is False
            assert drawn[1].requires_grad
            assert drawn[1].is_leaf

    def test_modules_get_noise_and_stay_untouched(self):
        norm = torch.nn.LayerNorm(4)
        _, (drawn,) = self.draws(norm)
        assert not torch.equal(drawn.weight, norm.weight)
        assert torch.equal(norm.weight, torch.ones(4))

    def test_anything_else_is_passed_on(self):
        thing = object()
        first, second = self.draws(thing, "haar", 3, None)
        assert first == second == (thing, "haar", 3, None)


def test_backends():
    found = backends({"ours": torch.sin, "theirs": peer(torch.cos), "mine": subject(torch.exp)})
    assert [(one.name, one.role) for one in found] == [
        ("ours", "subject"),
        ("theirs", "peer"),
        ("mine", "subject"),
    ]
    assert found[1](torch.zeros(2)).tolist() == [1, 1]
    assert repr(found[0]) == "ours"
    with pytest.raises(CaseError, match=r"(?s)backend 'odd' is not callable.*expected:.*got:"):
        backends({"odd": 3})
