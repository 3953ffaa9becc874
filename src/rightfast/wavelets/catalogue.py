"""The built-in wavelets, read once from PyWavelets: a well-kept library beats a second table."""

from dataclasses import dataclass

import pywt

Bank = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Facts:
    """What PyWavelets knows of a wavelet beyond its coefficients."""

    family_name: str = ""
    short_family_name: str = ""
    family_number: int | None = None
    number: int | None = None
    orthogonal: bool = False
    biorthogonal: bool = False
    symmetry: str = "unknown"
    vanishing_moments_psi: int | None = 0
    vanishing_moments_phi: int | None = 0


def bank_of(wavelet: pywt.Wavelet) -> Bank:
    """(dec_lo, dec_hi, rec_lo, rec_hi) as tuples of floats."""
    dec_lo, dec_hi, rec_lo, rec_hi = (tuple(map(float, f)) for f in wavelet.filter_bank)
    return dec_lo, dec_hi, rec_lo, rec_hi


def facts_of(wavelet: pywt.Wavelet) -> Facts:
    return Facts(**{name: getattr(wavelet, name) for name in Facts.__dataclass_fields__})


def _load() -> dict[str, tuple[Bank, Facts]]:
    loaded = (pywt.Wavelet(name) for name in pywt.wavelist(kind="discrete"))
    return {w.name: (bank_of(w), facts_of(w)) for w in loaded}


# Read at import, under a millisecond: a plain dict of floats is what torch.compile can trace,
# and no tensor is kept (one made in inference mode would break training later).
BUILT_IN = _load()


def wavelist(family: str | None = None, kind: str = "all") -> list[str]:
    """Names of the built-in wavelets; ``kind`` is "all", "discrete" or "continuous".

    The transforms here take the discrete ones; the continuous names are listed because
    PyWavelets lists them. Raises ValueError for an unknown family or kind.
    """
    names: list[str] = pywt.wavelist(family, kind)
    return names


def families(short: bool = True) -> list[str]:
    """The wavelet families, by short name ("db") or in full ("Daubechies")."""
    names: list[str] = pywt.families(short)
    return names
