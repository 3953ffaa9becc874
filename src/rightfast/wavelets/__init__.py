"""Discrete wavelet transforms on torch tensors: PyWavelets' names, arguments and results.

    from rightfast import wavelets as pywt

is meant to be the only change a PyWavelets program needs. Every transform is differentiable,
any number of times, and works under torch.compile, torch.func and autocast.
"""

from rightfast.wavelets.catalogue import families, wavelist
from rightfast.wavelets.lengths import dwt_coeff_len, dwt_max_level, dwtn_max_level
from rightfast.wavelets.modes import Modes
from rightfast.wavelets.multilevel import wavedec, wavedec2, wavedecn, waverec, waverec2, waverecn
from rightfast.wavelets.single import dwt, dwt2, dwtn, idwt, idwt2, idwtn
from rightfast.wavelets.wavelet import Wavelet

__all__ = [
    "Modes",
    "Wavelet",
    "dwt",
    "dwt2",
    "dwt_coeff_len",
    "dwt_max_level",
    "dwtn",
    "dwtn_max_level",
    "families",
    "idwt",
    "idwt2",
    "idwtn",
    "wavedec",
    "wavedec2",
    "wavedecn",
    "wavelist",
    "waverec",
    "waverec2",
    "waverecn",
]
