"""What lifting costs in float32, as rounding errors, and what it gains, as time.

    python perf/check_lifting.py [--signals 64] [--samples 4096]
    python perf/check_lifting.py --times [--rounds 300] [--heap system]

One level of bior2.2 (5/3) and bior4.4 (9/7) over periodic noise. Lifting (Daubechies and Sweldens,
Factoring wavelet transforms into lifting steps, 1998) is emulated: each step is one addition and
one fused multiply-add in float32, and the last factor a product. Prints a Markdown table of the
root mean square errors against PyWavelets in float64, over that of PyWavelets in float32, and
beside it those of the native kernels' sums of taps.

`--times` has the native kernels with bior2.2, which they lift, beside the same wavelet but for the
last bit of one tap, which they sum: whole public calls in turn, as check_copy.py times them.
"""

import argparse
import functools
import statistics
import sys
import time

import check_copy
import numpy as np
import pywt
import torch

from pytest_rightfast import heap
from rightfast import wavelets

STEPS = {
    "bior2.2": (-0.5, 0.25),
    "bior4.4": (-1.586134342059924, -0.052980118572961, 0.882911075530934, 0.443506852043971),
}
SCALES = {
    "bior2.2": (2**0.5, -(2**-0.5)),
    "bior4.4": (1.149604398859864, -0.869864451624227),
}
SHAPES = [(2, 2048), (2, 16384), (2, 512, 512), (2, 96, 96, 96), (24, 1024, 1024)]  # of --times


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


def summed(name):
    """The same wavelet but for the last bit of one tap in each pair of filters."""
    bank = [list(f) for f in wavelets.Wavelet(name).filter_bank]
    for low, high in (bank[:2], bank[2:]):
        five = max(low, high, key=np.count_nonzero)
        outer = np.flatnonzero(five)[0]
        five[outer] = float(np.nextafter(five[outer], 0))
    return wavelets.Wavelet("summed", bank)


def times(rounds):
    """One line for each shape and direction."""
    check_copy.line(["case", "", "copy_", "summed, us", "lifted, us", "gain", "paired median"])
    check_copy.line(["---"] * 7)
    lifted = wavelets.Wavelet("lifted", wavelets.Wavelet("bior2.2").filter_bank)
    for shape in SHAPES:
        x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        axes = tuple(range(1, x.ndim))
        found = {"copy_": functools.partial(torch.empty_like(x).copy_, x)}
        for name, bank in (("summed", summed("bior2.2")), ("lifted", lifted)):
            how = (bank, "symmetric")
            bands = wavelets.wavedecn(x, *how, 3, axes)
            torch.testing.assert_close(wavelets.waverecn(bands, *how, axes), x, rtol=0, atol=1e-4)
            found[f"{name} forward"] = functools.partial(wavelets.wavedecn, x, *how, 3, axes)
            found[f"{name} inverse"] = functools.partial(wavelets.waverecn, bands, *how, axes)
        measured = check_copy.measure(found, rounds, time.thread_time_ns, check_copy.SHORT)
        low = {name: statistics.quantiles(measured[name], n=10)[0] for name in found}
        for way in ("forward", "inverse"):
            old, new = f"summed {way}", f"lifted {way}"
            pairs = zip(measured[old], measured[new], strict=True)
            figures = [f"{low[name]:.1f}" for name in ("copy_", old, new)]
            gain, median = low[old] / low[new], statistics.median(a / b for a, b in pairs)
            case = "x".join(map(str, shape))
            check_copy.line([case, way, *figures, f"{gain:.2f}x", f"{median:.2f}x"])
    return 0


def errors(signals, samples):
    """One line for each wavelet and band."""
    wide = np.random.default_rng(0).standard_normal((signals, samples))
    x = wide.astype(np.float32)
    print("| wavelet | band | lifting / pywt | sums / pywt |")
    print("|---|---|---|---|")
    for wavelet in STEPS:
        exact = pywt.dwt(x.astype(np.float64), wavelet, "periodization")
        for a, e in zip(lift(x.astype(np.float64), wavelet), exact, strict=True):
            np.testing.assert_allclose(a, e, atol=1e-9)  # the same transform
        peer = pywt.dwt(x, wavelet, "periodization")
        with wavelets.backend("kernel"):
            bands = wavelets.dwt(torch.from_numpy(x), summed(wavelet), "periodization")
        sums = [b.numpy() for b in bands]
        rows = zip(("low", "high"), exact, lift(x, wavelet), sums, peer, strict=True)
        for name, e, *others in rows:
            lifted, own, theirs = (
                np.sqrt(np.mean((b.astype(np.float64) - e) ** 2)) for b in others
            )
            print(f"| {wavelet} | {name} | {lifted / theirs:.2f} | {own / theirs:.2f} |")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signals", type=int, default=64)
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--heap", default="system", choices=heap.HEAPS, help="see --perf-heap")
    options = parser.parse_args()
    if not options.times:
        return errors(options.signals, options.samples)
    torch.set_num_threads(1)
    if options.heap != "system":
        heap.put_in_force(options.heap)
    with wavelets.backend("kernel"):
        return times(options.rounds)


if __name__ == "__main__":
    sys.exit(main())
