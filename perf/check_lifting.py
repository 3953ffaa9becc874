"""What lifting costs in float32, as rounding errors, and what it gains, as time.

    python perf/check_lifting.py [--signals 64] [--samples 4096]
    python perf/check_lifting.py --times [--only TEXT] [--rounds 300] [--heap system]

One level of short biorthogonal banks over periodic noise. Lifting (Daubechies and Sweldens,
Factoring wavelet transforms into lifting steps, 1998) is emulated in float32: two numbers whose
weights are alike are added (or subtracted) first, all else is fused, small weights come before
large ones, and the number itself comes last, with the factor of its band in the last of its steps.
Prints a Markdown table: taps, multiply-adds for a pair of samples, summed and lifted, and the root
mean square errors over those of PyWavelets in float32 (against float64), both ways: lifted, and as
the native kernels' sums of taps.

`--times` has the native kernels with the wavelets that they lift, beside the same ones but for the
last bit of one tap, which they sum: whole public calls in turn, as check_copy.py times them.
"""

import argparse
import functools
import itertools
import statistics
import sys
import time

import check_copy
import numpy as np
import pywt
import torch

from pytest_rightfast import heap
from rightfast import wavelets

LIFTED = ["bior2.2", "rbio2.2", "bior2.4", "rbio2.4", "bior1.3", "rbio1.3", "bior1.5", "rbio1.5"]


def between(*weights):
    """A step from the numbers on both sides, the nearest first: [(offset, weight), ...] ahead."""
    return [(k, w) for i, w in enumerate(weights) for k in (-i, i + 1)]


def before(step):
    """The same between the number of the same pair and those before."""
    return [(k - 1, w) for k, w in step]


def centred(middle, *weights):
    """From the number of the same pair, and the differences of those around it."""
    return [(0, middle)] + [(s * k, -s * w) for k, w in enumerate(weights, 1) for s in (-1, 1)]


def spline(last):
    """The steps of bior3.x: three, of which the last is `last`, one pair back."""
    return [(0, [(0, -1 / 3)]), (1, [(0, -3 / 8), (1, -9 / 8)]), (0, before(last))]


PREDICT, DIFFERENCE = (1, between(-1 / 2)), (1, [(0, -1)])
A, B, C, D = -1.586134342059924, -0.052980118572961, 0.882911075530934, 0.443506852043971
# Steps: of the first (0) or the second samples of the pairs, from the others; and the factors.
BANKS = {
    "bior1.3": ([DIFFERENCE, (0, centred(1 / 2, 1 / 16))], (2**0.5, -(0.5**0.5))),
    "bior1.5": ([DIFFERENCE, (0, centred(1 / 2, 11 / 128, -3 / 256))], (2**0.5, -(0.5**0.5))),
    "bior2.2": ([PREDICT, (0, before(between(1 / 4)))], (2**0.5, -(0.5**0.5))),
    "bior2.4": ([PREDICT, (0, before(between(19 / 64, -3 / 64)))], (2**0.5, -(0.5**0.5))),
    "bior2.6": (
        [PREDICT, (0, before(between(81 / 256, -39 / 512, 5 / 512)))],
        (2**0.5, -(0.5**0.5)),
    ),
    "bior3.1": (spline([(0, 4 / 9)]), (4.5**0.5, -(2**0.5) / 3)),
    "bior3.3": (spline(centred(4 / 9, -1 / 12)), (4.5**0.5, -(2**0.5) / 3)),
    "bior3.5": (spline(centred(4 / 9, -17 / 144, 5 / 288)), (4.5**0.5, -(2**0.5) / 3)),
    "bior4.4": (
        [(1, between(A)), (0, before(between(B))), (1, between(C)), (0, before(between(D)))],
        (1.149604398859864, -0.869864451624227),
    ),
}
SHAPES = [(2, 2048), (2, 16384), (2, 512, 512), (2, 96, 96, 96), (24, 1024, 1024)]  # of --times


def fused(a, b, c):
    """a b + c, rounded once, in the dtype of c."""
    return (np.float64(a) * np.float64(b) + np.float64(c)).astype(c.dtype)


def dual(steps, factors):
    """Those of the dual bank."""
    return [(1 - at, [(-k, -w) for k, w in step]) for at, step in steps], [1 / f for f in factors]


def backwards(steps, factors):
    """Those of the inverse, with the factors last."""
    back = [
        (at, [(k, -w * factors[at] / factors[1 - at]) for k, w in step])
        for at, step in reversed(steps)
    ]
    return back, [1 / f for f in factors]


def grouped(step):
    """[(weight, offset, other offset or None, sign of the other)], small weights first."""
    found, rest = [], list(step)
    while rest:
        k, w = rest.pop(0)
        twin = next((t for t in rest if np.isclose(abs(t[1]), abs(w), rtol=1e-9)), None)
        if twin:
            rest.remove(twin)
        found.append((w, k, twin and twin[0], twin and np.sign(twin[1] * w)))
    return sorted(found, key=lambda group: abs(group[0]))


def operations(steps):
    """For a pair of samples; a factor comes with a product in each band."""
    return 2 + sum(len(step) for _, step in steps)


def lift(pairs, steps, factors):
    """Both bands of pairs [first, second], or back, in their dtype."""
    found, dtype = [p.copy() for p in pairs], pairs[0].dtype
    scale = [1.0, 1.0]
    for i, (at, step) in enumerate(steps):
        last = all(later != at for later, _ in steps[i + 1 :])
        factor = factors[at] if last else 1.0
        total = np.zeros_like(found[0])
        for w, k, twin, sign in grouped(step):
            there = np.roll(found[1 - at], -k, 1)
            if twin is not None:
                there = there + dtype.type(sign) * np.roll(found[1 - at], -twin, 1)
            weight = dtype.type(w * scale[at] * factor / scale[1 - at])
            total = fused(weight, there, total)
        found[at] = fused(dtype.type(factor), found[at], total)
        scale[at] *= factor
    return found


def summed(name):
    """The same wavelet but for the last bit of one tap in each pair of filters."""
    bank = [list(f) for f in wavelets.Wavelet(name).filter_bank]
    for low, high in (bank[:2], bank[2:]):
        five = max(low, high, key=np.count_nonzero)
        outer = np.flatnonzero(five)[0]
        five[outer] = float(np.nextafter(five[outer], 0))
    return wavelets.Wavelet("summed", bank)


def times(rounds, only):
    """One line for each shape, wavelet and direction."""
    names = [
        "case",
        "wavelet",
        "",
        "copy_, us",
        "summed, us",
        "lifted, us",
        "gain",
        "paired median",
    ]
    check_copy.line(names)
    check_copy.line(["---"] * len(names))
    for shape, wavelet in itertools.product(SHAPES, LIFTED):
        if only not in wavelet:
            continue
        lifted = wavelets.Wavelet("lifted", wavelets.Wavelet(wavelet).filter_bank)
        x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        axes = tuple(range(1, x.ndim))
        found = {"copy_": functools.partial(torch.empty_like(x).copy_, x)}
        for name, bank in (("summed", summed(wavelet)), ("lifted", lifted)):
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
            check_copy.line([case, wavelet, way, *figures, f"{gain:.2f}x", f"{median:.2f}x"])
    return 0


def rms(some, exact):
    """Over all arrays."""
    return np.sqrt(
        np.mean([(a.astype(np.float64) - e) ** 2 for a, e in zip(some, exact, strict=True)])
    )


def against_pywt(wavelet, x):
    """Errors over those of PyWavelets: lifted forward and inverse, and summed."""
    name = wavelet if wavelet in BANKS else wavelet.replace("rbio", "bior")
    steps = BANKS[name] if name == wavelet else dual(*BANKS[name])
    wide, mode = x.astype(np.float64), "periodization"
    peers, exact = pywt.dwt(x, wavelet, mode), pywt.dwt(wide, wavelet, mode)
    for turn in (0, 1):  # pairs begin with even samples, or with odd ones
        turned = np.roll(x, turn, 1)
        wanted = lift([turned[:, i::2].astype(np.float64) for i in (0, 1)], *steps)
        if np.isclose(rms(wanted, np.zeros(2)), rms(exact, np.zeros(2)), rtol=1e-9):
            break
    else:
        raise AssertionError(f"the steps of {wavelet} are not its filters")
    small = [band.astype(np.float32) for band in wanted]
    back = lift([band.astype(np.float64) for band in small], *backwards(*steps))
    halves = [band.astype(np.float32) for band in exact]
    whole = pywt.idwt(*(band.astype(np.float64) for band in halves), wavelet, mode)
    forward = rms(peers, exact)
    inverse = rms([pywt.idwt(*halves, wavelet, mode)], [whole])
    with wavelets.backend("kernel"):
        bands = wavelets.dwt(torch.from_numpy(x), summed(wavelet), mode)
        given = [torch.from_numpy(band) for band in halves]
        signal = wavelets.idwt(*given, summed(wavelet), mode)
    return [
        rms(lift([turned[:, i::2] for i in (0, 1)], *steps), wanted) / forward,
        rms([b.numpy() for b in bands], exact) / forward,
        rms(lift(small, *backwards(*steps)), back) / inverse,
        rms([signal.numpy()], [whole]) / inverse,
    ]


def errors(signals, samples):
    """One line for each bank."""
    x = np.random.default_rng(0).standard_normal((signals, samples)).astype(np.float32)
    names = ["wavelet", "taps", "multiply-adds a pair, summed", "lifted", "forward, lifted / pywt"]
    names += ["summed / pywt", "inverse, lifted / pywt", "summed / pywt"]
    check_copy.line(names)
    check_copy.line(["---"] * len(names))
    for bank, kind in itertools.product(BANKS, ("bior", "rbio")):
        wavelet = bank.replace("bior", kind)
        taps = [np.count_nonzero(f) for f in pywt.Wavelet(wavelet).filter_bank[:2]]
        figures = [f"{ratio:.2f}" for ratio in against_pywt(wavelet, x)]
        counts = [" and ".join(map(str, taps)), sum(taps), operations(BANKS[bank][0])]
        check_copy.line([wavelet, *counts, *figures])
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signals", type=int, default=64)
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--only", default="", help="a part of the names of the wavelets")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--heap", default="system", choices=heap.HEAPS, help="see --perf-heap")
    options = parser.parse_args()
    if not options.times:
        return errors(options.signals, options.samples)
    torch.set_num_threads(1)
    if options.heap != "system":
        heap.put_in_force(options.heap)
    with wavelets.backend("kernel"):
        return times(options.rounds, options.only)


if __name__ == "__main__":
    sys.exit(main())
