"""What `recorded` gives: a transform that finds the recordings of a call, or calls the function."""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from rightfast_kernels.dwt.linear import LinearMap
from torch import Tensor
from torch.autograd import forward_ad

from rightfast.runtime import Backend, CudaGraphs, NotRecordable, NotRecorded
from rightfast.wavelets import backends, decompose, reconstruct
from rightfast.wavelets.inputs import check_axes
from rightfast.wavelets.layout import Layout, Packed, bands_of
from rightfast.wavelets.replays import Pass, Side
from rightfast.wavelets.single import prepare

# Up to so many bytes of data: of more, a copy takes the device what a call takes the host.
LARGEST = 1 << 25
_PLAIN = frozenset((Tensor, torch.nn.Parameter))
_shape, _kind = attrgetter("shape"), attrgetter("dtype", "device", "layout")
_wants_gradient = attrgetter("requires_grad")


@dataclass(frozen=True)
class Call:
    """The function, its arguments but the data, and what it is: whose coefficients it gives or
    takes ("wavedec", "wavedec2", "wavedecn"), and which way it goes."""

    function: Callable[..., Any]
    wavelet: Any
    mode: Any
    level: int | None
    axes: Any
    form: str
    inverse: bool

    def __call__(self, data: Any) -> Any:
        if self.inverse:
            return self.function(data, self.wavelet, self.mode, self.axes)
        return self.function(data, self.wavelet, self.mode, self.level, self.axes)

    def prepared(self, ndim: int) -> tuple[Any, ...]:
        """(dimension, wavelet, mode) for each axis of data of so many dimensions."""
        dims = check_axes(self.axes, ndim, self.form)
        return tuple(prepare(self.wavelet, self.mode, dims, ndim))


class Recorded:
    """A transform that `recorded` made. ``len()`` is the number of recordings that it keeps."""

    def __init__(
        self, call: Call, packed: bool, bound: bool, most: int, backend: Backend | None
    ) -> None:
        self._call, self._packed, self._bound, self._most = call, packed, bound, most
        self._backend: Backend = CudaGraphs() if backend is None else backend
        self._made = call, packed, bound, most, backend
        self._here = attrgetter(f"is_{self._backend.device}")
        self._plans: OrderedDict[Hashable, _Plan | None] = OrderedDict()
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has recorded nothing."""
        return Recorded, self._made

    def __len__(self) -> int:
        return sum(len(plan) for plan in self._plans.values() if plan)

    def __call__(self, data: Any) -> Any:
        """The transform of ``data``: a signal, a list of coefficients, or `Packed`."""
        if torch.compiler.is_compiling():
            return self._called(data)
        given, layout = self._read(data)
        if (
            not given
            or not self._here(given[0])
            or not _replayable(given, self._backend)
            or not backends.takes_kernel()
        ):
            return self._called(data)
        first = given[0]
        shapes = first.shape if len(given) == 1 else tuple(map(_shape, given))
        key = (shapes, first.dtype, first.get_device(), layout, self._backend.settings())
        try:
            plan = self._plans[key]
            self._plans.move_to_end(key)
        except KeyError:
            plan = self._meet(key, data, given)
        if plan is None:
            return self._called(data)
        backends.note_eager("kernel")
        if torch.is_grad_enabled() and any(map(_wants_gradient, given)):
            results = plan.linear(*given)
        else:
            results = plan.forward.replayed(given)
        if self._call.inverse:
            return results[0]
        return Packed(results[0], plan.layout) if self._packed else plan.layout.tree(results)

    def _read(self, data: Any) -> tuple[Sequence[Tensor] | None, Layout | None]:
        """The tensors to replay for, and how they are packed; None: nothing that is recorded."""
        given, layout = [data], None
        if type(data) is Packed:
            given, layout = [data.flat], data.layout
        elif self._call.inverse:
            given = bands_of(data, self._call.form) or []
        if not given or not _PLAIN.issuperset(map(type, given)):
            return None, None
        alike = given[0].layout is torch.strided and len(set(map(_kind, given))) == 1
        return (given if alike else None), layout

    def _called(self, data: Any) -> Any:
        """By the function itself."""
        if self._call.inverse:
            return self._call(self._unpacked(data) if isinstance(data, Packed) else data)
        coeffs = self._call(data)
        if not self._packed:
            return coeffs
        bands = bands_of(coeffs, self._call.form) or coeffs
        layout = self._layout(bands)
        return Packed(torch.cat([band.reshape(-1) for band in bands]), layout)

    def _layout(self, bands: Sequence[Tensor]) -> Layout:
        axes = 1 if self._call.form == "wavedec" else len(self._call.prepared(bands[0].ndim))
        return Layout(self._call.form, tuple(band.shape for band in bands), axes)

    def _unpacked(self, packed: Packed) -> list[Any]:
        flat, layout = packed
        if not isinstance(flat, Tensor) or not isinstance(layout, Layout):
            raise TypeError(
                f"expected coefficients as packed=True gives them, got Packed of a "
                f"{type(flat).__name__} and a {type(layout).__name__}; take other values by "
                "packed._replace(flat=...), a tensor of one dimension"
            )
        if layout.function != self._call.form or flat.shape != (sum(layout.sizes),):
            raise ValueError(
                f"expected coefficients packed by {self._call.form}, all in one dimension, got "
                f"{tuple(flat.shape)} for {sum(layout.sizes)} of {layout.function}; use the "
                "inverse of that function, and packed._replace(flat=...) for other values"
            )
        return packed.unpack()

    def _meet(self, key: Hashable, data: Any, given: Sequence[Tensor]) -> _Plan | None:
        """What to do with data like this from now on; None: call the function."""
        with torch.no_grad():  # which raises, or warns, where the data is wrong
            coeffs, signal = data, self._called(data)
            served = backends.served() == "kernel"
        if not self._call.inverse:
            coeffs, signal = signal, data
        coeffs = coeffs.unpack() if isinstance(coeffs, Packed) else coeffs
        bands = bands_of(coeffs, self._call.form)
        plan = None
        if served and bands and self._suits([signal, *bands]):
            plan = self._planned(signal, bands, type(data) is Packed or self._packed)
        if len(self._plans) >= self._most:
            self._plans.popitem(last=False)
        self._plans[key] = plan
        return plan

    def _suits(self, tensors: Sequence[Tensor]) -> bool:
        like = tensors[0]
        return (
            self._backend.refuses(tensors) is None
            and backends.takes_complex(like)
            and all(x.dtype == like.dtype and 0 < x.nbytes <= LARGEST for x in tensors)
        )

    def _planned(self, signal: Tensor, bands: Sequence[Tensor], packed: bool) -> _Plan | None:
        """The passes between a signal and its bands."""
        layout, axes, complex_ = (
            self._layout(bands),
            self._call.prepared(signal.ndim),
            signal.is_complex(),
        )
        sides = Side([signal.shape], False), Side(layout.shapes, packed)
        if not self._call.inverse:
            kernel = decompose.native_of(axes, layout.depth, tuple(signal.shape), complex_)
            plain = decompose.linear_of(kernel, axes, signal.shape, layout.depth)
        else:
            levels = reconstruct.plan_of(bands[0], layout.levels(bands), axes, True)
            if levels[0].low != levels[0].shape:
                return None  # an approximation that is cut first
            kernel = reconstruct.native_of(axes, tuple(levels), complex_)
            plain = reconstruct.linear_of(kernel, axes, levels)

        def down(given: Sequence[Tensor], results: Sequence[Tensor]) -> None:
            kernel.down_into(given[0], results)

        def up(given: Sequence[Tensor], results: Sequence[Tensor]) -> None:
            kernel.up_into(given, results[0])

        works, inverse = (down, up), self._call.inverse
        ways = []
        for number, run in enumerate((plain.run, plain.adjoint)):
            one, other = sides[inverse ^ number], sides[not inverse ^ number]
            bound = self._bound and not number  # gradients come from anywhere
            pass_ = Pass(self._backend, self._lock, works[inverse ^ number], one, other, bound)
            ways.append(_Way(pass_, run, one, other, self._backend))
        return _Plan(layout, *ways)


class _Way:
    """One direction: recorded where that can be, else by the operators."""

    def __init__(
        self, pass_: Pass, run: Callable[..., Any], inputs: Side, outputs: Side, backend: Backend
    ) -> None:
        self._pass, self._run, self._backend = pass_, run, backend
        self._inputs, self._outputs = inputs, outputs
        self._refused = False

    def __len__(self) -> int:
        return len(self._pass)

    def __call__(self, *given: Tensor) -> tuple[Tensor, ...]:
        if _replayable(given, self._backend):
            return self.replayed(given)
        return self._plainly(given)

    def replayed(self, given: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The same for what has been looked at."""
        if self._refused:
            return self._plainly(given)
        try:
            return self._pass(given)
        except NotRecordable as why:
            self._refused = True
            warnings.warn(f"a transform is not recorded: {why}", NotRecorded, stacklevel=4)
            return self._plainly(given)

    def _plainly(self, given: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return self._outputs.joined(self._run(*self._inputs.bands(given)))


class _Plan:
    """The two directions for one shape, dtype and device."""

    def __init__(self, layout: Layout, forward: _Way, backward: _Way) -> None:
        self.layout, self.forward, self.backward = layout, forward, backward
        self.linear = LinearMap(forward, backward)

    def __len__(self) -> int:
        return len(self.forward) + len(self.backward)


def _replayable(given: Sequence[Tensor], backend: Backend) -> bool:
    """Whether these may be given to a recording, now."""
    return not (
        backend.capturing()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack()
        or forward_ad._current_level >= 0
        or torch._C._get_tracing_state() is not None
        or _batched(given[0])
    )


_batched = torch._C._functorch.is_legacy_batchedtensor
