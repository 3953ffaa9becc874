"""Small cases that have nothing to do with wavelets: how a case is written."""

import torch
import torch.nn.functional as F


def softmax(x, dim):
    """Softmax by its definition, shifted by the maximum."""
    shifted = (x - x.amax(dim, keepdim=True)).exp()
    return shifted / shifted.sum(dim, keepdim=True)


def test_softmax(perf):
    perf(
        softmax,
        torch.randn(64, 4096),
        dim=-1,
        reference=torch.softmax,
        families=("large", "confident", "ties", "noncontiguous"),
        moved_bytes=lambda x, dim: 2 * x.nbytes,
    )


def test_layer_norm(perf):
    """A module's parameters are inputs too: drawn at random, and their gradients judged."""
    perf(
        torch.nn.LayerNorm(512),
        torch.randn(256, 512),
        reference=lambda norm, x: F.layer_norm(x, (512,), norm.weight, norm.bias, norm.eps),
        backward="with_forward",
    )


def adam_step(parameter, gradient, mean, square, rate=1e-3, beta1=0.9, beta2=0.999):
    """One step of Adam in place, at the tenth step's bias correction."""
    mean.lerp_(gradient, 1 - beta1)
    square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    denominator = (square / (1 - beta2**10)).sqrt_().add_(1e-8)
    parameter.addcdiv_(mean, denominator, value=-rate / (1 - beta1**10))


def adam_reference(parameter, gradient, mean, square, rate=1e-3, beta1=0.9, beta2=0.999):
    """The formulas of Kingma and Ba (arXiv 1412.6980), out of place."""
    mean = beta1 * mean + (1 - beta1) * gradient
    square = beta2 * square + (1 - beta2) * gradient**2
    step = mean / (1 - beta1**10) / ((square / (1 - beta2**10)) ** 0.5 + 1e-8)
    return parameter - rate * step, mean, square


def test_adam(perf):
    size = 65536
    perf(
        adam_step,
        torch.randn(size),
        torch.randn(size),
        0.1 * torch.randn(size),
        torch.rand(size),
        mutates=(0, 2, 3),
        reference=adam_reference,
        moved_bytes=7 * 4 * size,  # four read, three written
    )
