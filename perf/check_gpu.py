"""Wavelets on one GPU: verified against float64, timed beside copy_, as Markdown.

    python perf/check_gpu.py targets               # LiteVAE, JPEG 2000 and large cases
    python perf/check_gpu.py recorded              # the small cases, recorded
    python perf/check_gpu.py strips                # how the fused kernels are cut
    python perf/check_gpu.py host                  # what the host spends on small calls

Microseconds are those of CUDA events around many calls in a row, divided by their number: the
host's time where that is the longer one. Medians of rounds in which all columns take turns.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from rightfast import wavelets

DEPTH = 3
CASES = {
    "haar zero 2x1x4096": ("haar", "zero", (2, 1, 4096), 1),
    "haar zero 2x1x256^2": ("haar", "zero", (2, 1, 256, 256), 2),
    "haar zero 2x1x64^3": ("haar", "zero", (2, 1, 64, 64, 64), 3),
    "bior2.2 symmetric 2x1x16384": ("bior2.2", "symmetric", (2, 1, 16384), 1),
    "bior2.2 symmetric 2x1x512^2": ("bior2.2", "symmetric", (2, 1, 512, 512), 2),
    "bior2.2 symmetric 2x1x96^3": ("bior2.2", "symmetric", (2, 1, 96, 96, 96), 3),
    "bior4.4 symmetric 2x1x16384": ("bior4.4", "symmetric", (2, 1, 16384), 1),
    "bior4.4 symmetric 2x1x512^2": ("bior4.4", "symmetric", (2, 1, 512, 512), 2),
    "bior4.4 symmetric 2x1x96^3": ("bior4.4", "symmetric", (2, 1, 96, 96, 96), 3),
    "haar zero 32x3x1024^2": ("haar", "zero", (32, 3, 1024, 1024), 2),
    "haar zero 4x1x256^3": ("haar", "zero", (4, 1, 256, 256, 256), 3),
    "bior2.2 symmetric 32x3x1024^2": ("bior2.2", "symmetric", (32, 3, 1024, 1024), 2),
    "bior4.4 symmetric 32x3x1024^2": ("bior4.4", "symmetric", (32, 3, 1024, 1024), 2),
}


def flat(coefficients: list[Any]) -> list[torch.Tensor]:
    found = [coefficients[0]]
    for bands in coefficients[1:]:
        found += bands.values()
    return found


def microseconds(calls: dict[str, Callable[[], Any]], rounds: int = 7) -> dict[str, float]:
    """The median time of a call of each, all of them in turn."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    counts = {}
    for name, call in calls.items():
        for _ in range(3):
            call()
        counts[name] = max(3, min(200, int(3000 / clock(call, 5))))
    for _ in range(rounds):
        for name, call in calls.items():
            taken[name].append(clock(call, counts[name]))
    return {name: statistics.median(times) for name, times in taken.items()}


def clock(call: Callable[[], Any], count: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(count):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e3 / count


def verified(name: str, x: torch.Tensor, wavelet: str, mode: str, axes: tuple[int, ...]) -> str:
    """The worst error of forward and inverse, relative to the largest value; raises if wrong."""
    exact = wavelets.wavedecn(x[:1].double().cpu(), wavelet, mode, DEPTH, axes)
    found = wavelets.wavedecn(x[:1].contiguous(), wavelet, mode, DEPTH, axes)
    assert wavelets.served() == "kernel"
    forward = max(
        float((a.double().cpu() - b).abs().max() / b.abs().max())
        for a, b in zip(flat(found), flat(exact), strict=True)
    )
    whole = wavelets.wavedecn(x, wavelet, mode, DEPTH, axes)
    back = wavelets.waverecn(whole, wavelet, mode, axes)
    index = tuple(slice(n) for n in x.shape)
    inverse = float((back[index] - x).abs().max() / x.abs().max())
    if not (forward < 5e-6 and inverse < 5e-6):
        raise SystemExit(f"{name}: wrong: {forward:.1e}, {inverse:.1e}")
    return f"{forward:.0e} / {inverse:.0e}"


def targets(some: str) -> None:
    print(
        "| case | copy_ | forward | inverse | gradient | forward, replayed | f / copy_ | i / copy_ "
        "| g / f | error |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, (wavelet, mode, shape, dims) in CASES.items():
        if some not in name:
            continue
        try:
            targets_of(name, wavelet, mode, shape, dims)
        except Exception as error:  # the other rows are worth having
            print(f"| {name} | {type(error).__name__}: {str(error).splitlines()[0][:150]} |")
        torch.cuda.empty_cache()


def targets_of(name: str, wavelet: str, mode: str, shape: tuple[int, ...], dims: int) -> None:
    axes = tuple(range(-dims, 0))
    x = torch.randn(shape, device="cuda")
    error = verified(name, x, wavelet, mode, axes)
    coefficients = wavelets.wavedecn(x, wavelet, mode, DEPTH, axes)
    y = torch.empty_like(x)
    leaf = x.clone().requires_grad_()
    outputs = flat(wavelets.wavedecn(leaf, wavelet, mode, DEPTH, axes))
    ones = [torch.randn_like(band) for band in outputs]
    found = microseconds(
        {
            "copy_": lambda: y.copy_(x),
            "forward": lambda: wavelets.wavedecn(x, wavelet, mode, DEPTH, axes),
            "inverse": lambda: wavelets.waverecn(coefficients, wavelet, mode, axes),
            "gradient": lambda: torch.autograd.grad(outputs, leaf, ones, retain_graph=True),
            "replayed": replayed(lambda: wavelets.wavedecn(x, wavelet, mode, DEPTH, axes)),
        }
    )
    c, f, i, g, r = found.values()
    print(
        f"| {name} | {c:.1f} | {f:.1f} | {i:.1f} | {g:.1f} | {r:.1f} | {f / c:.2f} | {i / c:.2f} "
        f"| {g / f:.2f} | {error} |",
        flush=True,
    )


def replayed(call: Callable[[], Any]) -> Callable[[], None]:
    """The replay of a CUDA graph of a call that was made before."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def recorded(some: str) -> None:
    """The small cases by `wavelets.recorded`, each verified first. Then what autograd takes itself
    for one result, and for ten."""
    print("| case | " + " | ".join(RECORDED) + " | error |\n|---|" + "---|" * (len(RECORDED) + 1))
    for name, (wavelet, mode, shape, dims) in CASES.items():
        if some in name and torch.Size(shape).numel() < 1 << 22:
            recorded_of(name, wavelet, mode, shape, tuple(range(-dims, 0)))
    calls = {"one": nothing(1), "ten": nothing(10)}
    one, ten = microseconds(calls).values()
    print(f"\nA gradient that costs nothing, of one result: {one:.1f}, of ten: {ten:.1f}")


RECORDED = (
    "forward, called",
    "tree",
    "tree, bound",
    "packed",
    "packed, bound",
    "inverse, called",
    "of a tree",
    "of packed",
    "of packed, bound",
    "gradient, called",
    "of a tree, recorded",
    "of packed, recorded",
)


def recorded_of(
    name: str, wavelet: str, mode: str, shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    def made(packed: bool, bound: bool = False) -> Any:
        return wavelets.recorded(
            wavelets.wavedecn, wavelet, mode, DEPTH, axes, packed=packed, bound=bound
        )

    def made_inverse(bound: bool = False) -> Any:
        return wavelets.recorded(wavelets.waverecn, wavelet, mode, axes=axes, bound=bound)

    def called(x: torch.Tensor) -> list[Any]:
        return wavelets.wavedecn(x, wavelet, mode, DEPTH, axes)

    def gradient(given: list[torch.Tensor], weights: list[torch.Tensor]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(given, leaf, weights, retain_graph=True)

    x = torch.randn(shape, device="cuda")
    leaf, coefficients, row = x.clone().requires_grad_(), called(x), made(True)(x)
    exact = flat(called(x.double().cpu()))
    weights = [torch.randn_like(band) for band in exact]
    slope = exact_gradient(called, x, weights)
    ours = [w.to(x) for w in weights]
    calls = (
        lambda: called(x),
        partial(made(False), x),
        partial(made(False, True), x),
        partial(made(True), x),
        partial(made(True, True), x),
        lambda: wavelets.waverecn(coefficients, wavelet, mode, axes),
        partial(made_inverse(), coefficients),
        partial(made_inverse(), row),
        partial(made_inverse(True), row),
        gradient(flat(called(leaf)), ours),
        gradient(flat(made(False)(leaf)), ours),
        gradient([made(True)(leaf).flat], [torch.cat([w.flatten() for w in ours])]),
    )
    wanted = [exact] * 5 + [[x]] * 4 + [[slope]] * 3
    error = 0.0
    for call, right in zip(calls, wanted, strict=True):
        for _ in range(3):  # recorded, and replayed twice
            found = call()
            found = found.unpack() if isinstance(found, wavelets.Packed) else found
            for a, b in zip(torch.utils._pytree.tree_leaves(found), right, strict=True):
                a, b = a[tuple(map(slice, b.shape))].double().cpu(), b.double().cpu()
                error = max(error, float((a - b).abs().max() / b.abs().max()))
    if not error < 5e-6:
        raise SystemExit(f"{name}: wrong: {error:.1e}")
    took = microseconds(dict(zip(RECORDED, calls, strict=True)))
    cells = " | ".join(f"{one:.1f}" for one in took.values())
    print(f"| {name} | {cells} | {error:.0e} |", flush=True)


def exact_gradient(
    call: Callable[[torch.Tensor], list[Any]], x: torch.Tensor, weights: list[torch.Tensor]
) -> torch.Tensor:
    leaf = x.double().cpu().requires_grad_()
    (found,) = torch.autograd.grad(flat(call(leaf)), leaf, weights)
    return found


def nothing(count: int) -> Callable[[], Any]:
    """A gradient that costs nothing, of so many results."""
    leaf = torch.zeros(8, device="cuda").requires_grad_()
    outputs = Nothing.apply(leaf, *(torch.zeros(8, device="cuda") for _ in range(count)))
    ones = [torch.ones_like(band) for band in outputs]
    return lambda: torch.autograd.grad(outputs, leaf, ones, retain_graph=True)


class Nothing(torch.autograd.Function):
    """Ten results and a gradient that cost nothing: what autograd takes by itself."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.gradient = x.detach()
        return tuple(band.view_as(band) for band in given)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return (ctx.gradient, *[None] * len(gradients))


def host() -> None:
    """What the host spends on a small call, and on its parts."""
    from rightfast_kernels.dwt import native

    line, image = (torch.randn(2, 1, *size, device="cuda") for size in ((4096,), (512, 512)))
    bands = wavelets.wavedec(line, "haar", "zero", DEPTH)
    tree = wavelets.wavedec2(image, "bior4.4", "symmetric", DEPTH)
    other = torch.empty_like(line)
    calls = {
        "copy_": lambda: other.copy_(line),
        "torch.empty": lambda: torch.empty((2, 1, 512), device="cuda"),
        "empty_many, 12 tensors": lambda: native.empty_many(line, [2, 1, 512] * 12, 3),
        "wavedec haar 2x1x4096": lambda: wavelets.wavedec(line, "haar", "zero", DEPTH),
        "waverec": lambda: wavelets.waverec(bands, "haar", "zero"),
        "wavedec2 bior4.4 2x1x512^2": lambda: wavelets.wavedec2(
            image, "bior4.4", "symmetric", DEPTH
        ),
        "waverec2": lambda: wavelets.waverec2(tree, "bior4.4", "symmetric"),
        "a gradient that costs nothing, of 10 results": nothing(10),
    }
    print("| call | host, us |\n|---|---|")
    for name, call in calls.items():
        print(f"| {name} | {min(enqueued(call) for _ in range(5)):.1f} |", flush=True)


def enqueued(call: Callable[[], Any], count: int = 400) -> float:
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call()
    taken = time.perf_counter() - start
    torch.cuda.synchronize()
    return taken / count * 1e6


def strips(some: str) -> None:
    """Both ways of a large batch by each cut, verified against the usual one."""
    from rightfast.wavelets import gpu, gpu_passes
    from rightfast.wavelets.gpu_tuned import CUTS

    print("| wavelet | cut | forward | inverse | f / copy_ | i / copy_ |")
    print("|---|---|---|---|---|---|")
    x = torch.randn(32, 3, 1024, 1024, device="cuda")
    y = torch.empty_like(x)
    usual = gpu_passes.cut_for
    for wavelet in ("bior4.4", "bior2.2"):
        right = wavelets.wavedec2(x, wavelet, "symmetric", 3)
        for name, cut in CUTS.items():
            if some not in wavelet:
                continue
            gpu_passes.cut_for = lambda *given, cut=cut: cut or usual(*given)
            gpu.forget()
            bands = wavelets.wavedec2(x, wavelet, "symmetric", 3)
            torch.testing.assert_close(bands, right, rtol=1e-5, atol=1e-5)
            back = wavelets.waverec2(bands, wavelet, "symmetric")
            torch.testing.assert_close(back, x, rtol=1e-4, atol=1e-4)
            del back
            calls = {
                "copy_": lambda: y.copy_(x),
                "forward": lambda: wavelets.wavedec2(x, wavelet, "symmetric", 3),  # noqa: B023
                "inverse": lambda: wavelets.waverec2(bands, wavelet, "symmetric"),  # noqa: B023
            }
            copy, forward, inverse = microseconds(calls, 3).values()
            print(
                f"| {wavelet} | {name} | {forward:.0f} | {inverse:.0f} "
                f"| {forward / copy:.2f} | {inverse / copy:.2f} |",
                flush=True,
            )
    gpu_passes.cut_for = usual


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("targets", "recorded", "strips", "host"))
    parser.add_argument("--some", default="", help="only cases whose name has this in it")
    chosen = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    if chosen.what == "strips":
        strips(chosen.some)
    elif chosen.what == "host":
        host()
    elif chosen.what == "recorded":
        recorded(chosen.some)
    else:
        targets(chosen.some)
    return 0


if __name__ == "__main__":
    sys.exit(main())
