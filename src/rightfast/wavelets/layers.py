"""`DWT` and `IDWT`: one level as a module, subbands in channels."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rightfast.wavelets.decompose import decompose
from rightfast.wavelets.inputs import as_tensor
from rightfast.wavelets.modes import as_mode
from rightfast.wavelets.reconstruct import reconstruct
from rightfast.wavelets.single import prepare
from rightfast.wavelets.step import Axes, band_keys
from rightfast.wavelets.wavelet import Wavelet, as_wavelet


class _Transform(nn.Module):
    """What `DWT` and `IDWT` share: the wavelet, the mode and how many trailing axes."""

    uses: tuple[str, str]  # the filters that this direction runs, and so registers

    def __init__(
        self, wavelet: Any, mode: Any = "symmetric", dims: int = 2, learnable: bool = False
    ) -> None:
        super().__init__()
        if dims < 1:
            raise ValueError(f"expected at least 1 spatial dimension, got dims={dims}")
        self.wavelet = as_wavelet(wavelet)
        self.mode = as_mode(mode)
        self.dims = dims
        if learnable and not self.wavelet.learnable:
            dtype = torch.get_default_dtype()
            bank = [nn.Parameter(torch.tensor(f, dtype=dtype)) for f in self.wavelet.filter_bank]
            self.wavelet = Wavelet(self.wavelet.name, bank)
        for name in self.uses:
            taps = getattr(self.wavelet, name)
            if isinstance(taps, nn.Parameter):
                self.register_parameter(name, taps)

    def _axes(self, x: Tensor) -> Axes:
        if x.ndim != self.dims + 2:
            other = f"give dims={x.ndim - 2}" if x.ndim > 2 else "add them, as in x[None, None]"
            raise ValueError(
                f"expected (batch, channels, and {self.dims} spatial dimensions), got a tensor of "
                f"shape {tuple(x.shape)}; {other}, or reshape"
            )
        dims = list(range(2, x.ndim))
        return prepare(self._wavelet(), self.mode, dims, x.ndim)

    def _wavelet(self) -> Wavelet:
        """The wavelet on the parameters that are registered now, which may have been replaced."""
        if not any(name in self._parameters for name in self.uses):
            return self.wavelet
        # In both places: the other direction does not run, and its filters are none of the
        # parameters that a tracer knows.
        pair = [self._parameters.get(name, getattr(self.wavelet, name)) for name in self.uses]
        return Wavelet(self.wavelet.name, [*pair, *pair])

    def extra_repr(self) -> str:
        return f"{self.wavelet.name!r}, mode={self.mode!r}, dims={self.dims}"


class DWT(_Transform):
    """One level of the transform over the trailing ``dims`` axes, bands in channels.

    ``(N, C, *spatial)`` -> ``(N, C 2^dims, *half)``: first the C channels of band "aa...a",
    then those of "a...ad", and so on to "dd...d"; ``y.chunk(2**dims, dim=1)`` takes them apart.

    Args:
        wavelet: name or `Wavelet`; its filters, if they are parameters, are this module's.
        mode: how the signal continues past its ends, see `Modes`.
        dims: how many spatial axes.
        learnable: whether to make parameters of the filters of a built-in wavelet.

    Raises ValueError for input of another rank, and as `dwtn`.
    """

    uses = ("dec_lo", "dec_hi")

    def forward(self, x: Tensor) -> Tensor:
        x = as_tensor(x)
        low, (details,) = decompose(x, self._axes(x), 1)
        return torch.cat([low, *(details[key] for key in band_keys(self.dims)[1:])], dim=1)


class IDWT(_Transform):
    """The inverse of `DWT`: ``(N, C 2^dims, *half)`` -> ``(N, C, *spatial)``.

    ``forward(y, size)`` crops to ``size``, the spatial shape that went into `DWT`: without it
    an odd size comes back one larger. Raises ValueError for channels that are not a multiple
    of 2^dims, input of another rank, a size that does not fit, and as `idwtn`.
    """

    uses = ("rec_lo", "rec_hi")

    def forward(self, y: Tensor, size: Sequence[int] | None = None) -> Tensor:
        y = as_tensor(y)
        keys, axes = band_keys(self.dims), self._axes(y)
        if y.shape[1] % len(keys):
            raise ValueError(
                f"expected a multiple of {len(keys)} channels, got {y.shape[1]}: every channel "
                f"needs its {len(keys)} subbands"
            )
        bands = dict(zip(keys, y.chunk(len(keys), dim=1), strict=True))
        x = reconstruct(bands.pop(keys[0]), [bands], axes)
        if size is None:
            return x
        have, want = tuple(x.shape[2:]), tuple(size)
        if len(have) != len(want):
            raise ValueError(f"expected {len(have)} numbers as size, got {want}")
        if any(w not in (h, h - 1) for h, w in zip(have, want, strict=True)):
            raise ValueError(f"cannot crop {have} to size {want}: at most one sample an axis")
        return x[(slice(None), slice(None), *(slice(w) for w in want))]
