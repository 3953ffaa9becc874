"""The operators by themselves, on values that passes rarely meet."""

import pytest
import torch
from rightfast_kernels.circuit import (
    reference_categorical,
    reference_log_sum,
    reference_max,
    reference_product,
    reference_sum,
    reference_wide,
)
from rightfast_kernels.circuit.reference_product import Rows

from rightfast.circuits.leaves.base import draw_categories

from .common import assert_close


def draw(*shape, seed=0, scale=1.0):
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()


def weights(*shape, seed=1):
    found = torch.rand(shape, generator=torch.Generator().manual_seed(seed)).double()
    return found / found.sum(-1, keepdim=True)


def by_definition(theta, e, alpha=1.0):
    terms = alpha * (theta.log().unsqueeze(-1) + e.unsqueeze(1))
    return terms.logsumexp(2) / alpha


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("groups", [None, 1, 3])
def test_sums(guard, dtype, groups):
    theta, e = weights(groups or 1, 4, 5).to(dtype), draw(groups or 1, 5, 6, scale=3).to(dtype)
    expected = by_definition(theta.double(), e.double())
    if groups is None:
        theta, e, expected = theta[0], e[0], expected[0]
    shift, sums = e.new_empty(*e.shape[:-2], 1, 6), e.new_full(expected.shape, torch.nan)
    out, scaled = torch.full_like(sums, torch.nan), torch.empty_like(e)
    reference_sum.forward(theta, e, shift, scaled, sums, out, guard)
    assert_close(out.double(), expected, 1e-12 if dtype == torch.float64 else 1e-5)


@pytest.mark.parametrize("alpha", [1.0, 0.5, 3.0, 1e3])
@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
def test_wide_sums_for_any_values(alpha, scale):
    """Children thousands of nats apart, zeros, and -inf; forward and both flows."""
    theta, e = weights(2, 4, 5), draw(2, 5, 30, scale=scale)
    theta[:, :, 1] = 0
    theta[0, 0] = torch.tensor([0.0, 0, 0, 0, 1]).double()
    e[1, 4] = -torch.inf
    e[0, :, 3] = -torch.inf
    found = reference_wide.forward(theta, e, alpha)
    expected = by_definition(theta, e, alpha)
    tolerance = 1e-10 * max(1, alpha / 10)  # of exponents as large as alpha times the scale
    assert_close(found.n, expected)
    flows = draw(2, 4, 30, seed=2).abs()
    shares = (theta.log().unsqueeze(-1) + e.unsqueeze(1) - expected.unsqueeze(2)) * alpha
    shares = torch.where(expected.isneginf().unsqueeze(2), 0, shares.exp())
    assert_close(found.to_elements(flows), (shares * flows.unsqueeze(2)).sum(1), tolerance)
    by_flow, by_theta = found.to_parameters(flows)
    assert_close(by_flow, (shares * flows.unsqueeze(2)).sum(3), tolerance)
    inside = theta > 0
    assert_close(by_theta[inside] * theta[inside], by_flow[inside], 1e-9)


@pytest.mark.parametrize("alpha", [1.0, 0.5, 1e3])
def test_log_flows(alpha):
    theta, e = weights(2, 4, 5), draw(2, 5, 7, scale=50)
    n = by_definition(theta, e, alpha)
    flows = draw(2, 4, 7, scale=300)
    found = reference_log_sum.to_elements(theta, e, n, flows, alpha)
    terms = alpha * (theta.log().unsqueeze(-1) - n.unsqueeze(2) + e.unsqueeze(1))
    assert_close(found, (terms + flows.unsqueeze(2)).logsumexp(1))


def test_maxima_and_ties():
    theta = torch.tensor([[[0.5, 0.5], [0.0, 1.0]]]).double()
    out = torch.empty(1, 2, 1).double()
    chosen = reference_max.forward(theta, torch.zeros(1, 2, 1).double(), out)
    assert chosen.tolist() == [[[0], [1]]]
    assert_close(out, torch.tensor([[[0.5], [1.0]]]).double().log())
    flows = torch.ones(1, 2, 1).double()
    elements = torch.full((1, 2, 1), torch.nan).double()
    reference_max.to_elements(chosen, flows, elements)
    assert elements.flatten().tolist() == [1, 1]


def test_products_of_views_and_indices():
    n = draw(9, 4)
    index = torch.tensor([7, 0, 8])
    factors = [Rows(4, view=n[2:6]), Rows(3, index=index), Rows(2, view=n[6:8])]
    out, scratch = torch.empty(4, 4).double(), torch.empty(4, 4).double()
    reference_product.forward(n, factors, scratch, out)
    expected = n[2:6].clone()
    expected[:3] += n[index]
    expected[:2] += n[6:8]
    assert_close(out, expected)


def test_log_flows_of_rows_that_are_named_twice():
    flows = draw(3, 4, scale=100)
    flows[1, 0] = -torch.inf
    start = draw(5, 4, seed=3)
    start[2] = -torch.inf
    out = start.clone()
    reference_product.backward_log(flows, [Rows(3, index=torch.tensor([2, 4, 2]))], out)
    expected = start.clone()
    for row, flow in zip((2, 4, 2), flows):
        expected[row] = torch.logaddexp(expected[row], flow)
    assert_close(out, expected)


def test_logs_of_zeros():
    values = torch.tensor([[[0.0, 0.25, 0.75], [1e-40, 0.0, 1.0]]])
    x = torch.tensor([[0, 1, 2, 0]])
    out = torch.empty(1, 2, 4)
    for table in (values, values.expand(1, 2, 3)):
        reference_categorical.log_prob(table, x, out)
        torch.testing.assert_close(out, values.log()[:, :, x[0]])


def test_draws_never_take_what_has_no_weight():
    table = torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.5, 0.0, 0.5, 0.0]]).repeat(5000, 1)
    found = draw_categories(table, torch.Generator().manual_seed(0)).view(-1, 2)
    assert set(found[:, 0].tolist()) == {1}
    assert set(found[:, 1].tolist()) == {0, 2}
    assert abs(float((found[:, 1] == 0).double().mean()) - 0.5) < 0.03
