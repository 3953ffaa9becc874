"""References: float64 throughout, by operator or by response, leaf by leaf; dtypes; gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pytest_rightfast import CaseError, PerfCase, WrongAnswer
from pytest_rightfast.reference import allowed_dtypes, check_response, float64_only


def case_of(reference, *args, **keywords):
    return PerfCase(inputs=lambda g: args, reference=reference, **keywords)


def respond(reference, *args, **keywords):
    case = case_of(reference, *args, **keywords)
    check_response(case, case.draw(0))


X = torch.randn(40, generator=torch.Generator().manual_seed(3))


class TestGuard:
    @pytest.mark.parametrize(
        ("work", "operator"),
        [
            (lambda x: x.float() * 2, "aten._to_copy"),
            (lambda x: x.half().double(), "aten._to_copy"),
            (lambda x: torch.empty(3, dtype=torch.float32), "aten.empty"),
            (lambda x: x + torch.ones(40, dtype=torch.bfloat16), "aten.ones"),
            (lambda x: torch.randn(3, dtype=torch.complex64), "aten.randn"),
        ],
    )
    def test_names_the_operator(self, work, operator):
        with pytest.raises(CaseError, match=operator), float64_only("mine"):
            work(X.double())

    def test_lets_integers_bools_and_float64_through(self):
        with float64_only("mine"):
            x = X.double()
            order = x.argsort()
            assert (x[order] * (x > 0) + torch.ones(40)).dtype == torch.float64
            assert torch.fft.fft(x).dtype == torch.complex128
        assert torch.get_default_dtype() == torch.float32

    def test_default_dtype_is_restored_after_an_error(self):
        with pytest.raises(ZeroDivisionError), float64_only("mine"):
            raise ZeroDivisionError
        assert torch.get_default_dtype() == torch.float32


class TestResponse:
    @pytest.mark.parametrize(
        "reference",
        [
            lambda x: np.sin(x.numpy()),
            lambda x: x.numpy().sum(),
            lambda x: torch.softmax(30 * x, 0),
            lambda x: torch.sign(x),
            lambda x: x.round(),
            lambda x: torch.floor(x * 1000),
            lambda x: 1 + 1e-6 * x[:1],
            lambda x: torch.sigmoid(x[:1] + 14),
            lambda x: x.argmax(),
            lambda x: x * 0,
            lambda x: (x, "text", None, 3),
            lambda x: x.numpy()[::-1],
        ],
    )
    def test_float64_passes(self, reference):
        respond(reference, X)

    def test_narrow_numpy(self):
        with pytest.raises(CaseError, match=r"computes below float64 \(output\)"):
            respond(lambda x: np.sin(x.numpy().astype("f4")).astype(float), X)

    def test_one_narrow_leaf_among_many(self):
        def reference(x):
            x = x.numpy()
            return {"a": np.sin(x), "b": [np.cos(x), np.exp(x.astype("f4")).astype(float)]}

        with pytest.raises(CaseError, match=r"output\['b'\]\[1\]"):
            respond(reference, X)

    def test_one_narrow_band_of_a_leaf(self):
        def reference(x):
            x = np.sin(x.numpy())
            x[:8] = x[:8].astype("f4")
            return x

        with pytest.raises(CaseError, match="a response of 80"):
            respond(reference, X)

    def test_narrow_small_leaf(self):
        with pytest.raises(CaseError, match="below float64"):
            respond(lambda x: float(x.numpy().astype("f4").sum()), X)

    def test_numpy_inputs(self):
        respond(lambda x: np.sin(x), X.numpy())
        with pytest.raises(CaseError, match="below float64"):
            respond(lambda x: np.sin(x.astype("f4")).astype(float), X.numpy())

    def test_mutating_reference(self):
        def narrow(x):
            x.copy_(torch.from_numpy(np.sin(x.numpy().astype("f4"))))

        respond(lambda x: x.sin_(), X, mutates=(0,))
        with pytest.raises(CaseError, match="below float64"):
            respond(narrow, X, mutates=(0,))


def test_every_backend_meets_the_guards(verify):
    """What is known of a reference after it failed does not let the next backend through."""
    cache = {}
    verify.session.cache_of = lambda case: cache

    def narrow(x):
        return np.sin(x.numpy().astype("f4")).astype(float)

    for _ in range(2):
        with pytest.raises(CaseError, match="below float64"):
            verify(torch.sin, X, reference=narrow)


class TestDtypes:
    def allowed(self, reference, *args):
        case = case_of(reference, *args)
        return allowed_dtypes(case, case.draw(0))

    def test_those_of_the_reference_on_the_inputs_as_they_are(self):
        assert self.allowed(torch.sin, X.half()) == {torch.float16}
        assert self.allowed(lambda x: [x > 0, x.argsort()], X) == [{torch.bool}, {torch.int64}]

    def test_a_reference_that_widens_allows_both(self):
        assert self.allowed(lambda x: np.sin(x.numpy().astype(float)), X) == {
            torch.float64,
            torch.float32,
        }
        assert self.allowed(lambda x: x.double(), X) == {torch.float64, torch.float32}

    def test_a_reference_that_only_takes_float64(self, verify):
        def reference(x):
            assert x.dtype == torch.float64
            return x.sin()

        assert self.allowed(reference, X) == {torch.float64, torch.float32}
        assert verify(torch.sin, X, reference=reference).status == "ok"
        with pytest.raises(WrongAnswer, match="expected dtype"):
            verify(lambda x: x.sin().bfloat16(), X, reference=reference)

    def test_wrong_dtype(self, verify):
        with pytest.raises(WrongAnswer, match=r"expected dtype torch.float32, got torch.float64"):
            verify(lambda x: x.double().sin(), X, reference=torch.sin)
        with pytest.raises(WrongAnswer, match="expected dtype"):
            verify(lambda x: x.sin().half(), X, reference=torch.sin)
        with pytest.raises(WrongAnswer, match="expected dtype"):
            verify(lambda x: x.argsort().int(), X, reference=torch.argsort)


def test_the_reference_sees_the_quantised_inputs(verify):
    """In float64, but with the values that the backend got."""
    seen = []

    def reference(x):
        seen.append((x.dtype, x.float().bfloat16().double().sub(x).abs().max().item()))
        return x.sin()

    def quiet(x):
        return x.sin()

    x = X.bfloat16()
    verify(torch.sin, x, reference=quiet)
    with pytest.raises(CaseError):
        verify(torch.sin, x, reference=reference)
    assert all(lost == 0 for dtype, lost in seen if dtype == torch.float64)


def test_a_reference_that_raises_is_an_error(verify):
    with pytest.raises(ValueError, match="boom"):
        verify(torch.sin, X, reference=lambda x: (_ for _ in ()).throw(ValueError("boom")))
    assert verify.row.status == "error"


def test_modules_are_references_in_float64(verify):
    norm = torch.nn.LayerNorm(8)

    def reference(module, x):
        assert module.weight.dtype == torch.float64
        return torch.nn.functional.layer_norm(x, (8,), module.weight, module.bias, module.eps)

    for backward in (None, "only", "with_forward"):
        x = torch.randn(4, 8)
        row = verify(norm, x, reference=reference, backward=backward)
        assert row.status == "ok"
    assert norm.weight.dtype == torch.float32
    assert torch.equal(norm.weight, torch.ones(8))


def test_default_parameters_hide_nothing(verify):
    """A layer norm that forgets its weight is right as long as the weight is ones."""

    class Forgetful(torch.nn.LayerNorm):
        def forward(self, x):
            return torch.nn.functional.layer_norm(x, self.normalized_shape, None, None, self.eps)

    def reference(module, x):
        return torch.nn.functional.layer_norm(x, (8,), module.weight, module.bias, module.eps)

    with pytest.raises(WrongAnswer):
        verify(Forgetful(8), torch.randn(4, 8), reference=reference)


def test_gradients_of_parameters(verify):
    class Stuck(torch.nn.Linear):
        def forward(self, x):
            return torch.nn.functional.linear(x, self.weight.detach(), self.bias)

    def reference(module, x):
        return torch.nn.functional.linear(x, module.weight, module.bias)

    assert verify(torch.nn.Linear(4, 3), torch.randn(5, 4), reference=reference, backward="only")
    with pytest.raises(WrongAnswer, match=r"gradient of input\[0\]\.weight"):
        verify(Stuck(4, 3), torch.randn(5, 4), reference=reference, backward="only")


def test_backward_needs_a_floating_tensor(verify):
    with pytest.raises(CaseError, match="needs a floating torch tensor"):
        verify(torch.sin, np.ones(3), reference=np.sin, backward="only")


def test_slopes_judge_a_wrong_element(verify):
    """Numpy reference, one element of the gradient wrong."""

    class OneOff(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, gradient):
            gradient = gradient.clone()
            gradient[3] += 1
            return gradient

    def reference(x):
        return np.sin(x.numpy())

    assert verify(torch.sin, X, reference=reference, backward="only").status == "ok"
    with pytest.raises(WrongAnswer, match="random direction"):
        verify(lambda x: OneOff.apply(x).sin(), X, reference=reference, backward="only")


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_slopes_step_with_the_size_of_the_input(verify, scale):
    def reference(x):
        return np.square(x.numpy())

    assert verify(torch.square, X * scale, reference=reference, backward="only").status == "ok"
