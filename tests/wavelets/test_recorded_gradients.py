"""Gradients of recorded transforms, of all orders, equal those of the functions."""

import pytest
import torch

from .gpu_cases import flat, random
from .recorded_cases import (
    DEVICES,
    ON_A_GPU,
    PAIRS,
    RECORDED,
    bound,
    on,
    ordered,
    packed,
    same,
    tools,
    tree,
)

pytestmark = RECORDED


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def gradients(call, data, weights=None, twice=False):
    leaves = [x.detach().requires_grad_() for x in data]
    found = flat(call(*leaves))
    weights = weights or [random(*y.shape, key=i).to(y) for i, y in enumerate(found)]
    loss = sum((w * y**3).sum() for w, y in zip(weights, found, strict=True))
    grads = torch.autograd.grad(loss, leaves, create_graph=twice)
    if twice:
        grads += torch.autograd.grad(sum((g**2).sum() for g in grads), leaves)
    return [*(y.detach() for y in found), *grads]


@bound
@packed
@pytest.mark.parametrize("name", PAIRS)
def test_gradients_of_both_orders(device, name, packed, bound):
    analysis, synthesis, down, up = tools(device, name, packed, bound)
    for key in "abc":
        x = on(device, key)
        bands = flat(down(x))
        structure = torch.utils._pytree.tree_structure(down(x))
        for found, wanted, data in (
            (lambda x: tree(analysis(x)), down, [x]),
            (lambda x: synthesis(analysis(x)), lambda x: up(down(x)), [x]),
            (
                lambda *c: synthesis(torch.utils._pytree.tree_unflatten(c, structure)),
                lambda *c: up(torch.utils._pytree.tree_unflatten(c, structure)),
                bands,
            ),
        ):
            some = gradients(found, data, twice=True)
            for a, b in zip(some, gradients(wanted, data, twice=True), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    passes = [way for plan in analysis._plans.values() for way in (plan.forward, plan.backward)]
    assert all(map(len, passes))  # both directions are recorded


def test_a_parameter(device):
    analysis, _, down, _ = tools(device)
    x = torch.nn.Parameter(on(device))
    for data in (x, x.detach(), x):
        same(analysis(data), down(data))
    assert len(analysis) == 1
    flat(analysis(x))[2].sum().backward()
    torch.testing.assert_close(x.grad, torch.autograd.grad(flat(down(x))[2].sum(), x)[0])


@packed
def test_gradients_of_complex_data(device, packed):
    analysis, synthesis, down, up = tools(device, packed=packed)
    x = torch.complex(on(device), on(device, "imag")).requires_grad_()
    (found,) = torch.autograd.grad((synthesis(analysis(x)).abs() ** 3).sum(), x)
    (wanted,) = torch.autograd.grad((up(down(x)).abs() ** 3).sum(), x)
    torch.testing.assert_close(found, wanted)


@packed
def test_several_forward_passes_and_then_their_backward_passes(device, packed):
    analysis, synthesis, down, up = tools(device, packed=packed)
    leaves = [on(device, key).requires_grad_() for key in range(5)]
    losses = [(synthesis(analysis(x)) ** 3).sum() for x in leaves]
    for x, loss in reversed(list(zip(leaves, losses, strict=True))):
        (found,) = torch.autograd.grad(loss, x)
        (wanted,) = torch.autograd.grad((up(down(x)) ** 3).sum(), x)
        torch.testing.assert_close(found, wanted)


def test_gradients_in_batches_and_by_torch_func(device):
    analysis, _, down, _ = tools(device, packed=True)
    x = on(device).requires_grad_()
    found, wanted = analysis(x).flat[:3], torch.cat([c.flatten() for c in flat(ordered(down(x)))])
    ones = torch.eye(3, dtype=x.dtype, device=device)
    (a,) = torch.autograd.grad(found, x, ones, is_grads_batched=True)
    (b,) = torch.autograd.grad(wanted[:3], x, ones, is_grads_batched=True)
    torch.testing.assert_close(a, b)
    y = x.detach()
    loss = lambda call: lambda x: sum((c**3).sum() for c in flat(call(x)))  # noqa: E731
    both = loss(lambda x: tree(analysis(x))), loss(down)
    for transform in (torch.func.grad, torch.func.hessian):
        small = y[:, :3, :2] if transform is torch.func.hessian else y
        torch.testing.assert_close(*(transform(one)(small) for one in both))
    torch.testing.assert_close(*(torch.func.jvp(one, (y,), (y,)) for one in both))
    torch.testing.assert_close(torch.vmap(lambda x: analysis(x).flat)(y).sum(), wanted.sum())


def test_training_after_inference(device):
    analysis, synthesis, down, _ = tools(device)
    x = on(device)
    with torch.inference_mode():
        for _ in range(3):
            same(synthesis(analysis(x.clone())), tools(device)[3](down(x)))
    y = x.clone().requires_grad_()
    weight = torch.ones_like(x).requires_grad_()
    (weight * synthesis(analysis(y))[:, :19]).sum().backward()
    torch.testing.assert_close(weight.grad, x)
    with torch.inference_mode():
        z = x.clone()
    same(analysis(z), down(x))


@ON_A_GPU
@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_dtypes_of_a_gpu(dtype):
    analysis, synthesis, down, up = tools("cuda", packed=True)
    for key in "abc":
        x = on("cuda", key, dtype=dtype).requires_grad_()
        coeffs = analysis(x)
        same(coeffs, down(x))
        (found,) = torch.autograd.grad(synthesis(coeffs).sum(), x)
        (wanted,) = torch.autograd.grad(up(down(x)).sum(), x)
        torch.testing.assert_close(found, wanted)
