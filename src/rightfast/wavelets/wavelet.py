"""`Wavelet`: four filters and what is known of them; and how a wavelet argument is read."""

from collections.abc import Iterable, Sequence
from typing import Any

import pywt
import torch
from torch import Tensor

from rightfast.wavelets.catalogue import BUILT_IN, Bank, Facts, bank_of

TensorBank = tuple[Tensor, Tensor, Tensor, Tensor]


class Wavelet:
    """A discrete wavelet: built in, by name, or custom, by its four filters.

    ``Wavelet("db4")`` is PyWavelets' db4. ``Wavelet("mine", filter_bank)`` takes four equally
    long filters ``(dec_lo, dec_hi, rec_lo, rec_hi)``, or an object with such a
    ``filter_bank``. Filters of odd length get a zero at their end, as in PyWavelets.

    Filters may be 1-D tensors; they are then used as they are, so that parameters learn:
    gradients reach them through every transform. Filters as tensors run on the differentiable
    reference path.

    Raises TypeError without a name or filters, or for filters of the wrong kind; ValueError
    for an unknown name, or if there are not four filters of one length.
    """

    def __init__(self, name: str | None = None, filter_bank: Any = None) -> None:
        self._tensors: TensorBank | None = None
        self._floats: Bank | None = None
        facts = Facts()
        if filter_bank is not None:
            bank = _read_bank(name, getattr(filter_bank, "filter_bank", filter_bank))
            if isinstance(bank[0], Tensor):
                self._tensors = _even(bank)
            else:
                self._floats = bank_of(pywt.Wavelet(name or "", bank))
        elif name is None:
            raise TypeError(
                "Wavelet name or filter bank must be specified, got neither: see wavelist()"
            )
        else:
            name, self._floats, facts = _built_in(name)
        self.name = name
        self.family_name = facts.family_name
        self.short_family_name = facts.short_family_name
        self.family_number = facts.family_number
        self.number = facts.number
        self.orthogonal = facts.orthogonal
        self.biorthogonal = facts.biorthogonal
        self.symmetry = facts.symmetry
        self.vanishing_moments_psi = facts.vanishing_moments_psi
        self.vanishing_moments_phi = facts.vanishing_moments_phi

    @property
    def filter_bank(self) -> tuple[Any, Any, Any, Any]:
        """(dec_lo, dec_hi, rec_lo, rec_hi): lists of floats, or tensors if built from tensors."""
        if self._tensors is not None:
            return self._tensors
        dec_lo, dec_hi, rec_lo, rec_hi = (list(f) for f in self._as_floats())
        return dec_lo, dec_hi, rec_lo, rec_hi

    @property
    def inverse_filter_bank(self) -> tuple[Any, Any, Any, Any]:
        """The bank that swaps the two sides: each filter of the other side, reversed."""
        dec_lo, dec_hi, rec_lo, rec_hi = (
            f.flip(0) if isinstance(f, Tensor) else f[::-1] for f in self.filter_bank
        )
        return rec_lo, rec_hi, dec_lo, dec_hi

    def _as_floats(self) -> Bank:
        assert self._floats is not None
        return self._floats

    dec_lo = property(lambda self: self.filter_bank[0], doc="Decomposition low-pass filter.")
    dec_hi = property(lambda self: self.filter_bank[1], doc="Decomposition high-pass filter.")
    rec_lo = property(lambda self: self.filter_bank[2], doc="Reconstruction low-pass filter.")
    rec_hi = property(lambda self: self.filter_bank[3], doc="Reconstruction high-pass filter.")

    @property
    def dec_len(self) -> int:
        """Length of the decomposition filters, zeros at their ends included; always even."""
        return len((self._tensors or self._as_floats())[0])

    @property
    def rec_len(self) -> int:
        """Length of the reconstruction filters: equal to `dec_len`."""
        return self.dec_len

    @property
    def learnable(self) -> bool:
        """Whether the filters are tensors."""
        return self._tensors is not None

    def filters(self, like: Tensor, decompose: bool) -> tuple[Any, Any]:
        """The (low, high) pair for data ``like``: tuples of floats, or tensors beside it."""
        part = slice(0, 2) if decompose else slice(2, 4)
        if self._tensors is None:
            lo, hi = self._as_floats()[part]
            return lo, hi
        real = like.dtype.to_real() if like.dtype.is_complex else like.dtype
        lo, hi = (f.to(device=like.device, dtype=real) for f in self._tensors[part])
        return lo, hi

    def filters_as_floats(self, decompose: bool) -> tuple[Sequence[float], Sequence[float]]:
        """The (low, high) pair as floats, for fixed filters."""
        dec_lo, dec_hi, rec_lo, rec_hi = self._as_floats()
        return (dec_lo, dec_hi) if decompose else (rec_lo, rec_hi)

    def wavefun(self, level: int = 8) -> tuple[Any, ...]:
        """Approximations of the scaling and wavelet functions: PyWavelets' arrays."""
        bank = [f.tolist() if isinstance(f, Tensor) else f for f in self.filter_bank]
        twin = pywt.Wavelet(self.name) if self.short_family_name else pywt.Wavelet("", bank)
        result: tuple[Any, ...] = twin.wavefun(level)
        return result

    def __repr__(self) -> str:
        if self.short_family_name:
            return f"Wavelet({self.name!r})"
        return f"Wavelet({self.name!r}, filter_bank={self.filter_bank!r})"


def _built_in(name: Any) -> tuple[str, Bank, Facts]:
    if not isinstance(name, str):
        raise TypeError(f"expected a wavelet name or Wavelet, got {type(name).__name__}")
    known = BUILT_IN.get(name) or BUILT_IN.get(name.lower())
    if known is not None:
        return name.lower(), *known
    if name.lower() in pywt.wavelist(kind="continuous"):
        raise ValueError(
            f"{name!r} is a continuous wavelet; the transforms here take discrete ones: "
            "see wavelist(kind='discrete')"
        )
    raise ValueError(
        f"Unknown wavelet name {name!r}, check wavelist() for the list of available builtin "
        "wavelets."
    )


def _read_bank(name: Any, given: Any) -> list[Any]:
    """The four filters, each a tensor or a list of floats."""
    if not isinstance(name, (str, type(None))):
        raise TypeError(f"expected the name of a wavelet, or None, got {type(name).__name__}")
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise TypeError(
            "expected filters (dec_lo, dec_hi, rec_lo, rec_hi) or an object that has them as its "
            f"filter_bank, got {type(given).__name__}"
        )
    bank = [f if isinstance(f, Tensor) else _floats(f) for f in given]
    _check_bank(bank)
    return bank


def _floats(taps: Any) -> list[float]:
    try:
        if isinstance(taps, str):
            raise TypeError
        return [float(tap) for tap in taps]
    except (TypeError, ValueError):
        raise TypeError(
            f"expected a filter as a sequence of real numbers, got {taps!r} "
            f"({type(taps).__name__}); give four such filters"
        ) from None


def _check_bank(bank: Sequence[Any]) -> None:
    if len(bank) != 4:
        raise ValueError(
            f"expected 4 filters (dec_lo, dec_hi, rec_lo, rec_hi), got {len(bank)} filters"
        )
    tensors = [isinstance(f, Tensor) for f in bank]
    if any(tensors):
        if not all(tensors):
            raise TypeError("expected four tensors or four sequences of floats, got a mixture")
        wrong = [
            f"{tuple(f.shape)} {f.dtype}" for f in bank if f.ndim != 1 or not f.is_floating_point()
        ]
        if wrong:
            raise TypeError(f"expected 1-D tensors of real floats as filters, got {wrong}")
    lengths = [len(f) for f in bank]
    if len(set(lengths)) != 1 or lengths[0] == 0:
        raise ValueError(
            f"expected four filters of one length greater than 0, got lengths {lengths}; "
            "pad the shorter ones with zeros"
        )


def _even(bank: Sequence[Tensor]) -> TensorBank:
    odd = len(bank[0]) % 2
    padded = [torch.nn.functional.pad(f, (0, 1)) if odd else f for f in bank]
    return padded[0], padded[1], padded[2], padded[3]


# One object for each name: plans are found by it.
_NAMED = {name: Wavelet(name) for name in BUILT_IN}


def as_wavelet(wavelet: Any) -> Wavelet:
    """A `Wavelet` from a name, a `Wavelet`, PyWavelets' object, or any with a ``filter_bank``."""
    if isinstance(wavelet, Wavelet):
        return wavelet
    if isinstance(wavelet, str) and wavelet in _NAMED:
        return _NAMED[wavelet]
    if isinstance(wavelet, pywt.ContinuousWavelet):
        raise ValueError(
            f"{wavelet.name!r} is a ContinuousWavelet, but only discrete Wavelet objects are "
            "supported by this function: see wavelist(kind='discrete')"
        )
    if isinstance(wavelet, pywt.Wavelet):
        built_in = BUILT_IN.get(wavelet.name)
        if built_in is None or built_in[0] != bank_of(wavelet):
            return Wavelet(wavelet.name, wavelet)
        return Wavelet(wavelet.name)
    if hasattr(wavelet, "filter_bank"):
        return Wavelet(getattr(wavelet, "name", None), wavelet)
    return Wavelet(wavelet)


def wavelets_per_axis(wavelet: Any, count: int) -> list[Wavelet]:
    """One wavelet for each of ``count`` axes, from one for all or a sequence of them.

    Raises ValueError if the sequence is of another length, or for anything else.
    """
    one = isinstance(wavelet, (str, pywt.ContinuousWavelet)) or hasattr(wavelet, "filter_bank")
    if one:
        return [as_wavelet(wavelet)] * count
    if not isinstance(wavelet, Iterable):
        raise ValueError(
            f"wavelet must be a str, Wavelet or iterable of them, got {type(wavelet).__name__}"
        )
    given = [as_wavelet(w) for w in wavelet]
    if len(given) == 1:
        return given * count
    if len(given) != count:
        raise ValueError(
            "The number of wavelets must match the number of axes to be transformed: "
            f"got {len(given)} wavelets for {count} axes."
        )
    return given
