"""What the suite does with one input: copy it, draw it anew, hand it over in float64, watch it.

An input leaf is a torch tensor, a numpy array, an `nn.Module` (its parameters and buffers are
inputs too), or anything else, which is passed on untouched.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Generator, Tensor


def is_array(leaf: Any) -> bool:
    return type(leaf).__module__.split(".")[0] == "numpy" and hasattr(leaf, "__array_interface__")


def from_array(array: Any) -> Tensor:
    """A tensor in the array's own memory; a copy where torch cannot have that (negative strides,
    a scalar, another byte order, more than float64)."""
    import torch

    kind, size = array.dtype.kind, array.dtype.itemsize
    wider = {"f": size > 8 and "float64", "c": size > 16 and "complex128"}.get(kind)
    if wider or not array.dtype.isnative:
        array = array.astype(wider or array.dtype.newbyteorder("="))
    if not _is_writable(array):
        array = array.copy()
    return torch.as_tensor(array, device="cpu")


def _is_writable(leaf: Any) -> bool:
    if not is_array(leaf) or not hasattr(leaf, "flags") or not hasattr(leaf, "setflags"):
        return False
    strides = all(stride >= 0 and stride % leaf.dtype.itemsize == 0 for stride in leaf.strides)
    return bool(leaf.flags.writeable) and strides


def tensors_of(leaf: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors that a leaf holds, with a suffix for the path: itself, or a module's state."""
    import torch

    if isinstance(leaf, torch.Tensor):
        yield "", leaf
    elif is_array(leaf) and leaf.dtype.kind in "fciub":
        yield "", from_array(leaf)
    elif isinstance(leaf, torch.nn.Module):
        for name, tensor in [*leaf.named_parameters(), *leaf.named_buffers()]:
            yield f".{name}", tensor


def holds_memory(leaf: Any) -> bool:
    """Whether new values can be put into the leaf: a tensor, a module, an array of any shape."""
    import torch

    return isinstance(leaf, torch.Tensor | torch.nn.Module) or _is_writable(leaf)


def clone(leaf: Any) -> Any:
    """The same values at a new address; strides are kept. A module is copied whole."""
    import torch

    if isinstance(leaf, torch.Tensor):
        return _clone_tensor(leaf).requires_grad_(leaf.requires_grad)
    if is_array(leaf):
        return leaf.copy(order="K")
    if isinstance(leaf, torch.nn.Module):
        return copy.deepcopy(leaf)
    return leaf


def _clone_tensor(tensor: Tensor) -> Tensor:
    import torch

    source = tensor.detach()
    known = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    if source.layout is not torch.strided or not known:
        return source.clone()
    if any(stride == 0 and size > 1 for size, stride in zip(source.shape, source.stride())):
        # An expanded tensor: copy what it holds once, expand again.
        held = source.as_strided(
            [1 if stride == 0 else size for size, stride in zip(source.shape, source.stride())],
            source.stride(),
        )
        return _clone_tensor(held).expand(source.shape)
    fresh = torch.empty_strided(
        source.shape, source.stride(), dtype=source.dtype, device=source.device
    )
    return fresh.copy_(source)


def vary(leaf: Any, generator: Generator) -> Any:
    """A fresh draw that keeps what most functions assume: sign, range, integer set, strides.

    Elements are permuted, floating ones also scaled by a common factor in [0.5, 1). A module's
    floating parameters get noise, so that none stays at its default of ones or zeros. Sorted,
    symmetric or index-structured inputs do not survive this: such cases say `vary=False`.
    """
    import torch

    if isinstance(leaf, torch.Tensor):
        return _vary_tensor(leaf, generator).requires_grad_(leaf.requires_grad)
    if is_array(leaf):
        fresh = leaf.copy(order="K")
        for _, tensor in tensors_of(fresh):
            tensor.copy_(_vary_tensor(tensor, generator))
        return fresh
    if isinstance(leaf, torch.nn.Module):
        fresh = copy.deepcopy(leaf)
        with torch.no_grad():
            for parameter in fresh.parameters():
                if parameter.is_floating_point():
                    parameter.add_(_normal_like(parameter, generator), alpha=0.1)
        return fresh
    return leaf


def _vary_tensor(tensor: Tensor, generator: Generator) -> Tensor:
    import torch

    fresh = _clone_tensor(tensor)
    if fresh.layout is not torch.strided or fresh.numel() == 0:
        return fresh
    if 0 in fresh.stride() and fresh.numel() > 1:
        fresh = fresh.clone()
    order = torch.randperm(fresh.numel(), generator=generator, device="cpu").to(fresh.device)
    fresh.copy_(fresh.reshape(-1)[order].view(fresh.shape))
    if fresh.is_floating_point() or fresh.is_complex():
        fresh.mul_(0.5 + 0.5 * torch.rand((), generator=generator, device="cpu").item())
    return fresh


def _normal_like(tensor: Tensor, generator: Generator) -> Tensor:
    import torch

    return torch.randn(tensor.shape, generator=generator, device="cpu").to(tensor)


def double(leaf: Any) -> Any:
    """The same values in float64 (complex128), exactly: every narrower float converts exactly."""
    import torch

    if isinstance(leaf, torch.Tensor):
        return _clone_tensor(leaf).to(wide(leaf.dtype))
    if is_array(leaf):
        wider = {"f": "float64", "c": "complex128"}.get(leaf.dtype.kind)
        return leaf.astype(wider) if wider else leaf.copy()
    if isinstance(leaf, torch.nn.Module):
        return copy.deepcopy(leaf).double()
    return leaf


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which a reference computes for inputs of `dtype`."""
    import torch

    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


def differentiable(tree_leaves: Iterator[tuple[Any, Any]]) -> list[tuple[str, Tensor]]:
    """The floating tensors among input leaves, made to require a gradient, with their names."""
    found = []
    for path, leaf in tree_leaves:
        if is_array(leaf):
            continue
        for suffix, tensor in tensors_of(leaf):
            if tensor.is_floating_point() or tensor.is_complex():
                if tensor.is_leaf:
                    tensor.requires_grad_()
                found.append(("input" + "".join(f"[{key!r}]" for key in path) + suffix, tensor))
    return found
