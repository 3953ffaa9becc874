"""Every inverse takes what a recorded transform packs."""

import pytest
import torch

from rightfast import wavelets


@pytest.mark.parametrize(
    ("forward", "inverse", "shape"),
    [
        (wavelets.wavedec, wavelets.waverec, (2, 37)),
        (wavelets.wavedec2, wavelets.waverec2, (2, 13, 18)),
        (wavelets.wavedecn, wavelets.waverecn, (7, 9, 8)),
    ],
)
def test_inverses_take_what_is_packed(forward, inverse, shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    packed = wavelets.recorded(forward, "db2", level=1, packed=True)(x)
    assert torch.equal(inverse(packed, "db2"), inverse(forward(x, "db2", level=1), "db2"))
