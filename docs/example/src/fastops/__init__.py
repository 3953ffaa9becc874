"""A small library of somebody's, to try the gate on."""

import torch


def softmax(x, dim=-1):
    shifted = (x - x.amax(dim, keepdim=True)).exp_()
    return shifted.div_(shifted.sum(dim, keepdim=True))


def rms_norm(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def swiglu(gate, up):
    return torch.nn.functional.silu(gate) * up


def rope(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
