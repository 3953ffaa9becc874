import torch
from fastops import rms_norm, rope, softmax, swiglu


def test_softmax(perf):
    x = torch.randn(64, 4096)
    perf(softmax, x, dim=-1, reference=torch.softmax, families=("large", "ties"))


def test_rms_norm(perf):
    def reference(x, weight):
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight

    perf(rms_norm, torch.randn(64, 4096), torch.randn(4096), reference=reference)


def test_swiglu(perf):
    def reference(gate, up):
        return gate * torch.sigmoid(gate) * up

    perf(swiglu, torch.randn(64, 4096), torch.randn(64, 4096), reference=reference)


def test_rope(perf):
    def reference(x, cos, sin):
        turned = torch.complex(*x.chunk(2, -1)) * torch.complex(cos, sin)
        return torch.cat((turned.real, turned.imag), -1)

    half = torch.randn(64, 64)
    perf(rope, torch.randn(64, 128), half, half.flip(0), reference=reference)
