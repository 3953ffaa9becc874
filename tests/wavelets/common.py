"""What the wavelet tests share: signals, comparisons, and the wavelets that stand for the rest."""

import zlib

import numpy as np
import pytest
import pywt
import torch

MODES = pywt.Modes.modes
ALL = pywt.wavelist(kind="discrete")
# Of each family short and long filters, symmetric ones, ones with zero taps, and dmey, whose
# filters reconstruct to 1e-2 only.
SOME = ["haar", "db2", "db7", "sym5", "coif1", "bior1.3", "bior2.2", "bior4.4", "rbio3.1", "dmey"]
FEW = ["haar", "db3", "bior2.2"]
# Wavelets as parameters: SOME by default, the other 96 in the slow run.
EVERY = SOME + [pytest.param(name, marks=pytest.mark.slow) for name in ALL if name not in SOME]
TOLERANCE = 1e-12


def signal(*shape, key="", dtype=np.float64):
    """The same random numbers for the same arguments."""
    rng = np.random.default_rng(zlib.crc32(f"{shape}{key}".encode()))
    x = rng.normal(size=shape)
    if np.issubdtype(dtype, np.complexfloating):
        x = x + 1j * rng.normal(size=shape)
    return x.astype(dtype)


def fits(n, mode):
    """Whether PyWavelets extends n samples by this mode."""
    return n > 1 or mode not in ("reflect", "antireflect")


def norm(*arrays):
    return float(np.sqrt(sum(np.sum(np.abs(np.asarray(a)) ** 2) for a in arrays)))


def assert_close(actual, expected, scale, tolerance=TOLERANCE):
    """``actual``, a tensor, equals the array to ``tolerance`` times ``scale``."""
    assert isinstance(actual, torch.Tensor)
    assert actual.shape == expected.shape
    error = np.abs(actual.detach().numpy() - expected).max(initial=0)
    assert error <= tolerance * scale, f"error {error:.3e} of scale {scale:.3e}"


def leaves(coeffs):
    """The bands of a coefficient list in any format, in a fixed order."""
    found = []
    for entry in coeffs:
        if isinstance(entry, dict):
            found += [entry[key] for key in sorted(entry)]
        elif isinstance(entry, (tuple, list)):
            found += list(entry)
        else:
            found.append(entry)
    return found
