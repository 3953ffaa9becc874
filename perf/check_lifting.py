"""What lifting would cost in float32: rounding errors beside PyWavelets and the native kernels.

    python perf/check_lifting.py [--signals 64] [--samples 4096]

One level of bior2.2 (5/3) and bior4.4 (9/7) over periodic noise. Lifting (Daubechies and Sweldens,
Factoring wavelet transforms into lifting steps, 1998) is emulated: each step is one addition and
one fused multiply-add in float32, and the last factor a product. Prints a Markdown table of the
root mean square errors against PyWavelets in float64, over that of PyWavelets in float32.
"""

import argparse

import numpy as np
import pywt
import torch

from rightfast import wavelets

STEPS = {
    "bior2.2": (-0.5, 0.25),
    "bior4.4": (-1.586134342059924, -0.052980118572961, 0.882911075530934, 0.443506852043971),
}
SCALES = {
    "bior2.2": (2**0.5, -(2**-0.5)),
    "bior4.4": (1.149604398859864, -0.869864451624227),
}


def fused(a, b, c):
    """a b + c, rounded once, in the dtype of c."""
    return (np.float64(a) * np.float64(b) + np.float64(c)).astype(c.dtype)


def lift(x, wavelet):
    """The two bands of periodic signals, in the dtype of x."""
    low, high = x[:, 0::2].copy(), x[:, 1::2].copy()
    for i, step in enumerate(STEPS[wavelet]):
        if i % 2 == 0:
            high = fused(x.dtype.type(step), low + np.roll(low, -1, 1), high)
        else:
            low = fused(x.dtype.type(step), high + np.roll(high, 1, 1), low)
    return [x.dtype.type(s) * band for s, band in zip(SCALES[wavelet], (low, high), strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signals", type=int, default=64)
    parser.add_argument("--samples", type=int, default=4096)
    options = parser.parse_args()
    wide = np.random.default_rng(0).standard_normal((options.signals, options.samples))
    x = wide.astype(np.float32)
    print("| wavelet | band | lifting / pywt | native kernel / pywt |")
    print("|---|---|---|---|")
    for wavelet in STEPS:
        exact = pywt.dwt(x.astype(np.float64), wavelet, "periodization")
        for a, e in zip(lift(x.astype(np.float64), wavelet), exact, strict=True):
            np.testing.assert_allclose(a, e, atol=1e-9)  # the same transform
        peer = pywt.dwt(x, wavelet, "periodization")
        with wavelets.backend("kernel"):
            ours = [b.numpy() for b in wavelets.dwt(torch.from_numpy(x), wavelet, "periodization")]
        rows = zip(("low", "high"), exact, lift(x, wavelet), ours, peer, strict=True)
        for name, e, *others in rows:
            lifted, own, theirs = (
                np.sqrt(np.mean((b.astype(np.float64) - e) ** 2)) for b in others
            )
            print(f"| {wavelet} | {name} | {lifted / theirs:.2f} | {own / theirs:.2f} |")


if __name__ == "__main__":
    main()
