"""Discrete wavelet transforms on torch tensors: PyWavelets' names, arguments and results.

    from rightfast import wavelets as pywt

is meant to be the only change a PyWavelets program needs. Every transform is differentiable,
any number of times, and works under torch.compile, torch.func and autocast.
"""

from rightfast.wavelets.backends import backend, served
from rightfast.wavelets.catalogue import families, wavelist
from rightfast.wavelets.gpu_tuned import tuned
from rightfast.wavelets.layers import DWT, IDWT
from rightfast.wavelets.layout import Packed
from rightfast.wavelets.lengths import (
    dwt_coeff_len,
    dwt_max_level,
    dwtn_max_level,
    wavedecn_shapes,
    wavedecn_size,
)
from rightfast.wavelets.modes import Modes
from rightfast.wavelets.multilevel import wavedec, wavedec2, wavedecn, waverec, waverec2, waverecn
from rightfast.wavelets.packed import (
    array_to_coeffs,
    coeffs_to_array,
    ravel_coeffs,
    unravel_coeffs,
)
from rightfast.wavelets.recording import recorded
from rightfast.wavelets.single import dwt, dwt2, dwtn, idwt, idwt2, idwtn
from rightfast.wavelets.wavelet import Wavelet

__all__ = [
    "DWT",
    "IDWT",
    "Modes",
    "Packed",
    "Wavelet",
    "array_to_coeffs",
    "backend",
    "coeffs_to_array",
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
    "ravel_coeffs",
    "recorded",
    "served",
    "tuned",
    "unravel_coeffs",
    "wavedec",
    "wavedec2",
    "wavedecn",
    "wavedecn_shapes",
    "wavedecn_size",
    "wavelist",
    "waverec",
    "waverec2",
    "waverecn",
]
