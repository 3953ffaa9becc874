"""Which implementation serves a transform: native kernels (C++, Triton), or torch operations.

"auto"      the kernel where it is built and takes the data, else torch: the default
"kernel"    the kernel, or an error that says why not
"torch"     torch operations
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import torch
from rightfast_kernels.dwt import native
from rightfast_kernels.dwt.native import AxisPlan, Plan
from rightfast_kernels.dwt.phases import is_batched
from torch import Tensor

from rightfast.wavelets import gpu
from rightfast.wavelets.step import Axes, plain_ops

BACKENDS = ("auto", "kernel", "torch")
_default = "auto"
_last = threading.local()


def backend(name: str) -> AbstractContextManager[None]:
    """The backend of all transforms inside the ``with`` block, in every thread.

    "auto" (the default) takes the native kernels, C++ for tensors of the CPU and Triton for those
    of a CUDA device, for float, half precision and complex tensors with fixed filters; all else,
    and what a compiler traces, runs as torch operations. "torch" never takes the kernel. "kernel"
    never takes anything else: a call that it cannot serve raises ValueError, and a compiler sees
    one operator. `served` tells which one ran.

    Raises ValueError for another name, and for "kernel" if it was not built.
    """
    if name not in BACKENDS:
        raise ValueError(
            f"expected a backend of {BACKENDS}, got {name!r}; 'auto' serves all devices"
        )
    if name == "kernel" and not (native.available or gpu.available()):
        raise ValueError(
            "the native kernels were not built, and there is no GPU: install rightfast with "
            '--no-build-isolation where torch and g++ are, or use backend "auto" or "torch"'
        )
    return _backend(name)


@contextmanager
def _backend(name: str) -> Iterator[None]:
    global _default
    before, _default = _default, name
    try:
        yield
    finally:
        _default = before


def served() -> str | None:
    """What served the last transform of this thread: "kernel", "torch", or None before any."""
    return getattr(_last, "name", None)


def note(name: str) -> None:
    """Records what served, unless a compiler is tracing."""
    if not torch.compiler.is_compiling():
        _last.name = name


def note_eager(name: str) -> None:
    """The same where no compiler is tracing."""
    _last.name = name


def takes_kernel() -> bool:
    """Whether a native kernel may serve a call at all."""
    return _default != "torch" and (native.available or gpu.available())


def takes(x: Tensor) -> bool:
    """Whether a native kernel takes ``x`` as it is."""
    return gpu.takes(x) if x.is_cuda else native.available and native.takes(x)


def takes_complex(x: Tensor) -> bool:
    """The same, or a complex tensor, which goes as pairs."""
    return takes(torch.view_as_real(x) if x.is_complex() and not x.is_conj() else x)


def kernel_serves(data: Sequence[Tensor], axes: Axes) -> bool:
    """Whether the native kernel serves these tensors, which `computed` has seen.

    Raises ValueError if it does not, but was asked for by name.
    """
    if _default == "kernel":
        obstacle = _obstacle(data, axes)
        if obstacle:
            raise ValueError(
                f'backend "kernel" cannot serve this call: {obstacle}; use backend "auto" or '
                '"torch"'
            )
        return True
    return (
        _default == "auto"
        and not plain_ops(axes)
        and len(axes) <= native.MOST_AXES
        and _has_kernel(data)
        and all(type(x) in _PLAIN and not is_batched(x) for x in data)
    )


def _has_kernel(data: Sequence[Tensor]) -> bool:
    """Whether there are kernels for the one device that all tensors are on."""
    if data[0].is_cuda:
        device = data[0].device
        return gpu.available() and all(x.device == device for x in data)
    return native.available and all(x.is_cpu for x in data)


def _obstacle(data: Sequence[Tensor], axes: Axes) -> str | None:
    for x in data:
        if not _has_kernel(data):
            return f"expected tensors of one device that kernels were built for, got {x.device}"
        if torch.compiler.is_compiling():
            continue
        if type(x) not in _PLAIN:
            return f"expected plain tensors, got {type(x).__name__}"
        if is_batched(x):
            return "expected plain tensors, got one that stands for a batch of gradients"
    if any(wavelet.learnable for _, wavelet, _ in axes):
        return "expected fixed filters, got tensors"
    if len(axes) > native.MOST_AXES:
        return f"expected at most {native.MOST_AXES} axes, got {len(axes)}"
    return None


_PLAIN = (Tensor, torch.nn.Parameter, torch.nn.Buffer)
_WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}

Lengths = Sequence[Sequence[tuple[int, int]]]


class Native:
    """One transform by the kernel: what `decompose` and `reconstruct` put in place of torch's.

    ``axes`` in the caller's order; ``lengths`` and ``keys`` for each level, the finest first:
    (samples, coefficients) along each axis, and the keys of the bands, in the caller's order,
    which come and go with the deepest level first. ``complex_``: the bands are complex.
    """

    def __init__(
        self,
        axes: Sequence[AxisPlan],
        lengths: Lengths,
        keys: Sequence[Sequence[str]],
        complex_: bool,
    ) -> None:
        order = sorted(range(len(axes)), key=lambda i: axes[i].dim)
        codes = [[_code(key, order) for key in level] for level in keys]
        self.complex = complex_
        self.plan: Plan = native.make_plan(
            [_shifted(axes[i], complex_) for i in order],
            [[level[i] for i in order] for level in lengths],
            [sum(1 << code for code in level) for level in codes],
        )
        self.order = _order(codes)
        self.sorted = self.order == sorted(self.order)
        # A straight line through two coefficients near the edge, and from there on through two of
        # its own values, is off by many times what float32 rounds.
        self.wide = len(lengths) > 1 and any(a.mode == "smooth" and len(a.lo) > 4 for a in axes)

    def down(self, x: Tensor, run: Callable[..., list[Tensor]] | None = None) -> tuple[Tensor, ...]:
        """The bands of ``x``: the approximation, if there is one, then the details."""
        run = run or (gpu.down if x.is_cuda else native.down)
        if self.wide and x.dtype in _WIDER:
            return tuple(band.to(x.dtype) for band in self.down(x.to(_WIDER[x.dtype]), run))
        if self.complex:
            bands = run(_pairs(x), self.plan)
            bands = [torch.view_as_complex(band) for band in bands]
        else:
            bands = run(x.contiguous(), self.plan)
        return tuple(bands) if self.sorted else tuple(bands[i] for i in self.order)

    def down_into(self, x: Tensor, out: Sequence[Tensor]) -> None:
        """`down` into contiguous tensors of what ``x`` is computed in, in the same order."""
        if self.wide and x.dtype in _WIDER:
            for place, band in zip(out, self.down(x.to(_WIDER[x.dtype])), strict=True):
                place.copy_(band)
            return
        out = self._placed(out)
        run = gpu.down if x.is_cuda else native.down_into
        if self.complex:
            run(_pairs(x), self.plan, [torch.view_as_real(band) for band in out])
        else:
            run(x.contiguous(), self.plan, out)

    def _placed(self, bands: Sequence[Tensor]) -> Sequence[Tensor]:
        """Bands in the caller's order as the kernel has them."""
        if self.sorted:
            return bands
        placed: list[Tensor] = [bands[0]] * len(bands)
        for place, band in zip(self.order, bands, strict=True):
            placed[place] = band
        return placed

    def up(self, bands: Sequence[Tensor], run: Callable[..., Tensor] | None = None) -> Tensor:
        """The adjoint: the signal from the bands in the same order."""
        run = run or (gpu.up if bands[0].is_cuda else native.up)
        bands = self._placed(bands)
        if self.complex:
            return torch.view_as_complex(run([_pairs(b) for b in bands], self.plan))
        return run(list(map(Tensor.contiguous, bands)), self.plan)

    def recalled_down(self, x: Tensor) -> list[Tensor]:
        """`down` of a real signal as a list, which may be changed."""
        if self.wide:
            return list(self.down(x))
        bands = (gpu.down if x.is_cuda else native.down)(x.contiguous(), self.plan)
        return bands if self.sorted else [bands[i] for i in self.order]

    def recalled_up(self, bands: Sequence[Tensor]) -> Tensor | None:
        """`up` of bands of which only the first and the last were looked at: None if any of them
        is not what this was made for. The kernel looks at each one's shape, dtype and memory."""
        try:
            return self.up(bands)
        except RuntimeError:
            return None

    def up_into(self, bands: Sequence[Tensor], out: Tensor) -> None:
        """`up` into a contiguous tensor of what the bands are computed in."""
        bands = self._placed(bands)
        run = gpu.up if out.is_cuda else native.up_into
        if self.complex:
            run([_pairs(b) for b in bands], self.plan, torch.view_as_real(out))
        else:
            run([b.contiguous() for b in bands], self.plan, out)


def _pairs(x: Tensor) -> Tensor:
    return torch.view_as_real(x.resolve_conj().contiguous())


def _shifted(axis: AxisPlan, complex_: bool) -> AxisPlan:
    """The same axis before real and imaginary parts became the last dimension."""
    if not complex_:
        return axis
    return AxisPlan(axis.dim - 1, axis.mode, axis.before, axis.lo, axis.hi)


def _code(key: str, order: Sequence[int]) -> int:
    return int("".join("01"[key[i] == "d"] for i in order), 2)


def _order(codes: Sequence[Sequence[int]]) -> list[int]:
    """For each band in the caller's order, its place in the kernel's: by level, then by code."""
    flat = [(-level, code) for level, some in enumerate(codes) for code in some]
    flat = [pair for level in reversed(range(len(codes))) for pair in flat if pair[0] == -level]
    places = {pair: i for i, pair in enumerate(sorted(flat))}
    return [places[pair] for pair in flat]
