"""One level: `dwt`, `dwt2`, `dwtn` and their inverses."""

from typing import Any

from torch import Tensor

from rightfast.wavelets.decompose import decompose
from rightfast.wavelets.inputs import as_tensor, check_axes, check_axis, read_axes
from rightfast.wavelets.modes import as_mode, modes_per_axis
from rightfast.wavelets.out import split_low
from rightfast.wavelets.reconstruct import reconstruct
from rightfast.wavelets.step import Axes, Bands
from rightfast.wavelets.wavelet import as_wavelet, wavelets_per_axis

Details2 = tuple[Tensor, Tensor, Tensor]


def dwt(
    data: Any, wavelet: Any, mode: Any = "symmetric", axis: int = -1, *, out: Any = None
) -> tuple[Tensor, Tensor]:
    """One level of the discrete wavelet transform along one axis.

    Args:
        data: tensor or array-like of any shape.
        wavelet: name, `Wavelet`, or PyWavelets' object.
        mode: how the signal continues past its ends, see `Modes`.
        axis: the axis to transform; N samples there.
        out: two tensors to fill, contiguous ones without a copy; they are the result then.

    Returns:
        ``(cA, cD)``, each with floor((N + F - 1) / 2) samples along ``axis`` for a filter of F
        taps, or ceil(N / 2) in mode "periodization":
        ``y[o] = sum_j dec[j] x~[2o + 1 - j]`` (Mallat, A Wavelet Tour of Signal Processing).

    Raises:
        ValueError: unknown wavelet or mode, no such axis (AxisError), an empty axis, or one
            sample in mode "reflect" or "antireflect"; ``out`` of other shapes or devices,
            overlapping, or where derivatives are recorded.
        TypeError: data that is not numeric, ``out`` of a dtype that does not hold the result.
    """
    x = as_tensor(data)
    low, (details,) = decompose(x, prepare_one(wavelet, mode, axis, x.ndim), 1, out=out)
    return low, details["d"]


def idwt(
    cA: Any,
    cD: Any,
    wavelet: Any,
    mode: Any = "symmetric",
    axis: int = -1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `dwt`: one level back along one axis.

    Args:
        cA, cD: approximation and detail of one shape; one of them may be None, for zeros.
        wavelet, mode, axis: as given to `dwt`; of the modes only "periodization" matters.
        out: a tensor to fill, a contiguous one without a copy; it is the result then.

    Returns:
        The signal, 2L - F + 2 samples along ``axis`` for L in each band (2L in mode
        "periodization"): ``x[n] = sum_k cA[k] rec_lo[n+F-2-2k] + cD[k] rec_hi[n+F-2-2k]``. An
        odd signal comes back one sample longer, as in PyWavelets.

    Raises:
        ValueError: both None, bands of different shapes, bands shorter than the filter allows,
            unknown wavelet or mode, no such axis, and ``out`` as for `dwt`.
        TypeError: bands that are not numeric, and ``out`` as for `dwt`.
    """
    low = None if cA is None else as_tensor(cA, "cA")
    high = None if cD is None else as_tensor(cD, "cD")
    if low is None and high is None:
        raise ValueError("At least one coefficient parameter must be specified.")
    if low is not None and high is not None and low.shape != high.shape:
        raise ValueError(
            "Coefficients arrays must have the same size: got cA "
            f"{tuple(low.shape)} and cD {tuple(high.shape)}"
        )
    ndim = (high if low is None else low).ndim  # type: ignore[union-attr]
    axes = prepare_one(wavelet, mode, axis, ndim, "coefficient")
    return reconstruct(low, [{} if high is None else {"d": high}], axes, out=out)


def prepare(wavelet: Any, mode: Any, dims: list[int], ndim: int) -> Axes:
    """(dimension counted from the end, wavelet, mode) for each axis."""
    wavelets, modes = wavelets_per_axis(wavelet, len(dims)), modes_per_axis(mode, len(dims))
    return list(zip([dim - ndim for dim in dims], wavelets, modes, strict=True))


def prepare_one(wavelet: Any, mode: Any, axis: Any, ndim: int, what: str = "data") -> Axes:
    """The same for the functions of one axis, which take one wavelet and one mode."""
    return [(check_axis(axis, ndim, what) - ndim, as_wavelet(wavelet), as_mode(mode))]


def dwtn(
    data: Any,
    wavelet: Any,
    mode: Any = "symmetric",
    axes: Any = None,
    *,
    out: dict[str, Tensor] | None = None,
) -> dict[str, Tensor]:
    """One level over several axes.

    Args:
        data: tensor or array-like of at least one dimension.
        wavelet, mode: as in `dwt`, or a sequence with one for each axis.
        axes: the axes to transform, each once, in any order; None is all of them.
        out: the bands to fill, all of them by key, as in `dwt`.

    Returns:
        The 2^d bands by key: character i, "a" or "d", says which filter ran along ``axes[i]``.

    Raises:
        ValueError: as `dwt`, and repeated axes.
        TypeError: data that is not numeric.
    """
    x = as_tensor(data)
    if x.ndim < 1:
        raise ValueError("Input data must be at least 1D")
    dims = check_axes(axes, x.ndim, "dwtn")
    low_key = "a" * len(dims)
    into = None if out is None else split_low(out, low_key)
    low, (details,) = decompose(x, prepare(wavelet, mode, dims, x.ndim), 1, out=into)
    return {low_key: low, **details}


def idwtn(
    coeffs: Any,
    wavelet: Any,
    mode: Any = "symmetric",
    axes: Any = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `dwtn`.

    Args:
        coeffs: bands by key, all of one shape; missing and None bands are zeros.
        wavelet, mode: as given to `dwtn`.
        axes: as given to `dwtn`; None is the first axes, as many as the keys have characters.
        out: as for `idwt`.

    Returns:
        The signal; along each axis as `idwt`. ``coeffs`` is left as it was.

    Raises:
        ValueError: no band at all, keys that are not made of "a" and "d" or differ in length,
            bands of different shapes, repeated axes, and as `idwt`.
        TypeError: ``coeffs`` is not a dict, or a band is not numeric.
    """
    bands = check_bands(coeffs)
    if not bands:
        raise ValueError("`coeffs` must contain at least one non-null wavelet band")
    first = next(iter(bands.values()))
    width = len(next(iter(bands)))
    if any(band.shape != first.shape for band in bands.values()):
        shapes = {key: tuple(band.shape) for key, band in bands.items()}
        raise ValueError(f"`coeffs` must all be of equal size (or None), got {shapes}")
    dims = check_axes(range(width) if axes is None else axes, first.ndim, "idwtn")
    if len(dims) != width:
        raise ValueError(f"keys of {width} characters need {width} axes, got {len(dims)}")
    low = bands.pop("a" * width, None)
    return reconstruct(low, [bands], prepare(wavelet, mode, dims, first.ndim), out=out)


def check_bands(coeffs: Any) -> Bands:
    """The bands that are there, as tensors, in a new dict."""
    if not isinstance(coeffs, dict):
        raise TypeError(f"expected a dict of bands by key, got {type(coeffs).__name__}")
    invalid = [key for key in coeffs if not isinstance(key, str) or not set(key) <= set("ad")]
    if invalid:
        raise ValueError(
            "The following invalid keys were found in the detail coefficient dictionary: "
            f"{invalid}; keys are made of 'a' and 'd'."
        )
    if len({len(key) for key in coeffs}) > 1:
        raise ValueError(
            f"All detail coefficient names must have equal length, got {sorted(coeffs)}."
        )
    return {key: as_tensor(v, f"band {key!r}") for key, v in coeffs.items() if v is not None}


def dwt2(
    data: Any, wavelet: Any, mode: Any = "symmetric", axes: Any = (-2, -1), *, out: Any = None
) -> tuple[Tensor, Details2]:
    """One level over two axes: ``(cA, (cH, cV, cD))``, as PyWavelets orders them.

    cH is the band "da" of `dwtn`: high-pass along ``axes[0]``, low-pass along ``axes[1]``; cV
    is "ad", cD is "dd". Arguments and errors as `dwtn`, ``out`` structured as the result;
    ValueError also if there are not two axes or data has fewer than two dimensions.
    """
    x = as_tensor(data)
    if x.ndim < 2:
        raise ValueError(
            f"Input array has fewer dimensions than the specified axes: got {x.ndim}-D data"
        )
    dims = check_axes(axes, x.ndim, "dwt2", count=2)
    low, (bands,) = decompose(x, prepare(wavelet, mode, dims, x.ndim), 1, out=out)
    return low, (bands["da"], bands["ad"], bands["dd"])


def idwt2(
    coeffs: Any,
    wavelet: Any,
    mode: Any = "symmetric",
    axes: Any = (-2, -1),
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `dwt2`, from ``(cA, (cH, cV, cD))``; any of the four may be None.

    Arguments and errors as `idwtn`; ValueError also for another structure, or not two axes.
    """
    try:
        low, (da, ad, dd) = coeffs
    except (TypeError, ValueError):
        raise ValueError(
            "expected bands as dwt2 gives them, (cA, (cH, cV, cD)), got "
            f"{type(coeffs).__name__}; None stands for a band of zeros"
        ) from None
    bands = {"aa": low, "da": da, "ad": ad, "dd": dd}
    return idwtn(bands, wavelet, mode, read_axes(axes, count=2), out=out)
