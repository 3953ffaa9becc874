"""What all writers share: samples in order, checked, and files that appear whole or not at all."""

import contextlib
import operator
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Layout = Literal["packed", "files"]


class Samples:
    """Samples to write: a tensor whose first axis counts them, or a sequence (a dataset, too).

    Iterating gives the bytes of each. Raises TypeError for samples that are no tensors, and
    ValueError for samples of unequal shape or dtype and for a sequence without any.
    """

    def __init__(self, samples: Any) -> None:
        if isinstance(samples, np.ndarray):
            samples = torch.from_numpy(samples)
        if not hasattr(samples, "__len__") or not hasattr(samples, "__getitem__"):
            raise TypeError(
                "expected samples as a tensor (the first axis counts them) or as a sequence of "
                f"tensors, got {type(samples).__name__}; make a list of it first"
            )
        if isinstance(samples, Tensor) and samples.ndim == 0:
            raise ValueError(
                "expected a tensor whose first axis counts the samples, got one without axes; "
                "give tensor[None] for a single sample"
            )
        self._samples: Sequence[Any] = samples
        if isinstance(samples, Tensor):
            self.shape, self.dtype = tuple(samples.shape[1:]), samples.dtype
        elif len(samples):
            first = _tensor(samples[0], 0)
            self.shape, self.dtype = tuple(first.shape), first.dtype
        else:
            raise ValueError(
                "expected at least one sample to take the shape from, got none; for an empty file "
                "give a tensor such as torch.empty(0, 3, 32, 32)"
            )

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        for index in range(len(self)):
            sample = _tensor(self._samples[index], index)
            if tuple(sample.shape) != self.shape or sample.dtype != self.dtype:
                raise ValueError(
                    f"expected samples of one shape and dtype, {self.shape} and {self.dtype} as "
                    f"the first one has, got {tuple(sample.shape)} and {sample.dtype} for sample "
                    f"{index}; pad or crop them first"
                )
            yield bytes_of(sample)


def _tensor(sample: Any, index: int) -> Tensor:
    if isinstance(sample, np.ndarray):
        return torch.from_numpy(sample)
    if not isinstance(sample, Tensor) or not is_plain(sample):
        raise TypeError(
            f"expected sample {index} as a dense tensor, got {type(sample).__name__}; write labels "
            "and other fields as datasets of their own"
        )
    return sample


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is its elements and nothing more: not sparse, nested, quantized or meta."""
    known = tensor.layout is torch.strided and not tensor.is_nested
    return known and not tensor.is_quantized and not tensor.is_meta


def bytes_of(sample: Tensor) -> NDArray[np.uint8]:
    """The elements of a tensor, in C order, as flat bytes."""
    plain = sample.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy()


def check_shard(shard: Any) -> None:
    """Raises TypeError and ValueError for what is no number of samples."""
    try:
        count = operator.index(shard)
    except TypeError:
        raise TypeError(
            f"expected shard= as an integer, got {type(shard).__name__} {shard!r}"
        ) from None
    if count < 1:
        raise ValueError(f"expected shard= of at least 1 sample, got {count}")


def check_layout(layout: str) -> None:
    """Raises ValueError for layouts that there are not."""
    if layout not in get_args(Layout):
        raise ValueError(f"expected layout 'packed' or 'files', got {layout!r}")


@contextlib.contextmanager
def appearing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to, which becomes ``path`` once all is written, and vanishes on an error.

    Raises FileExistsError where there is something already, and FileNotFoundError where there is
    no folder for it.
    """
    target = Path(path)
    if os.path.lexists(target):
        raise FileExistsError(
            f"expected a path that is free to write to, got {target}, which exists; remove it "
            "first, or choose another"
        )
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"expected a folder {target.parent} to write to, got none there; make it first"
        )
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        yield part
        os.rename(part, target)
    except BaseException:
        shutil.rmtree(part) if part.is_dir() else part.unlink(missing_ok=True)
        raise


def numbered(folder: Path, count: int, suffix: str) -> Iterator[Path]:
    """Names that sort in the order of the samples: 000000.npy, 000001.npy, ..."""
    digits = max(6, len(str(count - 1)))
    for index in range(count):
        yield folder / f"{index:0{digits}}{suffix}"


def needs_samples(samples: Samples, path: object) -> None:
    """One file a sample can't say what shape no samples have."""
    if not len(samples):
        raise ValueError(
            f"expected at least one sample for one file each in {path}, got none; use "
            "layout='packed', which keeps their shape"
        )
