"""Values compared and hashed bit by bit: NaN equals itself, -0 differs from 0."""

from __future__ import annotations

import ctypes
import hashlib
from typing import TYPE_CHECKING, Any

from . import leaves, trees
from .case import Call
from .evaluate import Answer

if TYPE_CHECKING:
    from torch import Tensor


def fingerprint(call: Call) -> str:
    """A hash of all values, shapes and dtypes of one draw."""
    digest = hashlib.blake2b(digest_size=8)
    for path, leaf in trees.leaves(call.tree):
        parts = list(leaves.tensors_of(leaf))
        _update(digest, path, [tensor for _, tensor in parts])
        if not parts and isinstance(leaf, str | int | float | bool | None):
            digest.update(repr(leaf).encode())
    return digest.hexdigest()


def digest_of(answer: Answer) -> str:
    """A hash by which another process knows this answer again; empty if it holds anything else
    than plain tensors, whose every bit is known."""
    import torch

    digest = hashlib.blake2b(digest_size=16)
    for path, leaf in trees.leaves(vars(answer)):
        plain = type(leaf) is torch.Tensor and leaf.layout is torch.strided
        if not (plain or leaf is None):
            return ""
        _update(digest, path, [leaf] if plain else [])
    return digest.hexdigest()


def kinds_of(answer: Answer) -> str:
    """A hash of the type, dtype and shape of every leaf, which no process may give otherwise."""
    kinds = []
    for path, leaf in trees.leaves(vars(answer)):
        parts = [(str(tensor.dtype), tuple(tensor.shape)) for _, tensor in leaves.tensors_of(leaf)]
        kinds.append((shown(path), type(leaf).__name__, parts))
    return hashlib.blake2b(repr(kinds).encode(), digest_size=8).hexdigest()


def _update(digest: Any, path: trees.Path, tensors: list[Tensor]) -> None:
    digest.update(repr((path, [(t.shape, t.dtype) for t in tensors])).encode())
    for tensor in tensors:
        held = _bits(tensor).cpu()
        if size := held.numel() * held.element_size():  # as bytes, also without numpy
            digest.update((ctypes.c_char * size).from_address(held.data_ptr()))


def identical(left: Any, right: Any) -> bool:
    """Whether two results are the same plain tensors in the same structure, bit by bit.

    Anything else than a plain tensor, such as a number or a lazy object, is not called identical.
    """
    import torch

    if isinstance(left, torch.Tensor) or isinstance(right, torch.Tensor):
        plain = type(left) is type(right) is torch.Tensor and left.layout is torch.strided
        alike = plain and (left.dtype, left.device, left.shape) == (
            right.dtype,
            right.device,
            right.shape,
        )
        return alike and right.layout is torch.strided and _same_bits(left, right)
    mine, theirs = trees.children(left), trees.children(right)
    if mine is None or theirs is None or type(left) is not type(right):
        return left is right is None
    same = [key for key, _ in mine] == [key for key, _ in theirs]
    return same and all(identical(a, b) for (_, a), (_, b) in zip(mine, theirs))


def first_difference(left: Any, right: Any) -> str | None:
    """The path of the first leaf whose bits differ; results are compared with their copies."""
    if isinstance(left, Answer):
        left, right = vars(left), vars(right)
    mine, theirs = list(trees.leaves(left)), list(trees.leaves(right))
    for (path, a), (other, b) in zip(mine, theirs):
        plain = isinstance(a, str | int | float | None)
        if path != other or (plain and not (a == b or a != a)):
            return shown(path)
        for (suffix, x), (_, y) in zip(leaves.tensors_of(a), leaves.tensors_of(b)):
            if x.shape != y.shape or not _same_bits(x, y):
                return shown(path) + suffix
    if len(mine) != len(theirs):
        return shown(max(mine, theirs, key=len)[min(len(mine), len(theirs))][0])
    return None


def shown(path: trees.Path) -> str:
    return trees.show(path[1:] if path and path[0] == "output" else path)


def _same_bits(left: Tensor, right: Tensor) -> bool:
    import torch

    mine, theirs = _bits(left), _bits(right)
    odd = mine.numel() % 8 or mine.storage_offset() % 8 or theirs.storage_offset() % 8
    if mine.numel() == theirs.numel() > 0 and not odd:
        # Eight bytes at a time take a quarter of the time.
        mine, theirs = mine.view(torch.int64), theirs.view(torch.int64)
    return torch.equal(mine, theirs)


def _bits(tensor: Tensor) -> Tensor:
    """Integers of the same bits, so that NaN equals itself and -0 differs from 0."""
    import torch

    plain = tensor.detach()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    flat = plain.resolve_conj().resolve_neg().contiguous().reshape(-1)
    if flat.numel() == 1:
        flat = flat.as_strided((1,), (1,))  # one element may claim any stride
    return flat.view(torch.uint8) if flat.numel() else plain
