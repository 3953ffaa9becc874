"""``out=``: results written into tensors that the caller has, as torch's own functions do.

A float32 result may go into a float64 tensor, a real one into a complex one, not the other way;
nothing is recorded for derivatives. One rule is stricter than torch's: a tensor of another shape
is refused, where torch resizes it, with a warning that this is deprecated.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rightfast.wavelets.backends import takes_complex
from rightfast.wavelets.inputs import is_dense
from rightfast.wavelets.step import band_keys, derivatives


def read_out(out: Any, count: int, depth: int) -> list[Tensor]:
    """The tensors of ``out``, structured as a decomposition over ``count`` axes: the
    approximation, then each level's details in the order of their keys."""
    keys = band_keys(count)[1:]
    if not isinstance(out, (list, tuple)) or len(out) != depth + 1:
        got = f"{len(out)} entries" if isinstance(out, (list, tuple)) else type(out).__name__
        raise ValueError(
            f"expected out= as the result is, a list or tuple of {depth + 1} entries, got {got}; "
            "a result of an earlier call will do"
        )
    flat = [out[0]]
    for entry in out[1:]:
        bands = _by_key(entry)
        if sorted(bands) != sorted(keys):
            raise ValueError(
                f"expected details {keys} in each level of out=, got {sorted(bands)}; a result of "
                "an earlier call will do"
            )
        flat += [bands[key] for key in keys]
    return flat


def split_low(out: Any, key: str) -> list[Any]:
    """The bands of `dwtn` as `read_out` takes them."""
    if not isinstance(out, dict) or key not in out:
        raise ValueError(
            f"expected out= as a dict of all bands by key, {key!r} among them, got "
            f"{sorted(map(str, out)) if isinstance(out, dict) else type(out).__name__}; a result "
            "of an earlier call will do"
        )
    return [out[key], {k: band for k, band in out.items() if k != key}]


def _by_key(entry: Any) -> dict[str, Any]:
    if isinstance(entry, dict):
        return entry
    if isinstance(entry, (list, tuple)):
        names = ("da", "ad", "dd")[: len(entry)] if len(entry) == 3 else range(len(entry))
        return {str(name): band for name, band in zip(names, entry, strict=True)}
    return {"d": entry}


def check_out(
    out: Sequence[Any],
    shapes: Sequence[Sequence[int]],
    dtype: torch.dtype,
    inputs: Sequence[Tensor],
) -> None:
    """Raises unless results of these shapes and this dtype may be written to ``out``.

    TypeError: no tensor, or a dtype that would lose a part; ValueError: another shape or device,
    elements that share memory with one another or with an input, derivatives that are asked for.
    """
    device = inputs[0].device
    for tensor, shape in zip(out, shapes, strict=True):
        if not isinstance(tensor, Tensor) or not is_dense(tensor):
            raise TypeError(f"expected dense tensors in out=, got {type(tensor).__name__}")
        _check_one(tensor, tuple(shape), dtype, device)
    if any(derivatives(x) for x in (*inputs, *out)):
        raise ValueError(
            "out= records no derivatives, but got a tensor that requires a gradient, or a call "
            "inside torch.func or forward mode; use torch.no_grad(), or leave out= away"
        )
    if not torch.compiler.is_compiling():
        _check_memory(out, inputs)


def _check_one(tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype, device: Any) -> None:
    if tuple(tensor.shape) != shape:
        raise ValueError(
            f"expected out= of shape {shape}, got {tuple(tensor.shape)}; "
            + _remedy(shape, dtype, device)
        )
    kept = tensor.dtype.is_complex or (tensor.dtype.is_floating_point and not dtype.is_complex)
    if not kept:  # torch.can_cast, which a compiler does not trace
        raise TypeError(
            f"expected out= of a dtype that holds {dtype}, got {tensor.dtype}; "
            + _remedy(shape, dtype, device)
        )
    if tensor.device != device:
        raise ValueError(
            f"expected out= on {device}, got {tensor.device}; " + _remedy(shape, dtype, device)
        )


def _remedy(shape: tuple[int, ...], dtype: torch.dtype, device: Any) -> str:
    return f"give torch.empty({shape}, dtype={dtype}, device={str(device)!r})"


def _check_memory(out: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
    """Of tensors with gaps, such as views that interleave, nothing is known: see `writable`."""
    for tensor in out:
        if 0 in tensor.stride() and tensor.numel() and _repeats(tensor):
            raise ValueError(
                "expected each element of out= at a place of its own, got an expanded tensor; "
                "clone it first"
            )
    views = [(x.data_ptr(), tuple(x.shape), x.stride()) for x in out if _has_memory(x)]
    if len(set(views)) < len(views):
        raise ValueError("expected out= in memory of its own, got the same view twice; clone one")
    places = [(*_extent(x), True) for x in out if x.is_contiguous() and _has_memory(x)]
    places += [(*_extent(x), False) for x in inputs if x.is_contiguous() and _has_memory(x)]
    last = last_out = -1
    for start, end, written in sorted(places):
        if start < (last if written else last_out):
            two = written and start < last_out
            raise ValueError(
                "expected out= in memory of its own, got a tensor that overlaps "
                f"{'another tensor of out=' if two else 'an input'}; clone one of them"
            )
        last = max(last, end)
        last_out = max(last_out, end) if written else last_out


def _has_memory(x: Tensor) -> bool:
    """Not so the empty ones, nor those without data (device meta, fake tensors)."""
    return x.numel() > 0 and x.data_ptr() != 0


def _repeats(x: Tensor) -> bool:
    return any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape, strict=True))


def _meet(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are within reach of the same memory."""
    if not a.numel() or not b.numel():
        return False
    (start, end), (first, last) = _extent(a), _extent(b)
    return start < last and first < end


def _extent(x: Tensor) -> tuple[int, int]:
    start, size = x.data_ptr(), x.element_size()
    if x.is_contiguous():
        return start, start + x.numel() * size
    reach = sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    return start, start + (reach + 1) * size


def writable(out: Sequence[Tensor], dtype: torch.dtype, inputs: Sequence[Tensor]) -> bool:
    """Whether the kernel, which computes in ``dtype``, may write to ``out`` while it still reads
    the inputs, all as `check_out` has seen them. If not, the result is made first and copied."""
    if torch.compiler.is_compiling():
        return False
    inference = torch.is_inference_mode_enabled()
    gaps = [x for x in inputs if not x.is_contiguous()]
    return all(
        tensor.dtype == dtype
        and tensor.is_contiguous()
        and takes_complex(tensor)
        and not (tensor.is_neg() or tensor.is_conj() or tensor._is_zerotensor())
        and (inference or not tensor.is_inference())
        and not any(_meet(tensor, x) for x in gaps)
        for tensor in out
    )


def write(out: Sequence[Tensor], results: Sequence[Tensor]) -> None:
    """Copies results to where they shall be."""
    for tensor, result in zip(out, results, strict=True):
        tensor.copy_(result)
